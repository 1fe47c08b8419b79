"""The report of a replay."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lerobot_diagnostics.findings import Finding, Picture, Report, Table, by_severity
from lerobot_diagnostics.recording import Episode
from lerobot_diagnostics.recording.names import is_gripper
from lerobot_diagnostics.replay.judge import outcome_table, take_findings, tracking, tracking_findings, verdict
from lerobot_diagnostics.replay.pictures import (
    RecordedFrames,
    misalignment,
    others,
    workspace_findings,
    write_strips,
)
from lerobot_diagnostics.replay.play import Take
from lerobot_diagnostics.replay.session import Session
from lerobot_diagnostics.report.format import hundredths
from lerobot_diagnostics.report.plots import joint_curves
from lerobot_diagnostics.report.write import atomic_file

TAKES_DRAWN = 3
"""Attempts whose pictures go into the report; the figures of all are in it."""


def summarize(
    command: str,
    session: Session,
    checks: Sequence[Finding],
    pairs: Mapping[str, str],
    moments: Mapping[int, Mapping[int, str]],
    *,
    alpha: float,
    folder: Path,
    inputs: Mapping[str, Any],
    versions: Mapping[str, str],
    tables: Sequence[Table],
) -> Report:
    """Judge a session, write its pictures and frames into ``folder``.

    Args:
        command: The command's name.
        session: What was measured.
        checks: Findings from before the motion.
        pairs: ``{live camera: recorded key}``.
        moments: ``{episode: key moments}``.
        alpha: Opacity of the recorded picture in overlays.
        folder: The output folder.
        inputs, versions: For the report.
        tables: Shown before the others.
    """
    findings, pictures, more = list(checks), [], []
    results: dict[str, Any] = {"attempts": []} if session.takes else {"attempts": [], "done": "nothing was sent"}
    for n, take in enumerate(session.takes):
        tracked = tracking(take)
        findings += take_findings(take)
        if take.ending.finished:
            findings += tracking_findings(tracked)
        results["attempts"].append(_measured(take, tracked))
        if n < TAKES_DRAWN and len(take.sent) > 1:
            drawn, measured, seen = _pictures(take, session.first[n], pairs, moments, alpha, folder)
            pictures += drawn
            more += measured
            if n == 0:
                findings += seen
    if any(len(take.sent) for take in session.takes):
        _write_frames(folder / "frames.csv", session.takes)
        more.insert(0, outcome_table(session.takes, session.outcomes))
        more.insert(1, _tracking_table(session.takes[0]))
    findings = by_severity(_once(findings))
    return Report(
        command,
        verdict(findings, session.outcomes, session.takes),
        findings,
        inputs=inputs,
        versions=versions,
        results=results,
        tables=[*tables, *more],
        pictures=pictures,
    )


def _once(findings: Sequence[Finding]) -> list[Finding]:
    """Several attempts say the same of a joint: the first is enough, unless they differ in status."""
    seen: dict[tuple[str, str, str], Finding] = {}
    for finding in findings:
        seen.setdefault((finding.code, finding.subject, finding.status.value), finding)
    return list(seen.values())


def _measured(take: Take, tracked: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "episode": take.plan.episode.index,
        "attempt": take.attempt,
        "ended": take.ending.end.value,
        "detail": take.ending.detail,
        "frames": len(take.sent),
        "start_error": take.start_error,
        "lost_packets": take.lost_packets,
        "failed_reads": take.failed_reads,
        "joints": {key: vars(value) for key, value in tracked.items()},
    }


def _tracking_table(take: Take) -> Table:
    rows = [
        [key, hundredths(t.rms), t.lag_s * 1000, hundredths(t.offset), hundredths(t.standing)]
        for key, t in tracking(take).items()
    ]
    columns = ["joint", "rms to recorded", "lag ms", "offset at rest", "off its command at rest"]
    return Table("Achieved against recorded", columns, rows)


def _pictures(
    take: Take,
    first: Mapping[str, Any],
    pairs: Mapping[str, str],
    moments: Mapping[int, Mapping[int, str]],
    alpha: float,
    folder: Path,
) -> tuple[list[Picture], list[Table], list[Finding]]:
    plan = take.plan
    name = f"episode {plan.episode.index} attempt {take.attempt}"
    drawn = [_curves(take, name, folder)]
    frames = RecordedFrames(plan.episode, pairs)
    if not frames.pairs or not take.kept:
        return drawn, [], []
    drawn += write_strips(folder, name, take.kept, frames, moments[plan.episode.index], alpha)
    seen = []
    if first:
        rest: list[Episode] = others(plan.episode.recording, plan.episode.index, list(frames.pairs.values()))
        seen = workspace_findings(first, plan, frames, rest)
    return drawn, [misalignment(take.kept, frames)], seen


def _curves(take: Take, name: str, folder: Path) -> Picture:
    columns = [j for j, key in enumerate(take.plan.keys) if np.isfinite(take.achieved[:, j]).any()]
    keys = [take.plan.keys[j] for j in columns]
    path = folder / f"{name.replace(' ', '_')}_joints.png"
    recorded = np.where(np.isfinite(take.plan.states), take.plan.states, take.plan.actions)[: len(take.sent)]
    joint_curves(
        path,
        names=keys,
        units=["0–100" if is_gripper(key) else "" for key in keys],
        timestamps=np.arange(len(take.sent)) / take.plan.episode.fps,
        recorded=recorded[:, columns],
        predicted=take.achieved[:, columns],
        title=f"{name}: recorded, and achieved (dashed), over the recording's time",
    )
    return Picture(path.name, f"{name}: recorded and achieved joints", "Joints")


def _write_frames(path: Path, takes: Sequence[Take]) -> None:
    """Asked, sent, achieved and recorded of every frame, as CSV."""
    keys = takes[0].plan.keys
    kinds = ("asked", "sent", "achieved", "recorded")
    with atomic_file(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["episode", "attempt", "frame", "time_s", *(f"{kind} {key}" for kind in kinds for key in keys)])
        for take in takes:
            for k in range(len(take.sent)):
                values = np.concatenate([take.asked[k], take.sent[k], take.achieved[k], take.plan.states[k]])
                cells = ["" if np.isnan(v) else f"{v:.6g}" for v in values]
                writer.writerow([take.plan.episode.index, take.attempt, k, f"{take.time_s[k]:.4f}", *cells])
