"""Which recorded joint drives which joint of the robot, in which unit, and how far it may go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Cause, Finding, Status
from lerobot_diagnostics.recording.names import canonical, is_gripper, is_velocity, match
from lerobot_diagnostics.recording.units import Unit, infer_joint_units
from lerobot_diagnostics.robot import parts

Values = Mapping[str, float]

TICKS_A_DEGREE = 4095 / 360
"""LeRobot's degrees: ``(ticks − (min + max) / 2) · 360 / 4095``."""


@dataclass(frozen=True)
class RobotJoint:
    """One position key of the robot.

    Args:
        key: As in ``robot.action_features``, e.g. ``left_elbow_flex.pos``.
        unit: What the robot's setting makes of its values; UNKNOWN where it does not say. Grippers are 0–100.
        calibration: ``range_min`` and ``range_max`` in ticks, where known.
    """

    key: str
    unit: Unit
    calibration: Mapping[str, int] | None = None

    @property
    def gripper(self) -> bool:
        """Whether it is a gripper: 0–100 in every mode."""
        return is_gripper(self.key)

    @property
    def bounds(self) -> tuple[float, float]:
        """Least and greatest value that the motor takes, in the joint's own unit; infinite where not known."""
        if self.gripper:
            return 0.0, 100.0
        if self.unit is Unit.RANGE_M100_100:
            return -100.0, 100.0
        if self.unit is Unit.DEGREES and self.calibration:
            half = (self.calibration["range_max"] - self.calibration["range_min"]) / 2 / TICKS_A_DEGREE
            return -half, half
        return -np.inf, np.inf

    @property
    def _degrees_a_unit(self) -> float:
        """A gripper's 0–100 stays; without a calibration ±100 counts as degrees."""
        if self.unit is Unit.RANGE_M100_100 and self.calibration and not self.gripper:
            return (self.calibration["range_max"] - self.calibration["range_min"]) / 200 / TICKS_A_DEGREE
        return 1.0

    def degrees(self, value: float) -> float:
        """The angle that a value means."""
        return value * self._degrees_a_unit

    def from_degrees(self, angle: float) -> float:
        """Inverse of :meth:`degrees`."""
        return angle / self._degrees_a_unit


def robot_joints(robot: Any) -> dict[str, RobotJoint]:
    """The position keys of a LeRobot robot with their units and limits, in the robot's order."""
    joints = {}
    for prefix, part in parts.parts(robot):
        bus = parts.bus(part)
        calibration = (bus.calibration if bus else None) or getattr(part, "calibration", None) or {}
        for key in robot.action_features:
            if is_velocity(key) or not key.startswith(prefix):
                continue
            name = parts.motor_name(key, prefix)
            motor = bus.motors.get(name) if bus else None
            unit = Unit.UNKNOWN
            if motor is not None and motor.norm_mode.value in {Unit.DEGREES.value, Unit.RANGE_M100_100.value}:
                unit = Unit(motor.norm_mode.value)
            elif bus is None and getattr(part.config, "use_degrees", False) and not is_gripper(key):
                unit = Unit.DEGREES
            limits = calibration.get(name)
            ticks = {"range_min": limits.range_min, "range_max": limits.range_max} if limits else None
            joints[key] = RobotJoint(key, unit, ticks)
    return joints


@dataclass(frozen=True)
class JointMap:
    """The robot's action keys, each with the column of the recorded ``action`` that drives it.

    Args:
        columns: ``{robot key: column}``, positions and velocities.
    """

    columns: Mapping[str, int]

    def values(self, row: Sequence[float] | NDArray[Any]) -> dict[str, float]:
        """A recorded row ``[J]`` as plain floats by robot key."""
        return {key: float(row[column]) for key, column in self.columns.items()}


