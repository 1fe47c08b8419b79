"""The simulated world: physics, joint units, pictures and the truth behind them. Time passes only when told to."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lerobot_diagnostics.sim.config_so101_sim import JOINTS, SimFaults
from lerobot_diagnostics.sim.scene import CUBE_HALF_M, CUBE_XY_M, TIMESTEP_S, TRAY_HALF_M, build

import mujoco  # isort: skip  (after scene, which chooses how it renders)

Array = NDArray[np.float64]
Image = NDArray[np.uint8]

REST = {
    "shoulder_pan": 0.0,
    "shoulder_lift": -90.0,
    "elbow_flex": 85.0,
    "wrist_flex": 60.0,
    "wrist_roll": 0.0,
    "gripper": 10.0,
}
"""Start pose by joint: degrees, gripper 0–100. Clear of the table, the cube visible to every camera."""

OVERLOAD_TORQUE = 0.2
"""Part of its torque that an STS3215 keeps once overload protection has tripped (its ``Protective_Torque``)."""

LIFTED_M = 0.03
"""How high the cube must have been for a pick to count."""


@dataclass(frozen=True)
class CameraTruth:
    """Where a camera is: position [3], rotation [3, 3] (columns: right, up, backwards), vertical field of view."""

    position_m: Array
    rotation: Array
    fovy_deg: float


@dataclass(frozen=True)
class Truth:
    """What is really the case, for tests to compare a diagnosis with.

    Args:
        joints: True pose by joint, degrees and gripper 0–100.
        tool_m: Position [3] of the gripper's frame in the world.
        cube_m, tray_m, base_m: Positions [3] in the world.
        cameras: True pose of each camera, by its own name.
        lifted: Whether the cube has been :data:`LIFTED_M` above the table since the reset.
        in_tray: Whether the cube lies in the tray.
    """

    joints: dict[str, float]
    tool_m: Array
    cube_m: Array
    tray_m: Array
    base_m: Array
    cameras: dict[str, CameraTruth]
    lifted: bool
    in_tray: bool

    @property
    def success(self) -> bool:
        """Picked and placed."""
        return self.lifted and self.in_tray


class World:
    """The arm on its table.

    Poses cross this boundary in LeRobot's units for an SO-101: degrees about the middle of each joint's range, the
    gripper from 0 (closed) to 100 (open). The model's zeros and signs are those of a calibrated arm.
    """

    def __init__(self, faults: SimFaults | None = None, model: mujoco.MjModel | None = None) -> None:
        self.faults = faults or SimFaults()
        self.model = model or build()
        self.data = mujoco.MjData(self.model)
        self._renderers: dict[tuple[int, int], mujoco.Renderer] = {}
        weakref.finalize(self, _close, self._renderers)  # else they outlive their GL library at exit, noisily
        self._torque = self.model.actuator_forcerange.copy()
        self._encoder_error: Array = np.array([self.faults.joint_zero_deg.get(joint, 0.0) for joint in JOINTS])
        low, high = np.rad2deg(self.model.jnt_range[: len(JOINTS)].T)
        # units = degrees × scale + offset; only the gripper is rescaled
        self._scale = np.ones(len(JOINTS))
        self._offset = np.zeros(len(JOINTS))
        self._scale[-1] = 100 / (high[-1] - low[-1])
        self._offset[-1] = -low[-1] * self._scale[-1]
        self._break_surroundings()
        self.reset()

    def _break_surroundings(self) -> None:
        faults, model = self.faults, self.model
        model.body("tray").pos[:2] += faults.tray_move_m
        model.body("base").pos[:2] += faults.base_move_m
        half = np.deg2rad(faults.base_turn_deg) / 2
        model.body("base").quat[:] = np.cos(half), 0, 0, np.sin(half)
        light = faults.light_level * np.array(faults.light_color)
        model.light_diffuse[:] *= light
        model.light_specular[:] *= light
        model.vis.headlight.ambient[:] *= light
        model.vis.headlight.diffuse[:] *= light
        for name, fault in faults.cameras.items():
            camera = model.camera(name)
            rotation = np.empty(9)
            mujoco.mju_quat2Mat(rotation, camera.quat)
            camera.pos[:] += rotation.reshape(3, 3) @ fault.move_m
            for axis, angle in zip(np.eye(3), fault.turn_deg, strict=True):
                turn, turned = np.empty(4), np.empty(4)
                mujoco.mju_axisAngle2Quat(turn, axis, np.deg2rad(angle))
                mujoco.mju_mulQuat(turned, camera.quat, turn)
                camera.quat[:] = turned

    # --- time ------------------------------------------------------------------------------------------------------

    def reset(self, cube_xy_m: tuple[float, float] = CUBE_XY_M, cube_turn_deg: float = 0.0) -> None:
        """Arm at rest, cube on the table at ``cube_xy_m`` (plus the fault's displacement), time zero."""
        mujoco.mj_resetData(self.model, self.data)
        self.model.actuator_forcerange[:] = self._torque
        self.data.qpos[: len(JOINTS)] = self._radians(np.array([REST[joint] for joint in JOINTS]))
        self.data.ctrl[:] = self.data.qpos[: len(JOINTS)]
        half = np.deg2rad(cube_turn_deg) / 2
        self.data.joint("cube").qpos[:] = [
            *np.add(cube_xy_m, self.faults.cube_move_m), CUBE_HALF_M, np.cos(half), 0, 0, np.sin(half),
        ]  # fmt: skip
        self._lifted = False
        self._steps = 0
        mujoco.mj_forward(self.model, self.data)

    @property
    def time_s(self) -> float:
        """Simulated seconds since the reset."""
        return self._steps * TIMESTEP_S

    def command(self, goal: Mapping[str, float]) -> None:
        """Set goals by joint, in units; joints left out keep theirs. A servo drives until its *encoder* shows it."""
        for index, joint in enumerate(JOINTS):
            if joint in goal:
                units = np.full(len(JOINTS), goal[joint]) - self._encoder_error
                self.data.ctrl[index] = self._radians(units)[index]

    def advance_to(self, time_s: float) -> None:
        """Let physics run until ``time_s``; a time already past does nothing."""
        while self._steps < round(time_s / TIMESTEP_S):
            for joint, start in self.faults.overload_from_s.items():
                if self.time_s >= start:
                    index = JOINTS.index(joint)
                    self.model.actuator_forcerange[index] = self._torque[index] * OVERLOAD_TORQUE
            mujoco.mj_step(self.model, self.data)
            self._steps += 1
            self._lifted |= bool(self._cube[2] > CUBE_HALF_M + LIFTED_M)

    # --- readings --------------------------------------------------------------------------------------------------

    def pose(self) -> Array:
        """True pose [6] in units, in the order of :data:`JOINTS`."""
        units: Array = np.rad2deg(self.data.qpos[: len(JOINTS)]) * self._scale + self._offset
        return units

    def reading(self) -> Array:
        """Pose [6] as the encoders tell it."""
        return self.pose() + self._encoder_error

    def _radians(self, units: Array) -> Array:
        radians: Array = np.deg2rad((units - self._offset) / self._scale)
        return radians

    @property
    def _cube(self) -> Array:
        position: Array = self.data.joint("cube").qpos[:3]
        return position

    def truth(self) -> Truth:
        """See :class:`Truth`."""
        mujoco.mj_forward(self.model, self.data)
        tray, cube = self.data.body("tray").xpos.copy(), self._cube.copy()
        return Truth(
            joints=dict(zip(JOINTS, self.pose().tolist(), strict=True)),
            tool_m=self.data.site("gripperframe").xpos.copy(),
            cube_m=cube,
            tray_m=tray,
            base_m=self.data.body("base").xpos.copy(),
            cameras={
                self.model.camera(index).name: CameraTruth(
                    self.data.cam_xpos[index].copy(),
                    self.data.cam_xmat[index].reshape(3, 3).copy(),
                    float(self.model.cam_fovy[index]),
                )
                for index in range(self.model.ncam)
            },
            lifted=self._lifted,
            in_tray=bool(np.all(np.abs(cube - tray)[:2] < TRAY_HALF_M) and cube[2] < 2 * CUBE_HALF_M),
        )

    def render(self, camera: str, width: int, height: int) -> Image:
        """What ``camera`` sees: [height, width, 3] uint8 RGB."""
        if (width, height) not in self._renderers:
            renderer = mujoco.Renderer(self.model, height, width)
            renderer.scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = False
            renderer.scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = False
            self._renderers[width, height] = renderer
        renderer = self._renderers[width, height]
        mujoco.mj_camlight(self.model, self.data)
        renderer.update_scene(self.data, camera)
        picture: Image = renderer.render()
        return picture

    def close(self) -> None:
        """Free the renderers."""
        _close(self._renderers)


def _close(renderers: dict[tuple[int, int], mujoco.Renderer]) -> None:
    while renderers:
        renderers.popitem()[1].close()
