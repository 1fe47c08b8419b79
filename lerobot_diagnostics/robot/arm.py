"""The one path by which commands reach the arm: by name, within limits, as plain floats, and on record."""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lerobot_diagnostics.recording.names import is_velocity
from lerobot_diagnostics.robot import parts
from lerobot_diagnostics.robot.joints import RobotJoint, robot_joints

Values = Mapping[str, float]

FAILED_IN_A_ROW = 3
FAILED_S = 0.5
"""Reads that may fail before the arm is given up; LeRobot tries each of them three times itself."""

MAX_STEP, MAX_GRIPPER_STEP = 20.0, 60.0
"""Largest change from one goal to the next, in degrees (or ±100). At 30 Hz 20° is 600°/s, more than an STS3215 can turn
(45 rpm, 270°/s); the largest recorded step in so101_record_test_stateonly is 7.7 of ±100. A gripper snaps shut faster
and drives nothing else."""


class ArmLostError(Exception):
    """The arm no longer answers: no goal is sent any more. The message says since when."""


class CameraLostError(Exception):
    """A camera no longer delivers. The message is LeRobot's."""


@dataclass(frozen=True)
class Reading:
    """What the robot said at ``time_s``: joint values by key, and ``{camera: [H, W, 3] uint8 RGB}``."""

    time_s: float
    joints: dict[str, float]
    pictures: dict[str, NDArray[np.uint8]] = field(default_factory=dict)


@dataclass(frozen=True)
class Command:
    """A goal: when it was handed to the robot, what was asked for, what limits and robot made of it."""

    time_s: float
    asked: dict[str, float]
    sent: dict[str, float]


