"""Where the camera is now, told by the background alone."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from scipy.optimize import least_squares

from lerobot_diagnostics.sight.camera import Array, Camera
from lerobot_diagnostics.vision import Background, Registrar, Registration, to_reference
from lerobot_diagnostics.vision.images import grey

STILL_PX = 0.7
"""Background motion, largest over the picture, under which a camera stands."""
TABLE_REACH_M = 0.6
"""How far from the base the ground of the picture is taken for the table that the arm stands on."""
LEAST_POINTS = 20


@dataclass(frozen=True)
class Settled:
    """A camera after the fact.

    Args:
        camera: Where it is now; None when the background does not tell.
        motion: The background's motion in the picture.
        moved_px: Its largest over the picture.
    """

    camera: Camera | None
    motion: Registration
    moved_px: float


def settle(camera: Camera, before: Background, after: Background) -> Settled:
    """Where the camera is now: where it was when the background stands, else by the table around the arm.

    Points of the table (height zero in the base's frame) are known in space from the recording; they are followed into
    the new background by Lucas–Kanade tracks, and the camera is moved until they fit.
    """
    height, width = before.picture.shape[:2]
    both = None if before.mask is None or after.mask is None else before.mask & after.mask
    motion = Registrar(before.picture, both).exact(after.picture)
    if not motion.found:
        return Settled(None, motion, float("nan"))
    moved_px = motion.displacement_px(width, height)
    if moved_px < STILL_PX:
        return Settled(camera, motion, moved_px)
    mask = None if both is None else both.astype(np.uint8)
    first = np.clip(grey(before.picture), 0, 255).astype(np.uint8)
    laid, _ = to_reference(after.picture, motion, width, height)
    corners = cv2.goodFeaturesToTrack(first, 400, 0.005, 4, mask=mask)
    if corners is None:
        return Settled(None, motion, moved_px)
    second = np.clip(grey(laid), 0, 255).astype(np.uint8)
    tracked, status, _ = cv2.calcOpticalFlowPyrLK(first, second, corners, None, winSize=(15, 15), maxLevel=2)
    was, now = corners[:, 0].astype(float), tracked[:, 0].astype(float)
    rays = camera.rays(was, width, height) @ camera.rotation.T
    with np.errstate(divide="ignore", invalid="ignore"):
        points = camera.position_m - rays * (camera.position_m[2] / rays[:, 2:])
    kept = (status[:, 0] == 1) & (rays[:, 2] < 0) & (np.linalg.norm(points, axis=1) < TABLE_REACH_M)
    kept &= np.linalg.norm(now - was, axis=1) < 0.05 * width
    if kept.sum() < LEAST_POINTS:
        return Settled(None, motion, moved_px)
    live = _followed(now[kept], motion, width, height)

    def misfit(step: Array) -> Array:
        turned = camera.moved(step)
        away: Array = turned.pixels(turned.seen_from(points[kept]), width, height) - live
        return away.ravel()

    step = least_squares(misfit, np.zeros(6), loss="soft_l1", f_scale=0.5, x_scale=(0.01,) * 6).x
    return Settled(camera.moved(step), motion, moved_px)


def _followed(points: Array, motion: Registration, width: int, height: int) -> Array:
    """Reference pixels [N, 2] in the live picture, by the registration's formula."""
    angle = np.deg2rad(motion.rotation_deg)
    turn = motion.scale * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    centre = np.array([(width - 1) / 2, (height - 1) / 2])
    moved: Array = (points - centre) @ turn.T + centre + (motion.dx_px, motion.dy_px)
    return moved
