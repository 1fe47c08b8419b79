"""A pinhole camera: where it is, which way it looks, how wide. No distortion, square pixels, centre in the middle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

Array = NDArray[np.float64]

PARAMETERS = 7
"""Turn [3] and shift [3] along the camera's own axes (right, up, backwards), change of the log focal length."""


@dataclass(frozen=True)
class Camera:
    """One camera in the arm's base frame (metres; x forward, y to the arm's left, z up).

    Args:
        position_m: [3].
        rotation: [3, 3], columns right, up, backwards.
        focal: Focal length over picture height.
    """

    position_m: Array
    rotation: Array
    focal: float

    @property
    def fovy_deg(self) -> float:
        """Vertical field of view."""
        return float(np.rad2deg(2 * np.arctan(0.5 / self.focal)))

    def seen_from(self, points: Array) -> Array:
        """World points [..., 3] in the camera's frame."""
        seen: Array = (points - self.position_m) @ self.rotation
        return seen

    def pixels(self, seen: Array, width: int, height: int) -> Array:
        """Pixel coordinates [..., 2] of points in the camera's frame; pixel centres are whole numbers."""
        depth = np.maximum(-seen[..., 2:], 1e-3)
        flat: Array = self.focal * height * seen[..., :2] / depth * (1, -1)
        flat += np.array([(width - 1) / 2, (height - 1) / 2])
        return flat

    def rays(self, pixels: Array, width: int, height: int) -> Array:
        """Directions [..., 3] in the camera's frame, of depth 1, through pixels [..., 2]."""
        flat = (pixels - ((width - 1) / 2, (height - 1) / 2)) / (self.focal * height) * (1, -1)
        return np.concatenate((flat, np.full((*flat.shape[:-1], 1), -1.0)), axis=-1)

    def moved(self, step: Array) -> Camera:
        """This camera after a step of :data:`PARAMETERS` numbers (or 6: the focal length stays)."""
        turn = Rotation.from_rotvec(step[:3]).as_matrix()
        log_focal = step[6] if len(step) > 6 else 0.0
        return Camera(
            self.position_m + self.rotation @ step[3:6], self.rotation @ turn, self.focal * float(np.exp(log_focal))
        )

    def by_point(self, seen: Array, height: int) -> Array:
        """Derivative [N, 2, 3] of the pixels by points [N, 3] in the camera's frame."""
        depth = -seen[:, 2]
        scale = self.focal * height / depth
        out = np.zeros((len(seen), 2, 3))
        out[:, 0, 0] = scale
        out[:, 1, 1] = -scale
        out[:, 0, 2] = scale * seen[:, 0] / depth
        out[:, 1, 2] = -scale * seen[:, 1] / depth
        return out

    def by_parameters(self, seen: Array, height: int) -> Array:
        """Derivative [N, 2, 7] of the pixels by a step of :meth:`moved`."""
        by_point = self.by_point(seen, height)
        turned = np.zeros((len(seen), 3, 3))  # d(seen)/d(turn) = [seen]×: a camera turned by ω sees −ω × seen
        turned[:, 0, 1], turned[:, 0, 2] = -seen[:, 2], seen[:, 1]
        turned[:, 1, 0], turned[:, 1, 2] = seen[:, 2], -seen[:, 0]
        turned[:, 2, 0], turned[:, 2, 1] = -seen[:, 1], seen[:, 0]
        flat = seen[:, :2] / -seen[:, 2:] * (1, -1) * self.focal * height
        return np.concatenate((by_point @ turned, -by_point, flat[:, :, None]), axis=2)


def look_at(position: Array, target: Array, focal: float, roll: float = 0.0) -> Camera:
    """A camera at ``position`` [3] that sees ``target`` [3] in its centre, upright but for ``roll`` (radians)."""
    back = (position - target) / np.linalg.norm(position - target)
    right = np.cross((0.0, 0.0, 1.0), back)
    right = right / np.linalg.norm(right)
    rotation = np.column_stack((right, np.cross(back, right), back))
    return Camera(position, rotation @ Rotation.from_euler("z", roll).as_matrix(), focal)
