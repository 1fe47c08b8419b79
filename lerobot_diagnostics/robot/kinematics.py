"""Where the tool is: forward kinematics of the SO-100/SO-101 from the public model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lerobot_diagnostics.recording.names import joint, limb

SO_ROBOTS = frozenset({"so100_follower", "so101_follower", "so_follower", "bi_so_follower", "lekiwi", "so101_sim"})
"""Robot types whose arm has this geometry (SO-100 and SO-101 have the same links)."""

SO_JOINTS = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll")

Degrees = Mapping[str, float]
Floats = NDArray[np.float64]
Angle = float | Floats


UPPER_LINKS_M = ((0.0280, 0.11257), (0.1349, 0.0052))
"""Upper arm and forearm, along and up before they are turned; see :func:`so_tool`."""
SHOULDER_M = 0.1166


def so_wrist_height(lift_deg: float, elbow_deg: float) -> float:
    """Height of the wrist's axis over the arm's foot in metres; see :func:`so_tool`."""
    turned = zip(np.deg2rad(np.cumsum([lift_deg, elbow_deg])), UPPER_LINKS_M, strict=True)
    return float(SHOULDER_M + sum(up * np.cos(turn) - along * np.sin(turn) for turn, (along, up) in turned))


def so_tool(pan_deg: Angle, lift_deg: Angle, elbow_deg: Angle, flex_deg: Angle, roll_deg: Angle) -> Floats:
    """Tip between the jaws in metres from the pan axis at the arm's foot: forward, left, up, ``[..., 3]``.

    The three bending joints share one vertical plane and turn its links by a = lift, b = a + elbow, c = b + flex. The
    coefficients are the link vectors of the public SO-101 model (``gripperframe`` in MuJoCo Menagerie's
    ``robotstudio_so101``): least squares over 200 random poses, rounded to 0.01 mm.

    Args:
        pan_deg, lift_deg, elbow_deg, flex_deg, roll_deg: LeRobot's degrees, numbers or arrays of one shape.
    """
    pan, lift, elbow, flex, roll = (np.deg2rad(v) for v in (pan_deg, lift_deg, elbow_deg, flex_deg, roll_deg))
    across = 0.01198 * np.cos(roll) + 0.0008 * np.sin(roll)
    sideways = 0.01198 * np.sin(roll) - 0.0008 * np.cos(roll) - 0.00017
    links = (*UPPER_LINKS_M, (0.15923, across))
    turned = list(zip(np.cumsum([lift, elbow, flex], axis=0), links, strict=True))
    reach = 0.0304 + sum(along * np.cos(turn) + up * np.sin(turn) for turn, (along, up) in turned)
    height = SHOULDER_M + sum(up * np.cos(turn) - along * np.sin(turn) for turn, (along, up) in turned)
    forward = reach * np.cos(pan) + sideways * np.sin(pan)
    left = sideways * np.cos(pan) - reach * np.sin(pan)
    tool: Floats = np.stack(np.broadcast_arrays(forward, left, height), axis=-1)
    return tool


def tool_height_for(robot_type: str) -> Callable[[Degrees], float] | None:
    """A function from a pose (degrees by key, of one arm or two) to the lowest tool's height; None if unknown."""
    return lowest_tool if robot_type in SO_ROBOTS else None


def tools(pose: Mapping[str, Angle]) -> Floats:
    """Every arm's tool in metres from its own pan axis, ``[..., arms, 3]``; see :func:`so_tool`.

    Args:
        pose: Degrees by joint key of any convention, numbers or arrays of one shape; all joints of each limb but the
            gripper's must be there.
    """
    return np.stack([so_tool(*arm) for arm in _arms(pose)], axis=-2)


def lowest_tool(pose: Degrees) -> float:
    """Height in metres of the lowest tool of a pose; the joints are those of :func:`tools`."""
    return float(tools(pose)[..., 2].min())


def lowest_wrist(pose: Degrees) -> float:
    """Height in metres of the lowest wrist of a pose, as for :func:`lowest_tool`."""
    return min(so_wrist_height(float(lift), float(elbow)) for _pan, lift, elbow, *_rest in _arms(pose))


def _arms(pose: Mapping[str, Angle]) -> list[tuple[Angle, ...]]:
    """By arm, its :data:`SO_JOINTS`."""
    arms: dict[str, dict[str, Angle]] = {}
    for key, value in pose.items():
        if (name := joint(key)) in SO_JOINTS:
            arms.setdefault(limb(key), {})[name] = value
    return [tuple(arm[name] for name in SO_JOINTS) for arm in arms.values()]


def height_of(robot: Any) -> Callable[[Degrees], float] | None:
    """See :func:`tool_height_for`; the type as ``--robot.type`` gives it, or the robot's own name."""
    config_type = getattr(getattr(robot, "config", None), "type", "")
    return tool_height_for(config_type) or tool_height_for(robot.name)


def tools_of(robot: Any) -> Callable[[Mapping[str, Angle]], Floats] | None:
    """:func:`tools` for a robot of this geometry; None for others."""
    return tools if height_of(robot) else None
