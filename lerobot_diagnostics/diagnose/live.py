"""A LeRobot robot opened for reading only: nothing is written to a motor, nothing moves, torque stays as it was.

LeRobot's ``connect`` of a serial arm writes registers and drops torque for a moment; here the bus is opened without it,
and the cameras beside it. A robot without a serial bus (simulated, or behind a network) is connected as LeRobot does.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.robot import parts
from lerobot_diagnostics.robot.connect import connected, port_error

Picture = NDArray[np.uint8]

BUS_FAILURES = (OSError, RuntimeError, KeyError, IndexError)
"""What LeRobot raises on a bus that answers late or in pieces; the last one comes from the servo SDK, which reads the
error byte of a packet that is not there."""

PINGS = 3
"""A servo counts as silent when it answers none of these."""

FIRST_PICTURE_S = 2.0
"""A USB camera gives its first picture within a second."""


@dataclass
class Arm:
    """One serial bus of a robot.

    Args:
        prefix: Before its joints' names: empty, ``left_`` or ``right_``.
        part: LeRobot's robot of this arm.
        bus: Its motors' bus.
        error: Why the port could not be opened, if so.
        answering: Motors that answered a ping.
    """

    prefix: str
    part: Any
    bus: Any
    error: UsageError | None = None
    answering: list[str] = field(default_factory=list)

    @property
    def silent(self) -> list[str]:
        """Motors that did not answer, in the order of their ids."""
        lost = [name for name in self.bus.motors if name not in self.answering]
        return sorted(lost, key=lambda name: int(self.bus.motors[name].id))


@dataclass
class Reading:
    """One reading of everything.

    Args:
        joints: Values by the robot's keys.
        pictures: By camera.
        stamps: When each picture was captured, where the camera says so.
        failed: What failed and why, by joint or camera.
    """

    joints: dict[str, float] = field(default_factory=dict)
    pictures: dict[str, Picture] = field(default_factory=dict)
    stamps: dict[str, float] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


@dataclass
class LiveRobot:
    """What :func:`open_for_reading` yields.

    Args:
        robot: LeRobot's robot.
        arms: Its serial buses; empty for a robot that was connected as a whole.
        cameras: Connected cameras by key.
        dead_cameras: Cameras that did not connect, and why.
    """

    robot: Any
    arms: list[Arm] = field(default_factory=list)
    cameras: dict[str, Any] = field(default_factory=dict)
    dead_cameras: dict[str, str] = field(default_factory=dict)

    def read(self) -> Reading:
        """Read joints and cameras once, without trying again. Failures are named in the result, never raised."""
        reading = Reading()
        if not self.arms:
            self._observe(reading)
            return reading
        for arm in self.arms:
            if not arm.answering:
                continue
            try:
                values = arm.bus.sync_read("Present_Position", arm.answering, normalize=bool(arm.bus.calibration))
            except BUS_FAILURES as error:
                reading.failed[f"{arm.prefix}{_culprit(arm)}"] = " ".join(str(error).split())
                continue
            reading.joints |= {f"{arm.prefix}{name}.pos": float(value) for name, value in values.items()}
        for name, camera in self.cameras.items():
            try:
                reading.pictures[name] = np.asarray(camera.read_latest())
                stamp = getattr(camera, "latest_timestamp", None)
                if stamp is not None:
                    reading.stamps[name] = float(stamp)
            except (OSError, TimeoutError, RuntimeError) as error:
                reading.failed[name] = " ".join(str(error).split())
        return reading

    def _observe(self, reading: Reading) -> None:
        try:
            observation: Mapping[str, Any] = self.robot.get_observation()
        except (OSError, TimeoutError, RuntimeError) as error:
            reading.failed["robot"] = " ".join(str(error).split())
            return
        for key, value in observation.items():
            if np.ndim(value) == 3 and np.shape(value)[2] == 3:
                reading.pictures[key] = np.asarray(value)
            elif np.ndim(value) == 0:
                reading.joints[key] = float(value)


def settled[Value](read: Callable[[], Value], tries: int = 8) -> Value | None:
    """A value that two readings in a row agree on; None where none do, or reading fails.

    After a late answer the next question may be answered with it: one reading alone is not to be believed.
    """
    last: Value | None = None
    for _ in range(tries):
        try:
            value = read()
        except BUS_FAILURES:
            last = None
            continue
        if last is not None and value == last:
            return value
        last = value
    return None


def _culprit(arm: Arm) -> str:
    """The motor at which a group read broke off: servos answer in turn, and the first without data did not."""
    received = getattr(getattr(arm.bus, "sync_reader", None), "data_dict", {})
    names = {motor.id: name for name, motor in arm.bus.motors.items()}
    return next((names[i] for i, data in received.items() if not data and i in names), "bus")


@contextlib.contextmanager
def open_for_reading(robot: Any) -> Iterator[LiveRobot]:
    """Open a robot's ports and cameras; what does not open is named in the result. Closed at the end.

    Raises:
        UsageError: If a robot without a serial bus does not connect.
    """
    pieces = [(prefix, part, parts.bus(part)) for prefix, part in parts.parts(robot)]
    if any(bus is None or not hasattr(bus, "ping") for _, _, bus in pieces):
        with connected(robot):
            yield LiveRobot(robot)
        return
    live = LiveRobot(robot)
    try:
        for prefix, part, bus in pieces:
            live.arms.append(_open_arm(prefix, part, bus))
            for name, camera in getattr(part, "cameras", {}).items():
                try:
                    _open_camera(camera)
                    live.cameras[f"{prefix}{name}"] = camera
                except Exception as error:  # drivers raise all kinds; any of them means no picture
                    live.dead_cameras[f"{prefix}{name}"] = " ".join(str(error).split()) or type(error).__name__
        yield live
    finally:
        for camera in live.cameras.values():
            with contextlib.suppress(Exception):
                camera.disconnect()
        for arm in live.arms:
            with contextlib.suppress(Exception):
                arm.bus.disconnect(disable_torque=False)


def _open_camera(camera: Any) -> None:
    """Connect a camera and wait for its first picture.

    Not by LeRobot's own warm-up: where that fails on a ZMQ camera (0.6.1), the socket is closed under the reading
    thread and libzmq aborts the process. ``disconnect`` ends the thread first.
    """
    camera.connect(warmup=False)
    patience = max(FIRST_PICTURE_S, float(getattr(camera.config, "warmup_s", None) or 0.0))
    deadline = time.monotonic() + patience
    while True:
        try:
            camera.read_latest()
            return
        except (OSError, TimeoutError, RuntimeError) as error:
            if time.monotonic() > deadline:
                with contextlib.suppress(Exception):
                    camera.disconnect()
                raise TimeoutError(f"no picture within {patience:g} s of connecting ({error})") from error
            time.sleep(0.02)


def _open_arm(prefix: str, part: Any, bus: Any) -> Arm:
    flag = f"--robot.{prefix and prefix + 'arm_config.'}port"
    try:
        bus.connect(handshake=False)  # the handshake raises on the first silent servo; here each is asked
    except OSError as error:
        return Arm(prefix, part, bus, port_error(bus.port, flag, error))
    return Arm(prefix, part, bus, answering=[name for name in bus.motors if _answers(bus, name)])


def _answers(bus: Any, name: str) -> bool:
    for _ in range(PINGS):
        with contextlib.suppress(*BUS_FAILURES):
            if bus.ping(name) is not None:
                return True
    return False
