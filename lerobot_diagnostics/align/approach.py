"""Easing the arm to the recorded start: planned, shown, confirmed, and only then sent."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table

from lerobot_diagnostics.align.reference import StartViews
from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Cause, Finding, Status
from lerobot_diagnostics.recording.names import match
from lerobot_diagnostics.robot import Arm, Ending, Keys, Mover
from lerobot_diagnostics.robot.joints import check_units, is_old_convention
from lerobot_diagnostics.robot.keys import ENTER
from lerobot_diagnostics.robot.move import End

POLL_S = 0.02
ROUTE_POSES = 60
"""Recorded poses that bound the way, spread over the episode."""
BY_HAND = "Bring the arm to the start by hand, without --strategy.go_to_start."
CODES = {
    End.STALLED: ("OVERLOAD", Cause.MOTORS),
    End.NOT_ARRIVED: ("STANDING_ERROR", Cause.MOTORS),
    End.ARM_LOST: ("BUS_ERRORS", Cause.MOTORS),
    End.CAMERA_LOST: ("DEAD", Cause.CAMERAS),
}


class Approach:
    """The way to the recorded start of one episode.

    Args:
        arm: The robot.
        starts: The recording.
        episode: Whose start.
        speed: Degrees (or ±100) a second of the fastest joint.

    Raises:
        UsageError: The recorded joints are not the robot's, or in another unit or convention.
    """

    def __init__(self, arm: Arm, starts: StartViews, episode: int, speed: float) -> None:
        recording, source = starts.recording, starts.recording.episode(episode)
        names = source.state_names
        if is_old_convention(names):
            raise UsageError(f"{recording.label} has joint zeros of before mid-2025 (names like {names[0]}).", BY_HAND)
        found = match(tuple(arm.joints), names) if source.states.shape[1] else {}
        missing = [key for key in arm.joints if found.get(key) is None]
        if missing:
            raise UsageError(f"{recording.label} records no state of {', '.join(missing)}.", BY_HAND)
        columns = {key: names.index(name) for key, name in found.items() if name is not None}
        values = source.states[:, list(columns.values())].astype(np.float64)
        self.units = check_units(arm.joints, values, list(columns))
        if self.units.status is Status.FAIL:
            raise UsageError(f"{self.units.summary}.", self.units.fix)
        rows = np.unique(np.linspace(0, len(values) - 1, ROUTE_POSES).round()).astype(int)
        self._recorded = [dict(zip(columns, row.tolist(), strict=True)) for row in values[rows]]
        self.goal = dict(zip(columns, values[starts.frame].tolist(), strict=True))
        self._arm, self._speed = arm, speed

    def show(self, live: dict[str, float], console: Console) -> None:
        """Print what is going to happen: each joint's way, how fast, how long."""
        table = Table("joint", "now", "recorded start", "way", title="Going to the recorded start")
        for key, value in self.goal.items():
            here = live[key]
            table.add_row(key, f"{here:.1f}", f"{value:.1f}", f"{value - here:+.1f}")
        console.print(table)
        farthest = max(abs(value - live[key]) for key, value in self.goal.items())
        seconds = 1.5 * farthest / self._speed  # the eased motion's mean speed is two thirds of its fastest
        console.print(f"at most {self._speed:g} a second, about {seconds:.1f} s. Keep clear of the arm.")
        if self.units.status is Status.UNKNOWN:
            console.print(f"unknown: {self.units.summary}. {self.units.fix}", soft_wrap=True)

    def go(self, stopped: Callable[[], bool]) -> Ending:
        """Move; returns within a tick of ``stopped``.

        Raises:
            UsageError: No way there keeps the tool above its lowest recorded height; nothing was sent.
        """
        try:
            return Mover(self._arm, stopped=stopped).ease_to(self.goal, self._recorded, self._speed)
        except UsageError as error:
            raise UsageError(error.message, BY_HAND) from error


def confirmed(keys: Keys, stopped: Callable[[], bool], sleep: Callable[[float], None]) -> bool:
    """Wait for ENTER; false after any other key or a stop."""
    while not stopped():
        key = keys.poll()
        if key is not None:
            return key == ENTER
        sleep(POLL_S)
    return False


def finding(ending: Ending) -> Finding | None:
    """What kept the arm from arriving; None when it arrived or was stopped."""
    if ending.end not in CODES:
        return None
    code, cause = CODES[ending.end]
    summary = f"the arm did not reach the recorded start: {ending.detail}"
    return Finding(code, Status.FAIL, cause, ending.joint or "arm", summary, {}, "Free the arm, then start again.")
