"""What a camera fault does to its picture."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from lerobot_diagnostics.sim.config_so101_sim import CameraFault

Image = NDArray[np.uint8]


def spoil(picture: Image, fault: CameraFault) -> Image:
    """Apply crop, mirror, rotation, size and channel order, in the order in which a driver would.

    Moving, freezing, dying and failing are not the picture's: see :class:`~lerobot_diagnostics.sim.world.World` and
    :class:`~lerobot_diagnostics.sim.so101_sim.SO101Sim`.

    Args:
        picture: [H, W, 3] uint8 RGB.
        fault: See :class:`~lerobot_diagnostics.sim.config_so101_sim.CameraFault`.

    Returns:
        [H', W', 3] uint8; H' and W' are the fault's size where it gives one. A rotation by 90 or 270 exchanges height
        and width before that.
    """
    height, width = picture.shape[:2]
    if fault.crop < 1:
        inner_height, inner_width = round(height * fault.crop), round(width * fault.crop)
        top, left = (height - inner_height) // 2, (width - inner_width) // 2
        picture = _resize(picture[top : top + inner_height, left : left + inner_width], width, height)
    if fault.mirror:
        picture = picture[:, ::-1]
    picture = np.rot90(picture, fault.rotate_deg // 90)
    height, width = picture.shape[:2]
    picture = _resize(picture, fault.width or width, fault.height or height)
    if fault.swap_red_blue:
        picture = picture[..., ::-1]
    return np.ascontiguousarray(picture)


def _resize(picture: Image, width: int, height: int) -> Image:
    if picture.shape[:2] == (height, width):
        return picture
    return np.asarray(cv2.resize(np.ascontiguousarray(picture), (width, height)), np.uint8)
