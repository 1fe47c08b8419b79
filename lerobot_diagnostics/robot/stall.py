"""Something holds a joint, or it has given up: seen before the gears are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from lerobot_diagnostics.recording.names import is_gripper

LAG_DEG = 15.0
HELD_S = 0.3
"""A joint that stays this far behind for this long is stalled. STS3215 servos at P = 16 stand 2–3° off their goal;
what a fast demonstration lags by itself (up to 32 of ±100 in so101_record_test_stateonly) is given as ``allowed``."""


@dataclass(frozen=True)
class Stall:
    """A joint that does not follow.

    Args:
        joint: Its key.
        lag: How far it is behind its goal, in its unit.
        load: Share of the largest torque, NaN when not read.
    """

    joint: str
    lag: float
    load: float


class StallMonitor:
    """Watches goals against positions, and loads where the motors tell them. Grippers hold things: they may lag."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def update(
        self,
        time_s: float,
        goal: Mapping[str, float],
        present: Mapping[str, float],
        *,
        allowed: Mapping[str, float] | None = None,
        loads: Mapping[str, float] | None = None,
    ) -> Stall | None:
        """Look once.

        Args:
            time_s: Now.
            goal, present: By joint key, in degrees (or ±100).
            allowed: Lag that is normal here, by key (what the recording lagged).
            loads: Share of the largest torque by key, 1 at the limit.

        Returns:
            The stalled joint, None while all is well.
        """
        allowed, loads = allowed or {}, loads or {}
        for key, wanted in goal.items():
            if is_gripper(key) or key not in present:
                continue
            lag = abs(wanted - present[key])
            if lag <= LAG_DEG + allowed.get(key, 0.0) and loads.get(key, 0.0) < LOAD_LIMIT:
                self._since.pop(key, None)
            elif time_s - self._since.setdefault(key, time_s) >= HELD_S - 1e-9:  # sums of periods are not exact
                return Stall(key, lag, loads.get(key, math.nan))
        return None


LOAD_LIMIT = 0.95
"""Share of the largest torque that counts as its limit; a servo's reading comes in steps of 0.1 %."""
