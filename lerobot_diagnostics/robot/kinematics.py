"""How high the tool is: forward kinematics of the SO-100/SO-101 from the public model, the height only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from lerobot_diagnostics.recording.names import joint, limb

SO_ROBOTS = frozenset({"so100_follower", "so101_follower", "so_follower", "bi_so_follower", "lekiwi", "so101_sim"})
"""Robot types whose arm has this geometry (SO-100 and SO-101 have the same links)."""

SO_JOINTS = ("shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll")

Degrees = Mapping[str, float]


def so_wrist_height(lift_deg: float, elbow_deg: float) -> float:
    """Height of the wrist's axis over the arm's foot in metres; see :func:`so_tool_height`."""
    a = np.deg2rad(lift_deg)
    b = a + np.deg2rad(elbow_deg)
    return float(0.1166 - 0.0280 * np.sin(a) + 0.11257 * np.cos(a) - 0.1349 * np.sin(b) + 0.0052 * np.cos(b))


def so_tool_height(lift_deg: float, elbow_deg: float, flex_deg: float, roll_deg: float = 0.0) -> float:
    """Height of the tip between the jaws over the arm's foot in metres; joint angles in LeRobot's degrees.

    The three bending joints share one vertical plane, so that the height is a sum of sines of a = lift, b = a + elbow,
    c = b + flex. The coefficients are the link vectors of the public SO-101 model (``gripperframe`` in MuJoCo
    Menagerie's ``robotstudio_so101``): least squares over 200 random poses, rounded to 0.01 mm.
    """
    c = np.deg2rad(lift_deg + elbow_deg + flex_deg)
    roll = np.deg2rad(roll_deg)
    height = so_wrist_height(lift_deg, elbow_deg)
    height += -0.15923 * np.sin(c) + np.cos(c) * (0.01198 * np.cos(roll) + 0.0008 * np.sin(roll))
    return float(height)


def tool_height_for(robot_type: str) -> Callable[[Degrees], float] | None:
    """A function from a pose (degrees by key, of one arm or two) to the lowest tool's height; None if unknown."""
    return lowest_tool if robot_type in SO_ROBOTS else None


def lowest_tool(pose: Degrees) -> float:
    """Height in metres of the lowest tool of a pose.

    Args:
        pose: Degrees by joint key of any convention; the bending joints of each limb must be there.
    """
    return min(so_tool_height(*arm) for arm in _arms(pose))


def lowest_wrist(pose: Degrees) -> float:
    """Height in metres of the lowest wrist of a pose, as for :func:`lowest_tool`."""
    return min(so_wrist_height(*arm[:2]) for arm in _arms(pose))


def _arms(pose: Degrees) -> list[tuple[float, ...]]:
    """By arm, its :data:`SO_JOINTS`."""
    arms: dict[str, dict[str, float]] = {}
    for key, value in pose.items():
        if (name := joint(key)) in SO_JOINTS:
            arms.setdefault(limb(key), {})[name] = value
    return [tuple(arm[name] for name in SO_JOINTS) for arm in arms.values()]


def height_of(robot: Any) -> Callable[[Degrees], float] | None:
    """See :func:`tool_height_for`; the type as ``--robot.type`` gives it, or the robot's own name."""
    config_type = getattr(getattr(robot, "config", None), "type", "")
    return tool_height_for(config_type) or tool_height_for(robot.name)
