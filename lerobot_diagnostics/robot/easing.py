"""Getting from where the arm is to where a recording starts: bounded per tick, never lower than the recording went."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.recording.names import is_gripper, joint

Pose = Mapping[str, float]

MARGIN_M = 0.005
"""How far below the lowest recorded height the tool may pass. A calibration that is off by 2° moves it by about this
much (0.3 m of arm, half of it by the elbow), and it is off alike in the recording."""

ENVELOPE_DEG = 10.0
"""How far outside the recorded values of a joint an arm without a known model may start: standing error and play."""

SAMPLES = 60
"""Poses tried along a path. The longest path (180° in two joints) then moves the tool by under 2 cm between two."""


LIFTS_DEG = (15.0, 30.0, 45.0)
"""How far the shoulder is lifted, tried in this order: 30° raise the tool of an outstretched arm by 15 cm."""


def ease(start: Pose, goal: Pose, max_step: float) -> Iterator[dict[str, float]]:
    """Goals from ``start`` (not given again) to ``goal`` (given last), slow at both ends.

    Progress is 3t² − 2t³, whose steepest step is 1.5 times the mean one; all joints start and arrive together.

    Args:
        start: Where the arm is; only the keys of ``goal`` count.
        goal: Where it is to be.
        max_step: Largest change of any joint from one goal to the next, in the joints' unit.

    Raises:
        ValueError: If ``max_step`` is not positive.
    """
    if max_step <= 0:
        raise ValueError(f"max_step must be positive, not {max_step}")
    steps = math.ceil(1.5 * max((abs(goal[key] - start[key]) for key in goal), default=0.0) / max_step)
    for step in range(1, steps + 1):
        t = step / steps
        progress = t * t * (3 - 2 * t)
        yield {key: start[key] + progress * (goal[key] - start[key]) for key in goal}


def lowest_on_path(poses: Sequence[Pose], height: Callable[[Pose], float]) -> float:
    """Lowest tool height in metres along straight joint-space lines through ``poses`` (degrees by key)."""
    return min(
        height({key: start[key] + t * (end[key] - start[key]) for key in end})
        for start, end in itertools.pairwise(poses)
        for t in np.linspace(0, 1, SAMPLES)
    )


def safe_route(
    start: Pose, goal: Pose, recorded: Sequence[Pose], height: Callable[[Pose], float] | None
) -> list[dict[str, float]]:
    """Waypoints after ``start``, ``goal`` being the last, on which the tool stays above its lowest recorded height.

    With a model: straight to the goal; or the shoulder lifted first, across, and down; or by the highest recorded pose.
    Without one a straight line between two poses inside the recorded range of every joint stays inside it.

    Args:
        start, goal: Degrees by joint key (grippers 0–100).
        recorded: Recorded poses.
        height: Tool height in metres of a pose, None where no model is known.

    Raises:
        UsageError: If no way is found; it says how the arm is to be placed by hand.
    """
    if height is None:
        outside = _outside(start, recorded)
        if outside:
            raise UsageError(
                f"the arm starts outside the recorded range of {', '.join(outside)}, and no model of this robot is "
                "known to see whether the way is free.",
                "Bring the arm by hand near the first recorded pose (lerobot-replay-compare --dry_run=true prints it).",
            )
        return [dict(goal)]
    heights = [height(pose) for pose in recorded]
    floor = min(*heights, height(start), height(goal)) - MARGIN_M
    highest = recorded[int(np.argmax(heights))]
    over: list[list[Pose]] = [[_lifted(start, by), _lifted(goal, by)] for by in LIFTS_DEG]
    for way in ([], *over, [highest]):
        route = [{key: pose[key] for key in goal} for pose in (*way, goal)]
        if lowest_on_path([start, *route], height) >= floor:
            return route
    raise UsageError(
        f"every way from here to the first recorded pose takes the tool below {floor * 1000:.0f} mm, lower than the "
        "recording went.",
        "Lift the arm by hand, or bring it near the first recorded pose (lerobot-replay-compare --dry_run=true prints "
        "it).",
    )


def _lifted(pose: Pose, degrees: float) -> dict[str, float]:
    """Every shoulder raised: in LeRobot's degrees up is less."""
    return {key: value - degrees if joint(key) == "shoulder_lift" else value for key, value in pose.items()}


def _outside(pose: Pose, recorded: Sequence[Pose]) -> list[str]:
    names = []
    for key, value in pose.items():
        values = [other[key] for other in recorded]
        if not is_gripper(key) and not min(values) - ENVELOPE_DEG <= value <= max(values) + ENVELOPE_DEG:
            names.append(f"{key} ({value:.0f}, recorded {min(values):.0f} to {max(values):.0f})")
    return names
