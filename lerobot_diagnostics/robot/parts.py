"""A LeRobot robot as its parts: one arm is one part, a bimanual robot has two. The one place that looks inside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def parts(robot: Any) -> Iterator[tuple[str, Any]]:
    """``(prefix, part)`` of a robot: ``("", robot)`` for one arm, ``("left_", …), ("right_", …)`` for two.

    LeRobot's bimanual robots hold ``left_arm`` and ``right_arm`` and put these prefixes before every key.
    """
    arms = [(f"{side}_", getattr(robot, f"{side}_arm", None)) for side in ("left", "right")]
    if all(arm is not None for _, arm in arms):
        yield from arms
    else:
        yield "", robot


def bus(part: Any) -> Any | None:
    """The motors' bus, None where the robot has none (simulated, or behind a network)."""
    return getattr(part, "bus", None)


def releases_torque(robot: Any) -> bool:
    """Whether disconnecting lets any arm of the robot go, by LeRobot's ``disable_torque_on_disconnect``."""
    return any(getattr(part.config, "disable_torque_on_disconnect", False) for _, part in parts(robot))


def without_cameras(config: Any) -> None:
    """Take the cameras out of a ``--robot.*`` config, those of the single arms of a bimanual robot too."""
    for part in (config, getattr(config, "left_arm_config", None), getattr(config, "right_arm_config", None)):
        if part is not None and hasattr(part, "cameras"):
            part.cameras = {}


def motor_name(key: str, prefix: str) -> str:
    """``left_elbow_flex.pos`` of the part ``left_`` is its motor ``elbow_flex``."""
    return key.removesuffix(".pos").removeprefix(prefix)
