"""Which recorded poses to drive to for a look, and in which order: a mis-zeroed arm driven low hits the table."""

from __future__ import annotations

from contextlib import closing

import numpy as np

from lerobot_diagnostics.sight.camera import Array
from lerobot_diagnostics.sight.model import LINKS, Arm
from lerobot_diagnostics.sight.solve import spread

LEAST_CLEARANCE_M = 0.06
"""An arm stretched to 40 cm whose lift is off by 8° is 56 mm lower than it reads."""


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
