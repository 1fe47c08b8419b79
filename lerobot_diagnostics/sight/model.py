"""The kinematic model of an SO-100/SO-101, drawn for a camera: which link each pixel shows, and how far away it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.sight.camera import Array, Camera

if TYPE_CHECKING:
    import mujoco

JOINTS = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper")
LINKS = ("base", "shoulder", "upper_arm", "lower_arm", "wrist", "gripper", "moving_jaw_so101_v1")
"""Joint j carries links j + 1 and beyond."""
BASE_PARAMETERS = 3
"""Displacement of the base along x and y (metres) and its turn about the vertical (radians)."""
PAN_AXIS_M = np.array([0.0388, 0.0])
"""Where the pan joint's axis stands, from the base's origin."""
NOTHING = -1
STILL = np.zeros(BASE_PARAMETERS)


@dataclass(frozen=True)
class Drawing:
    """What a camera would see of the arm alone.

    Args:
        link: [H, W] int8, index into :data:`LINKS`, or :data:`NOTHING`.
        depth_m: [H, W] along the camera's axis.
    """

    link: NDArray[np.int8]
    depth_m: NDArray[np.float32]

    @property
    def moving(self) -> NDArray[np.bool_]:
        """[H, W], where a link that moves is in front."""
        return self.link > 0


class Arm:
    """The arm's model in a pose, free of anything around it. Use it in ``contextlib.closing``.

    Poses are in LeRobot's units: degrees about the middle of each range, the gripper 0–100.

    Raises:
        UsageError: The extra ``sim``, which brings the model and its renderer, is not installed.
    """

    def __init__(self) -> None:
        try:
            from lerobot_diagnostics.sim.scene import build

            import mujoco  # isort: skip  (after scene, which chooses how it renders)
        except ImportError as error:
            raise UsageError(
                f"Calibration by sight needs the arm's model, and {error.name} is missing.",
                "Install it with: pip install 'lerobot-diagnostics[sim]'",
            ) from error
        self._mujoco = mujoco
        self._model: mujoco.MjModel = build()
        self._data = mujoco.MjData(self._model)
        bodies = [self._model.body(self._model.geom_bodyid[g]).name for g in range(self._model.ngeom)]
        mounted = {name: index for index, name in enumerate(LINKS)} | {"camera_mount": LINKS.index("gripper")}
        self._link_of_geom = np.array([mounted.get(body, NOTHING) for body in bodies] + [NOTHING], np.int8)
        self._model.geom_group[self._link_of_geom[:-1] == NOTHING] = 5  # hidden by default, like collision shapes
        low, high = self._model.jnt_range[len(JOINTS) - 1]
        self.radians_per_unit = np.deg2rad(np.ones(len(JOINTS)))
        self.radians_per_unit[-1] = (high - low) / 100
        self._zero = np.zeros(len(JOINTS))
        self._zero[-1] = low
        self._root = self._model.body("base").id
        self._camera = self._model.camera("front").id
        self._renderers: dict[tuple[int, int], Any] = {}

    @property
    def bounds(self) -> Array:
        """[6, 2] lowest and highest pose of each joint."""
        ends: Array = (self._model.jnt_range[: len(JOINTS)] - self._zero[:, None]) / self.radians_per_unit[:, None]
        return ends

    def place(self, pose: Array, base: Array = STILL) -> None:
        """Put the joints at ``pose`` [6] and the base at ``base`` [3] (see :data:`BASE_PARAMETERS`)."""
        self._data.qpos[: len(JOINTS)] = pose * self.radians_per_unit + self._zero
        self._model.body_pos[self._root, :2] = base[:2]
        self._model.body_quat[self._root] = np.cos(base[2] / 2), 0, 0, np.sin(base[2] / 2)
        self._mujoco.mj_kinematics(self._model, self._data)

    def draw(self, camera: Camera, width: int, height: int) -> Drawing:
        """The arm as placed, seen by ``camera``."""
        model, data = self._model, self._data
        model.cam_pos[self._camera] = camera.position_m
        quaternion = np.empty(4)
        self._mujoco.mju_mat2Quat(quaternion, np.ascontiguousarray(camera.rotation).ravel())
        model.cam_quat[self._camera] = quaternion
        model.cam_fovy[self._camera] = camera.fovy_deg
        self._mujoco.mj_camlight(model, data)
        if (width, height) not in self._renderers:
            self._renderers[width, height] = self._mujoco.Renderer(model, height, width)
        renderer = self._renderers[width, height]
        renderer.update_scene(data, self._camera)
        renderer.enable_segmentation_rendering()
        segments = renderer.render()
        renderer.disable_segmentation_rendering()
        renderer.enable_depth_rendering()
        depth = renderer.render()
        renderer.disable_depth_rendering()
        return Drawing(self._link_of_geom[segments[..., 0]], depth)

    def by_joints(self, points: Array, links: NDArray[np.integer[Any]]) -> Array:
        """Derivative [N, 3, 6] of world points [N, 3] on links [N] by the pose, metres per unit."""
        out = np.zeros((len(points), 3, len(JOINTS)))
        for joint in range(len(JOINTS)):
            carried = links > joint
            axis, anchor = self._data.xaxis[joint], self._data.xanchor[joint]
            out[carried, :, joint] = np.cross(axis, points[carried] - anchor) * self.radians_per_unit[joint]
        return out

    def by_base(self, points: Array) -> Array:
        """Derivative [N, 3, 3] of world points [N, 3] by the base's displacement and turn."""
        out = np.zeros((len(points), 3, BASE_PARAMETERS))
        out[:, 0, 0] = out[:, 1, 1] = 1.0
        offset = points - self._data.xpos[self._root]
        out[:, 0, 2], out[:, 1, 2] = -offset[:, 1], offset[:, 0]
        return out

    def surface(self, per_mesh: int = 60) -> tuple[Array, NDArray[np.int8]]:
        """World points [N, 3] on the moving links as placed, ``per_mesh`` vertices of each mesh, and their links."""
        points, links = [], []
        for geom in np.flatnonzero(self._link_of_geom[:-1] > 0):
            mesh = self._model.geom_dataid[geom]
            if self._model.geom_group[geom] > 2 or mesh < 0:
                continue
            start, count = self._model.mesh_vertadr[mesh], self._model.mesh_vertnum[mesh]
            vertices = self._model.mesh_vert[start : start + count]
            chosen = vertices[np.linspace(0, count - 1, min(count, per_mesh)).astype(int)]
            points.append(chosen @ self._data.geom_xmat[geom].reshape(3, 3).T + self._data.geom_xpos[geom])
            links.append(np.full(len(chosen), self._link_of_geom[geom], np.int8))
        return np.concatenate(points), np.concatenate(links)

    def close(self) -> None:
        """Free the renderers; one that lives until the interpreter exits outlives its GL library, noisily."""
        while self._renderers:
            self._renderers.popitem()[1].close()
