"""What the light and the camera's exposure and white balance have done, apart from geometry."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lerobot_diagnostics.vision.images import Mask, Picture, shrink


@dataclass(frozen=True)
class Lighting:
    """Ratios of pixel values, live over reference; 1 is no change.

    Args:
        exposure: Geometric mean over the channels.
        red, blue: White balance: red over green and blue over green.
        clipped: Share of live pixels at 0 or 255 in any channel beyond the reference's share.
    """

    exposure: float
    red: float
    blue: float
    clipped: float


_SIDE = 32


def _clipped(values: NDArray[np.float32]) -> float:
    return float(((values >= 254) | (values <= 1)).any(axis=-1).mean())


def estimate_lighting(live: Picture, reference: Picture, mask: Mask | None = None) -> Lighting:
    """Channel gains between two pictures of one view, by medians over small blocks.

    Medians of ratios over 32 × 32 blocks: an arm or object that is elsewhere, and a shift of a few percent, move them
    little; blocks near black or white in either picture tell nothing about gain and are left out.

    Args:
        live: [H, W, 3] uint8 RGB.
        reference: [H, W, 3] uint8 RGB of any size.
        mask: [32, 32] bool, true where blocks may be used.
    """
    a = shrink(live, _SIDE, _SIDE).astype(np.float32)
    b = shrink(reference, _SIDE, _SIDE).astype(np.float32)
    usable = (np.minimum(a, b).min(axis=-1) > 12) & (np.maximum(a, b).max(axis=-1) < 243)
    if mask is not None:
        usable &= mask
    if usable.sum() < 10:  # one percent of the blocks
        ratios = (a.reshape(-1, 3).mean(axis=0) + 1.0) / (b.reshape(-1, 3).mean(axis=0) + 1.0)
    else:
        ratios = np.median(a[usable] / b[usable], axis=0)
    exposure = float(np.exp(np.log(ratios).mean()))
    return Lighting(
        exposure, float(ratios[0] / ratios[1]), float(ratios[2] / ratios[1]), max(0.0, _clipped(a) - _clipped(b))
    )
