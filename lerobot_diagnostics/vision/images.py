"""Pictures in the forms the other modules work on. Everywhere: [H, W, 3] uint8 RGB in, +x right, +y down."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from lerobot_diagnostics.errors import UsageError

Picture = NDArray[np.uint8]
"""[H, W, 3] uint8 RGB."""
FloatMap = NDArray[np.float32]
"""[H, W] (or [H, W, K]) float32."""
Mask = NDArray[np.bool_]
"""[H, W] bool, true where a pixel may be used."""

MIN_SIDE = 16
"""Pixels. Below this no method here has anything to hold on to."""


def checked(picture: NDArray[np.generic], name: str = "picture") -> Picture:
    """The picture itself, contiguous, when it is [H, W, 3] uint8 and at least 16×16.

    Raises:
        UsageError: On another shape, type or size.
    """
    array = np.asarray(picture)
    if array.ndim != 3 or array.shape[2] != 3 or array.dtype != np.uint8 or min(array.shape[:2]) < MIN_SIDE:
        raise UsageError(
            f"{name} must be [H, W, 3] uint8 RGB of at least {MIN_SIDE}x{MIN_SIDE}, "
            f"got shape {array.shape} {array.dtype}.",
            "Convert it first, e.g. (255 * chw_float).round().astype(uint8).transpose(1, 2, 0).",
        )
    return np.ascontiguousarray(array, dtype=np.uint8)


def shrink(picture: Picture, width: int, height: int) -> Picture:
    """Resize to exactly ``width`` × ``height`` with area averaging, the fast way for large pictures.

    Area averaging of a 1280-wide picture costs 2–4 ms; halving it first by skipping whole pixels would alias. Two
    steps of
    linear halving (each an exact 2×2 mean) cost a quarter of that.
    """
    while picture.shape[1] >= 4 * width and picture.shape[0] >= 4 * height:
        picture = cv2.resize(picture, (picture.shape[1] // 2, picture.shape[0] // 2), interpolation=cv2.INTER_LINEAR)
    if picture.shape[:2] == (height, width):
        return picture
    smaller = picture.shape[1] > width or picture.shape[0] > height
    way = cv2.INTER_AREA if smaller else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(picture, (width, height), interpolation=way), np.uint8)


def grey(picture: Picture) -> FloatMap:
    """[H, W] float32 in 0–255: (R + 2G + B) / 4, the same whether or not red and blue are exchanged."""
    return np.asarray(cv2.transform(picture, np.array([[0.25, 0.5, 0.25]], np.float32)), np.float32)


def locally_normalised(grey_map: FloatMap, window: int) -> FloatMap:
    """Zero local mean, unit local contrast: (g − mean) / (std + floor) over square windows of ``window`` pixels.

    What exposure, white balance and vignetting do to a picture cancels; flat areas stay near zero because of the
    floor, a fifth of the picture's strong (80th percentile) local contrast, below which there is mostly sensor noise.
    """
    centred = grey_map - cv2.blur(grey_map, (window, window))
    contrast = np.sqrt(
        np.maximum(cv2.blur(centred * centred, (window, window)), 0.0)
    )  # the running sum may dip below 0
    floor = 0.2 * float(np.percentile(contrast[::4, ::4], 80)) + 1.0
    return np.asarray(centred / (contrast + floor), np.float32)
