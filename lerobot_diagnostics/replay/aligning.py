"""``--align_only=true``: the live loop of ``align`` at the first recorded frame. Sends nothing."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lerobot_diagnostics.align.loop import ENTER, Outcome, Settings, align
from lerobot_diagnostics.align.measure import Meter, Worker
from lerobot_diagnostics.align.misalignment import Tolerance
from lerobot_diagnostics.align.reference import StartViews
from lerobot_diagnostics.align.session import Session
from lerobot_diagnostics.align.terminal import TerminalView
from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Finding, Report
from lerobot_diagnostics.replay.plan import Plan
from lerobot_diagnostics.replay.pump import Pump
from lerobot_diagnostics.robot import Keys, Reading
from lerobot_diagnostics.robot.move import Ending, Mover

FPS = 30.0
UNATTENDED_S = 10.0
"""How long a look without anybody there waits for a measurement of every camera."""


def align_views(
    mover: Mover, plan: Plan, pairs: Mapping[str, str], pump: Pump, keys: Keys, console: Any, *, attended: bool
) -> Outcome:
    """Measure the live views against the episode's first frame until ENTER, ``q`` or a stop.

    Args:
        mover: Only read from.
        plan: The episode.
        pairs: ``{live camera: recorded key}``.
        pump: Shows and records.
        keys: An entered :class:`~lerobot_diagnostics.robot.keys.Keys`.
        console: Where the corrections are printed.
        attended: Whether somebody ends it; else it ends with the first measurement of every camera.

    Raises:
        UsageError: The arm cannot be read, or no recorded pictures are here.
    """
    cameras = {camera: key for camera, key in pairs.items() if plan.episode.has_videos(key)}
    if not cameras:
        raise UsageError(
            f"{plan.episode.recording.label} has no pictures here of any camera of the robot: nothing to align with.",
            "Fetch the videos, or name the cameras in --robot.cameras and --rename_map.",
        )
    starts = StartViews(plan.episode.recording, cameras, mover.arm.joints)
    tolerance = Tolerance()
    meter = Meter(tolerance, backgrounds=starts.backgrounds(plan.episode.index), steady=starts.comparer().steady)
    pump.plan(plan)
    started = time.perf_counter()

    def read() -> Reading:
        reading = mover.read()
        if isinstance(reading, Ending):
            raise UsageError(f"the arm can no longer be read: {reading.detail}", "Check its cables.")
        pump(0, reading)
        return reading

    with TerminalView(console, keys=keys.interactive) as view, Worker(meter, time.perf_counter) as worker:

        def poll() -> str | None:
            if attended:
                return keys.poll()
            done = worker.latest()[1].keys() >= cameras.keys()
            return ENTER if done or time.perf_counter() - started > UNATTENDED_S else None

        return align(
            read,
            starts,
            plan.episode.index,
            worker,
            settings=Settings(tolerance),
            displays=[view],
            poll=poll,
            wait=mover.pacer(1 / FPS).wait,
            clock=time.perf_counter,
        )


def align_report(
    command: str, outcome: Outcome, checks: Sequence[Finding], folder: Path, inputs: Mapping[str, Any]
) -> Report:
    """What the views were like at the start and the end, with pictures of both written into ``folder``."""
    session = Session(folder, command=command, inputs=inputs, tolerance=Tolerance(), strict=False)
    session.checks, session.outcome = list(checks), outcome
    session.write()
    report = session.report()
    # What the rollout strategy would do about it is no flag of this command.
    own = [dataclasses.replace(f, fix="" if "--strategy." in f.fix else f.fix) for f in report.findings]
    return dataclasses.replace(report, findings=own)