class Arm:
    """A connected LeRobot robot behind limits.

    Args:
        robot: Connected.
        max_step: Largest change of a joint from one goal to the next.
        max_gripper_step: The same of a gripper.
        clock: Seconds.

    Attributes:
        joints: Position keys, see :func:`~lerobot_diagnostics.robot.joints.robot_joints`.
        velocities: The keys ending in ``.vel``.
        log: Every command.
        failed_reads: Readings that failed although LeRobot tried again.
        lost_packets: Tries of LeRobot's that failed (with a bus; see :meth:`counting_packets`).
        last: The last good reading.
        max_step: Largest change by position key.
    """

    def __init__(
        self,
        robot: Any,
        *,
        max_step: float = MAX_STEP,
        max_gripper_step: float = MAX_GRIPPER_STEP,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.robot = robot
        self.joints: dict[str, RobotJoint] = robot_joints(robot)
        self.velocities = [key for key in robot.action_features if is_velocity(key)]
        self.log: list[Command] = []
        self.failed_reads = 0
        self.lost_packets = 0
        self.last: Reading | None = None
        self.max_step = {k: max_gripper_step if j.gripper else max_step for k, j in self.joints.items()}
        self._clock = clock
        self._failures = 0
        self._failing_since = 0.0

    # --- reading ---------------------------------------------------------------------------------------------------

    def read(self) -> Reading | None:
        """Joints and pictures; None when the read failed and may be tried again.

        Raises:
            ArmLostError: After :data:`FAILED_IN_A_ROW` failures or :data:`FAILED_S` of them.
            CameraLostError: When a camera's last picture is too old, or its thread has ended.
        """
        started = self._clock()
        try:
            observation = self.robot.get_observation()
        except (TimeoutError, RuntimeError) as error:  # of LeRobot's cameras; a bus raises ConnectionError
            raise CameraLostError(" ".join(str(error).split())) from error
        except OSError as error:  # ConnectionError, and serial's own when the plug is pulled
            self._failed(started, error)
            return None
        self._failures = 0
        joints, pictures = {}, {}
        for key, value in observation.items():
            if key in self.joints or is_velocity(key):
                joints[key] = float(value)
            elif np.ndim(value) == 3 and np.shape(value)[2] == 3:
                pictures[key] = np.asarray(value)
        self.last = Reading(self._clock(), joints, pictures)
        return self.last

    def _failed(self, started: float, error: Exception) -> None:
        if not self._failures:
            self._failing_since = started
        self._failures += 1
        self.failed_reads += 1
        lasted = self._clock() - self._failing_since
        if self._failures >= FAILED_IN_A_ROW or lasted >= FAILED_S:
            text = " ".join(str(error).split())
            raise ArmLostError(f"{self._failures} reads in a row failed within {lasted:.2f} s: {text}") from error

    @property
    def trusted(self) -> bool:
        """Whether the last read succeeded: else no goal is sent."""
        return self.last is not None and not self._failures

    def loads(self) -> dict[str, float]:
        """Share of the largest torque by key, 1 at the limit; empty where the motors do not tell.

        Feetech's ``Present_Load`` counts 0.1 % of the largest torque. Costs one read of the bus.
        """
        result: dict[str, float] = {}
        for prefix, part in parts.parts(self.robot):
            bus = parts.bus(part)
            if bus is not None and type(bus).__name__ == "FeetechMotorsBus":
                with contextlib.suppress(OSError):
                    names = [parts.motor_name(key, prefix) for key in self.joints if key.startswith(prefix)]
                    loads = bus.sync_read("Present_Load", names, normalize=False)
                    result |= {f"{prefix}{name}.pos": abs(load) / 1000 for name, load in loads.items()}
        return result

    def degrees(self, pose: Values) -> dict[str, float]:
        """A pose in degrees by key (grippers 0–100), for kinematics."""
        return {key: self.joints[key].degrees(value) for key, value in pose.items() if key in self.joints}

    def from_degrees(self, pose: Values) -> dict[str, float]:
        """Inverse of :meth:`degrees`."""
        return {key: self.joints[key].from_degrees(value) for key, value in pose.items()}

    # --- commanding ------------------------------------------------------------------------------------------------

    def send(self, goal: Values, *, speed: float = 1.0) -> dict[str, float] | None:
        """Send a goal.

        Positions are kept within the motors' limits and within one step of the last goal (the first: of where the arm
        is). Velocities are multiplied by ``speed``, because at half the speed they act twice as long; those left out
        are zero.

        Args:
            goal: By robot key; every position key.
            speed: Factor of the velocities.

        Returns:
            What was sent; None when nothing was, because the last read failed.

        Raises:
            ValueError: On a missing, unknown or non-finite value: a caller's mistake.
            ArmLostError: When the robot could not be written to, as for :meth:`read`.
        """
        unknown = [key for key in goal if key not in self.joints and key not in self.velocities]
        missing = [key for key in self.joints if key not in goal]
        bad = [key for key, value in goal.items() if not math.isfinite(value)]
        if unknown or missing or bad:
            raise ValueError(f"goal with unknown {unknown}, missing {missing}, not finite {bad}")
        if not self.trusted:
            return None
        assert self.last is not None
        before = self.log[-1].sent if self.log else self.last.joints
        limited = {}
        for key, joint in self.joints.items():
            low, high = joint.bounds
            step = self.max_step[key]
            value = min(max(float(goal[key]), low), high)
            limited[key] = min(max(value, before[key] - step), before[key] + step)
        limited |= {key: float(goal.get(key, 0.0)) * speed for key in self.velocities}
        return self._command(goal, limited)

    def _command(self, asked: Values, values: dict[str, float]) -> dict[str, float] | None:
        started = self._clock()
        try:
            returned = self.robot.send_action(values)
        except OSError as error:  # a robot with max_relative_target reads before it writes
            self._failed(started, error)
            return None
        sent = values | {key: float(value) for key, value in returned.items() if key in values}
        self.log.append(Command(started, {key: float(value) for key, value in asked.items()}, sent))
        return sent

    def hold(self) -> None:
        """Goal = present position, velocities zero: what a stalled joint pushes against is let go."""
        if self.last is not None and self.trusted:
            goal = {key: self.last.joints[key] for key in self.joints}
            self._command(goal, goal | dict.fromkeys(self.velocities, 0.0))

    def halt(self) -> None:
        """Velocities zero; positions stay at the last goal. Nothing is sent where there are no velocities."""
        if self.velocities and self.log and any(self.log[-1].sent[key] for key in self.velocities):
            goal = self.log[-1].sent | dict.fromkeys(self.velocities, 0.0)
            with contextlib.suppress(ArmLostError):  # tried even after a failed read: a base must not drive on
                self._command(goal, goal)

    @contextlib.contextmanager
    def counting_packets(self) -> Iterator[None]:
        """Count what LeRobot tries again by itself and mentions only in its debug log."""
        logger = logging.getLogger("lerobot.motors.motors_bus")
        level = logger.level

        def count(record: logging.LogRecord) -> bool:
            self.lost_packets += record.levelno == logging.DEBUG and "sync read" in record.msg
            return record.levelno > logging.DEBUG

        logger.addFilter(count)
        logger.setLevel(logging.DEBUG)
        try:
            yield
        finally:
            logger.removeFilter(count)
            logger.setLevel(level)
