"""The scripted expert: inverse kinematics on the cube's pose, then pick, carry and place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from lerobot_diagnostics.sim.config_so101_sim import JOINTS
from lerobot_diagnostics.sim.scene import CUBE_HALF_M
from lerobot_diagnostics.sim.world import REST, World

import mujoco  # isort: skip  (after scene, which chooses how it renders)

Array = NDArray[np.float64]

GRASP_POINT_M = (0.0055, 0.0, -0.094)
"""Where a held cube's centre is in the gripper's frame: its face 1 mm off the fixed jaw (inner face at x = −8 mm)."""

OPEN, CLOSED = 55.0, 8.0
"""Gripper goals. The cube stops the jaws at 12.9 (measured): the rest is grip."""

HOVER_M, CARRY_M, DROP_M = 0.09, 0.10, 0.035
"""Heights of the cube's centre: before the grasp, on the way, at the release."""

ARM = len(JOINTS) - 1


@dataclass(frozen=True)
class Grasp:
    """Where the grasp point is to be ([3], metres, world) and which way the jaws close (degrees about the vertical)."""

    point_m: Array
    turn_deg: float = 0.0


class Kinematics:
    """Inverse kinematics of the arm with the gripper pointing down, on a copy of the world's model."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._data = mujoco.MjData(world.model)
        self._low, self._high = world.model.jnt_range[:ARM].T
        self._gripper = world.model.body("gripper").id

    def tool(self, radians: Array) -> tuple[Array, Array]:
        """Grasp point [3] in the world and rotation [3, 3] of the gripper for arm angles [5] in radians."""
        self._data.qpos[:ARM] = radians
        mujoco.mj_kinematics(self._world.model, self._data)
        rotation = self._data.xmat[self._gripper].reshape(3, 3).copy()
        return self._data.xpos[self._gripper] + rotation @ GRASP_POINT_M, rotation

    def jacobian(self, radians: Array) -> Array:
        """Derivative [3, 5] of the grasp point by the arm angles, metres per radian."""
        point, _ = self.tool(radians)
        mujoco.mj_comPos(self._world.model, self._data)
        position = np.zeros((3, self._world.model.nv))
        mujoco.mj_jac(self._world.model, self._data, position, None, point, self._gripper)
        return position[:, :ARM]

    def solve(self, grasp: Grasp, start: Array) -> Array:
        """Arm angles [5] in radians that reach ``grasp``, nearest to ``start``.

        The position counts before the direction (5 joints cannot do both everywhere): an error of 1 rad in direction
        weighs as much as 3 cm in position. A cube looks the same every quarter turn, so the closing direction is free
        by 90°.

        Raises:
            ValueError: The grasp is out of reach by more than 5 mm.
        """
        turn = np.deg2rad(grasp.turn_deg)

        def error(radians: Array) -> Array:
            point, rotation = self.tool(radians)
            closing, forward = rotation[:, 0], -rotation[:, 2]
            quarter = np.sin(2 * (np.arctan2(closing[1], closing[0]) - turn)) / 2
            return np.concatenate((point - grasp.point_m, 0.03 * forward[:2], [0.03 * quarter]))

        start = np.clip(start, self._low + 1e-6, self._high - 1e-6)
        found: Array = least_squares(error, start, bounds=(self._low, self._high), xtol=1e-10).x
        missed = float(np.linalg.norm(self.tool(found)[0] - grasp.point_m))
        if missed > 0.005:
            raise ValueError(f"out of reach by {missed * 1000:.0f} mm: {np.round(grasp.point_m, 3).tolist()}")
        return found


def plan(world: World, cube_m: Sequence[float], tray_m: Sequence[float], fps: int, cube_turn_deg: float = 0.0) -> Array:
    """Commands [T, 6] in units that pick the cube and drop it in the tray; command j is where to be at (j + 1)/fps.

    Starts and ends in the world's rest pose; about 8 s. Knows the true world (a base that was moved, too), nothing of
    lying encoders.

    Args:
        world: Gives the kinematics; its state is not touched.
        cube_m, tray_m: Positions [≥ 2] in the world.
        fps: Commands a second.
        cube_turn_deg: The cube's rotation about the vertical.
    """
    kinematics = Kinematics(world)
    rest = np.deg2rad([REST[joint] for joint in JOINTS[:ARM]])
    rest_point, _ = kinematics.tool(rest)

    def at(xy: Sequence[float], height: float) -> Array:
        return np.array([xy[0], xy[1], height])

    # (seconds, grasp point at the end, gripper at the end)
    moves = [
        (1.5, at(cube_m, HOVER_M), OPEN),
        (1.0, at(cube_m, CUBE_HALF_M), OPEN),
        (0.6, at(cube_m, CUBE_HALF_M), CLOSED),
        (0.8, at(cube_m, CARRY_M), CLOSED),
        (1.4, at(tray_m, CARRY_M), CLOSED),
        (0.7, at(tray_m, DROP_M), CLOSED),
        (0.4, at(tray_m, DROP_M), OPEN),
        (0.7, at(tray_m, CARRY_M), OPEN),
    ]
    commands = []
    point, gripper, arm = rest_point, REST["gripper"], rest
    for seconds, end, end_gripper in moves:
        for progress in _ease(round(seconds * fps)):
            here = point + progress * (end - point)
            arm = kinematics.solve(Grasp(here, cube_turn_deg), arm)
            commands.append([*np.rad2deg(arm), gripper + progress * (end_gripper - gripper)])
        point, gripper = end, end_gripper
    for progress in _ease(round(1.2 * fps)):
        back = arm + progress * (rest - arm)
        commands.append([*np.rad2deg(back), gripper + progress * (REST["gripper"] - gripper)])
    return np.array(commands)


def _ease(steps: int) -> Array:
    """Progress in (0, 1] with zero speed at both ends (cubic)."""
    t = np.arange(1, steps + 1) / steps
    progress: Array = t * t * (3 - 2 * t)
    return progress
