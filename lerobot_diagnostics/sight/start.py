"""A first guess of the camera, from nothing but where the moving arm is in the pictures.

Centre and spread of each silhouette are compared with those of the model's surface points, from starts all around.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from lerobot_diagnostics.sight.camera import Array, Camera, look_at
from lerobot_diagnostics.sight.model import Arm
from lerobot_diagnostics.vision.images import Mask

AZIMUTHS_DEG = range(0, 360, 30)
ELEVATIONS_DEG = (15, 45, 80)
FOCAL = 1.1
"""Vertical field of view of 49°: webcams have 35° to 60°."""
USUAL_FOCAL = 0.2
"""Misfit, in picture heights, of a focal length off by a factor e. Distance and focal length look alike from afar."""
ROUGH, FINE = 6, 40
"""Evaluations of the derivative from each start, and from the best of them."""


def first_cameras(arm: Arm, poses: Array, masks: Sequence[Mask], keep: int = 4) -> list[Camera]:
    """The cameras that fit best, best first, no two alike.

    Args:
        arm: The model.
        poses: [N, 6] in LeRobot's units.
        masks: N × [H, W] bool, the moving arm.
        keep: How many.
    """
    height, width = masks[0].shape
    clouds = []
    for pose in poses:
        arm.place(pose)
        clouds.append(arm.surface(20)[0])
    points = np.stack(clouds)
    seen = np.stack([_moments(np.argwhere(mask)[:, ::-1]) for mask in masks])

    def misfit(step: Array, camera: Camera) -> Array:
        moved = camera.moved(step)
        flat = moved.pixels(moved.seen_from(points), width, height)
        flat = np.clip(flat, -0.5 * width, 1.5 * width)
        away: Array = (_moments(flat) - seen) / height
        return np.append(away, USUAL_FOCAL * (np.log(moved.focal / FOCAL)))

    centre, spread = points.mean(axis=(0, 1)), np.linalg.norm(points.std(axis=(0, 1)))
    distance = FOCAL * spread * height / np.linalg.norm(np.concatenate([np.argwhere(m) for m in masks]).std(axis=0))
    found: list[tuple[float, Camera]] = []
    for azimuth, elevation in product(np.deg2rad(AZIMUTHS_DEG), np.deg2rad(ELEVATIONS_DEG)):
        back = np.array([np.cos(azimuth) * np.cos(elevation), np.sin(azimuth) * np.cos(elevation), np.sin(elevation)])
        camera = look_at(centre + distance * back, centre, FOCAL)
        step = least_squares(misfit, np.zeros(6), args=(camera,), loss="soft_l1", f_scale=0.05, max_nfev=ROUGH)
        found.append((step.cost, camera.moved(step.x)))
    found.sort(key=lambda pair: pair[0])
    best: list[tuple[float, Camera]] = []
    for _, camera in found[: 2 * keep]:
        step = least_squares(misfit, np.zeros(7), args=(camera,), loss="soft_l1", f_scale=0.05, max_nfev=FINE)
        best.append((step.cost, camera.moved(step.x)))
    best.sort(key=lambda pair: pair[0])
    kept: list[Camera] = []
    for _, camera in best:
        if all(np.linalg.norm(camera.position_m - other.position_m) > 0.05 for other in kept):
            kept.append(camera)
    return kept[:keep]


def _moments(points: NDArray[Any]) -> Array:
    """Centre [2], spread [2] and skew of the axes [..., 5] of points [..., N, 2]."""
    centre = points.mean(axis=-2)
    away = points - centre[..., None, :]
    spread = np.sqrt((away**2).mean(axis=-2) + 1.0)
    skew = (away[..., 0] * away[..., 1]).mean(axis=-1) / spread.max(axis=-1)
    return np.concatenate((centre, spread, skew[..., None]), axis=-1)