def joint_map(robot_keys: Sequence[str], recorded: Sequence[str] | None) -> JointMap:
    """Bind recorded joints to the robot's keys by name, whatever the convention, never by position.

    Args:
        robot_keys: ``robot.action_features``.
        recorded: The recorded ``action`` names in column order; None where the data set has none.

    Raises:
        UsageError: If a key has no recorded joint or a recorded joint no key; it lists both sides.
    """
    if recorded is None:
        raise UsageError(
            f"the data set does not name its action's dimensions; the robot expects {', '.join(robot_keys)}.",
            "Joints are never bound by position: write the names into meta/info.json (features.action.names).",
        )
    found = match(robot_keys, recorded)
    surplus = [name for name in recorded if name not in found.values()]
    if surplus or None in found.values():
        rows = [f"{key} ← {name or '(none)'}" for key, name in found.items()]
        rows += [f"(none) ← {name}" for name in surplus]
        raise UsageError(
            f"the recorded joints are not the robot's: {'; '.join(rows)}.",
            "Choose the --robot.type that recorded this data set.",
        )
    index = {name: i for i, name in enumerate(recorded)}
    return JointMap({key: index[name] for key, name in found.items() if name is not None})


OLD_CONVENTION: Mapping[str, tuple[float, float]] = {"shoulder_lift": (-1.0, 90.0), "elbow_flex": (1.0, -90.0)}
"""LeRobot before June 2025 → today, as scale and offset: lift = −(x − 90), elbow = x − 90 (its backward-compatibility
notes). The other joints kept their zeros."""


def is_old_convention(names: Sequence[str]) -> bool:
    """Whether names are those of before mid-2025 (``main_shoulder_pan``), when SO-100 zeros were others."""
    return any(name.strip().startswith("main_") for name in names)


def from_old_convention(values: NDArray[Any], names: Sequence[str]) -> NDArray[np.float64]:
    """Degrees ``[T, J]`` of before June 2025 in today's; see :data:`OLD_CONVENTION`."""
    result = np.array(values, np.float64)
    for j, name in enumerate(names):
        scale, offset = OLD_CONVENTION.get(canonical(name), (1.0, 0.0))
        result[:, j] = scale * result[:, j] + offset
    return result


def check_units(joints: Mapping[str, RobotJoint], values: NDArray[Any], keys: Sequence[str]) -> Finding:
    """Compare the unit of recorded values, told by their quantum, with the robot's setting.

    Args:
        joints: See :func:`robot_joints`.
        values: ``[T, J]`` recorded states (or actions), whose columns are ``keys``.
        keys: J robot keys.

    Returns:
        UNITS_MISMATCH: ``fail`` with the flag, ``pass``, or ``unknown`` where either side does not tell.
    """
    # The follower's own calibration settles near-ties only for what it measured itself, which states are.
    ticks = {key: joint.calibration for key, joint in joints.items() if joint.calibration}
    guesses = infer_joint_units(values, keys, ticks)
    decided = {key: guess for key, guess in guesses.items() if guess.unit is not Unit.UNKNOWN and key in joints}
    foreign = [key for key, guess in decided.items() if guess.unit in {Unit.RADIANS, Unit.TICKS}]
    if foreign and len(foreign) > len(decided) / 2:
        unit = decided[foreign[0]].unit.value
        return _units(
            Status.FAIL, f"the data are in {unit}, which no LeRobot arm takes as a goal", {"recorded": unit},
            "Convert the data set, or choose the robot type that recorded it.",
        )  # fmt: skip
    known = {key for key in decided if joints[key].unit is not Unit.UNKNOWN}
    wrong = [key for key in known if decided[key].unit is not joints[key].unit]
    if wrong and len(wrong) >= len(known) / 2:
        recorded, live = decided[wrong[0]].unit, joints[wrong[0]].unit
        flag = "true" if recorded is Unit.DEGREES else "false"
        evidence = {"recorded": recorded.value, "robot": live.value, "joints": len(wrong)}
        return _units(
            Status.FAIL, f"the data are in {recorded.value}, the robot is set to {live.value}", evidence,
            f"Pass --robot.use_degrees={flag}.",
        )  # fmt: skip
    if known:
        unit = decided[min(known)].unit.value
        return _units(Status.PASS, f"the data are in {unit}, as the robot is set", {"joints": len(known)}, "")
    side = "robot's setting" if decided else "recorded values"
    return _units(
        Status.UNKNOWN, f"the {side} do not tell the unit: check that recording and robot agree", {},
        "See how the arm was recorded: degrees need --robot.use_degrees=true, ±100 needs false.",
    )  # fmt: skip


def _units(status: Status, summary: str, evidence: Mapping[str, Any], fix: str) -> Finding:
    return Finding("UNITS_MISMATCH", status, Cause.UNITS, "joints", summary, evidence, fix)
