"""Whether the arm is elsewhere in the picture at the same joint readings: all that can be said without a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lerobot_diagnostics.sight.camera import Array
from lerobot_diagnostics.vision import background_of, locate_changes
from lerobot_diagnostics.vision.images import Picture, shrink

SAME_DEG = 1.0
"""Largest difference of a joint at which two poses count as the same. In simulation, 7 of 9 such pairs showed a zero
off by 3–4° (pan, lift) and 0 of 6 a healthy arm; of pairs 2–3° apart 2 of 2 show a healthy arm displaced."""
LEAST_PAIRS = 3


class Shift(NamedTuple):
    """What pairs of pictures at the same readings show.

    Args:
        pixels: Median displacement of the arm where it is displaced, of a picture 320 wide.
        displaced, pairs: In how many of how many pairs.
    """

    pixels: float
    displaced: int
    pairs: int

    @property
    def found(self) -> bool:
        """Whether most pairs agree."""
        return self.pairs >= LEAST_PAIRS and 2 * self.displaced > self.pairs


def shift_of(
    readings: Array, pictures: Sequence[Picture], now: Array, live: Sequence[Picture], most: int = 12
) -> Shift:
    """Compare pictures at the same joint readings.

    Args:
        readings: [N, 6] as recorded.
        pictures: N × [H, W, 3] uint8 RGB.
        now: [M, 6] readings now.
        live: M × [H, W, 3] uint8 RGB.
        most: How many pairs to look at.
    """
    height, width = pictures[0].shape[:2]
    size = (320, round(320 * height / width))
    recorded = [shrink(picture, *size) for picture in pictures]
    background = background_of(recorded)
    away = np.abs(readings[None] - now[:, None]).max(axis=2)  # [M, N]
    same = [index for index in np.argsort(away.min(axis=1)) if away[index].min() <= SAME_DEG][:most]
    moves = []
    for index in same:
        reference = recorded[int(away[index].argmin())]
        _, changes = locate_changes(shrink(live[index], *size), [reference], background)
        moves += [np.hypot(change.dx_px, change.dy_px) for change in changes if change.kind == "arm"][:1]
    found = [float(move) for move in moves if np.isfinite(move)]
    return Shift(float(np.median(found)) if found else 0.0, len(found), len(same))
