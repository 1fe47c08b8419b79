"""Which recorded poses to drive to for a look, and in which order: a mis-zeroed arm driven low hits the table."""

from __future__ import annotations

import itertools
from contextlib import closing

import numpy as np
from numpy.typing import NDArray

from lerobot_diagnostics.sight.camera import Array
from lerobot_diagnostics.sight.model import LINKS, Arm
from lerobot_diagnostics.sight.solve import LEAST_POSES, spread

LEAST_CLEARANCE_M = 0.06
"""An arm stretched to 40 cm whose lift is off by 8° is 56 mm lower than it reads."""
LEAST_ROOM = 8.0
"""How far a joint stays off its limits on the way past a pose (degrees, the gripper in its 0–100): one whose zero is
off by so much is there already."""

APPROACH = 4.0
"""How far beyond a pose it is approached from: degrees, the gripper in its 0–100. A servo at P = 16 stops up to 2–3°
short; from less far away it might not move at all."""


FOREARM = LINKS.index("lower_arm")


def clearances(arm: Arm, readings: Array) -> Array:
    """[N] metres between the forearm's, wrist's or gripper's lowest point and the table, for readings [N, 6].

    The shoulder and the upper arm's foot are always low and never hit anything.
    """
    lowest = []
    for reading in readings:
        arm.place(reading)
        points, links = arm.surface(per_mesh=400)
        lowest.append(points[links >= FOREARM, 2].min())
    return np.array(lowest)


def clearest(readings: Array, count: int = 10, arm: Arm | None = None) -> Array:
    """Recorded poses to drive to, those with the most clearance, highest first.

    Half of the poses, the lowest, are out of the question, as are those under :data:`LEAST_CLEARANCE_M`; of the rest
    those farthest apart are taken, since poses that look alike tell joints apart badly.

    Args:
        readings: [N, 6] recorded poses, degrees and gripper 0–100.
        count: How many, at most.
        arm: The model; made when not given.

    Returns:
        [≤ count, 6]; empty when none is high enough.

    Raises:
        UsageError: The extra ``sim``, which brings the arm's model, is not installed.
    """
    if arm is None:
        with closing(Arm()) as own:
            return clearest(readings, count, own)
    heights = clearances(arm, readings)
    high = np.flatnonzero(heights >= max(float(np.median(heights)), LEAST_CLEARANCE_M))
    if not len(high):
        return readings[:0]
    chosen = high[spread(readings[high], count)]
    ordered: Array = readings[chosen[np.argsort(-heights[chosen], kind="stable")]]
    return ordered


def both_sides(poses: Array, bounds: Array, arm: Arm | None = None) -> tuple[Array, NDArray[np.bool_]]:
    """From which sides poses can be approached, :data:`APPROACH` away in every joint at once, with the arm clear.

    Args:
        poses: [N, 6].
        bounds: [6, 2] the joints' lowest and highest readings.
        arm: The model; made when not given.

    Returns:
        [6] a side for each joint, the same for all poses: +1 or −1, or 0 where limits are in the way (that joint
        stays); and [N] which poses are clear from that side and from the opposite one.
    """
    if arm is None:
        with closing(Arm()) as own:
            return both_sides(poses, bounds, own)
    low, high = np.maximum(bounds[:, 0], arm.bounds[:, 0]), np.minimum(bounds[:, 1], arm.bounds[:, 1])
    room = (poses - APPROACH - LEAST_ROOM >= low) & (poses + APPROACH + LEAST_ROOM <= high)
    usable: NDArray[np.bool_] = np.ones(len(poses), dtype=bool)
    free = np.zeros(poses.shape[1])
    for joint in range(poses.shape[1]):
        if (usable & room[:, joint]).sum() >= LEAST_POSES:
            usable, free[joint] = usable & room[:, joint], 1.0
    best: Array = np.zeros(poses.shape[1])
    clear: NDArray[np.bool_] = np.zeros(len(poses), dtype=bool)
    for lift, elbow, wrist in itertools.product((1.0, -1.0), repeat=3):
        side = free * np.array([1.0, lift, elbow, wrist, 1.0, 1.0])
        above = np.minimum(*(clearances(arm, poses + way * APPROACH * side) for way in (1, -1))) >= LEAST_CLEARANCE_M
        if (usable & above).sum() > clear.sum():
            best, clear = side, usable & above
    return best, clear
