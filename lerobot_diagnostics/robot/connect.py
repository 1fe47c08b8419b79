"""Connecting a LeRobot robot without surprises: nothing asked on stdin, nothing overwritten, causes told apart."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lerobot.robots.config import RobotConfig
from lerobot.robots.utils import make_robot_from_config

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Table
from lerobot_diagnostics.robot import parts

FIELDS = ("homing_offset", "range_min", "range_max")

TRIES = 3
"""LeRobot connects with a hundred requests and repeats none: one lost packet would be enough to fail."""


class CalibrationDiffersError(UsageError):
    """The calibration file and the motors do not agree, or there is no file. Neither was changed.

    Attributes:
        table: Both, joint by joint.
    """

    def __init__(self, message: str, fix: str, table: Table) -> None:
        super().__init__(message, fix)
        self.table = table


def make_robot(config: RobotConfig) -> Any:
    """The robot of ``--robot.*``, not connected: it knows its keys, and its calibration where there is a file.

    Raises:
        UsageError: A driver is missing, or the flags do not fit the robot.
    """
    try:
        return make_robot_from_config(config)
    except ImportError as error:
        name = error.name or str(error)
        raise UsageError(f"--robot.type={config.type} needs {name}.", "Install its extra of lerobot.") from error
    except ValueError as error:
        raise UsageError(f"--robot.type={config.type}: {error}", "Check the --robot.* flags.") from error


@contextlib.contextmanager
def connected(robot: Any) -> Iterator[Any]:
    """Connect a robot; disconnected at the end, its torque left as ``disable_torque_on_disconnect`` says.

    Connecting an SO arm drops torque for a moment: warn the user first ("support the arm"), and again before the end.

    Args:
        robot: From :func:`make_robot`.

    Raises:
        CalibrationDiffersError: File and motors differ (LeRobot would ask on stdin).
        UsageError: The port is missing, forbidden or busy, or a motor or camera does not answer.
    """
    _refuse_calibration(robot)
    for tries_left in reversed(range(TRIES)):
        try:
            robot.connect()
            break
        except BaseException as error:
            _close(robot, release=False)  # nothing was moved: torque stays as it was found
            if isinstance(error, UsageError) or not isinstance(error, Exception):
                raise
            if not (tries_left and _unanswered(str(error))):
                raise _explain(robot, error) from error
    try:
        yield robot
    finally:
        disconnect(robot)


def _unanswered(message: str) -> bool:
    """Whether LeRobot says that a motor did not answer."""
    return "motor check failed" in message or "status packet" in message


def disconnect(robot: Any) -> None:
    """Disconnect whatever still answers. A silent servo or a dead camera does not keep the others from being let go."""
    with contextlib.suppress(Exception):
        robot.disconnect()
        return
    _close(robot, release=True)


def _close(robot: Any, *, release: bool) -> None:
    for _, part in parts.parts(robot):
        bus = parts.bus(part)
        if bus is not None and bus.is_connected:
            if release and getattr(part.config, "disable_torque_on_disconnect", True):
                for motor in bus.motors:
                    with contextlib.suppress(Exception):
                        bus.disable_torque(motor, num_retry=2)
            with contextlib.suppress(Exception):
                bus.disconnect(disable_torque=False)
        for camera in getattr(part, "cameras", {}).values():
            with contextlib.suppress(Exception):
                camera.disconnect()


def _refuse_calibration(robot: Any) -> None:
    """LeRobot calls ``calibrate`` from ``connect`` when file and motors differ: there it would wait on stdin."""
    for prefix, part in parts.parts(robot):

        def refuse(part: Any = part, prefix: str = prefix) -> None:
            raise _calibration_differs(part, prefix)

        part.calibrate = refuse


def _calibration_differs(part: Any, prefix: str) -> CalibrationDiffersError:
    path = Path(part.calibration_fpath)
    bus = parts.bus(part)
    motors = bus.read_calibration() if bus is not None and hasattr(bus, "read_calibration") else {}
    rows = [
        [
            f"{prefix}{name}",
            field,
            getattr(part.calibration.get(name), field, "–"),
            getattr(motors.get(name), field, "–"),
        ]
        for name in {**part.calibration, **motors}
        for field in FIELDS
    ]
    table = Table("Calibration", ["joint", "value", "file", "motors"], rows, f"file: {path}")
    if not part.calibration:
        old = [path.parent.parent / name / path.name for name in ("so101_follower", "so100_follower")]
        found = next((other for other in old if other.is_file()), None)
        fix = (
            f"An older LeRobot left {found}: copy it there." if found else "Check --robot.id, or run lerobot-calibrate."
        )
        return CalibrationDiffersError(f"there is no calibration file {path}.", fix, table)
    differing = [row[0] for row in rows if row[2] != row[3]]
    return CalibrationDiffersError(
        f"the calibration file {path} differs from the motors ({', '.join(dict.fromkeys(differing))}).",
        "Run lerobot-calibrate to choose which is right; nothing was written.",
        table,
    )


def _explain(robot: Any, error: Exception) -> UsageError:
    """What kept the robot from connecting, in a line."""
    # A bimanual robot connects one arm after the other: the part that failed is the first that is not open.
    buses = [(prefix, bus) for prefix, part in parts.parts(robot) if (bus := parts.bus(part)) is not None]
    closed = next(((prefix, bus) for prefix, bus in buses if f"'{bus.port}'" in str(error)), None)
    if closed is not None and isinstance(error, ConnectionError):
        return port_error(closed[1].port, f"--robot.{closed[0] and closed[0] + 'arm_config.'}port", error)
    text = " ".join(str(error).split())
    if _unanswered(text):
        return UsageError(
            f"the motors do not all answer: {text}", "Check power and cables, and that no other program uses the port."
        )
    return UsageError(f"the robot does not connect: {text or type(error).__name__}", "Check the --robot.* flags.")


def port_error(port: str, flag: str, error: BaseException) -> UsageError:
    """Missing, forbidden or busy: LeRobot says "could not connect" to all three; the cause beneath tells.

    Args:
        port: The port asked for.
        flag: Its flag.
        error: What LeRobot raised, with its causes.
    """
    number, text = _errno(error)
    name = f"{flag}={port}"
    if number in {errno.EBUSY, errno.EAGAIN} or "Access is denied" in text:  # the latter is Windows' word for busy
        return UsageError(
            f"{name} is busy: another program has it open.", "Close it (another lerobot command, a serial monitor)."
        )
    if number in {errno.EACCES, errno.EPERM}:
        return UsageError(
            f"{name}: permission denied.",
            "On Linux: sudo usermod -aG dialout $USER, then log in again (some systems call the group uucp).",
        )
    if number in {errno.ENOENT, errno.ENODEV, errno.ENXIO} or "FileNotFoundError" in text:
        return UsageError(f"{name} does not exist.", "Plug the arm in; lerobot-find-port names its port.")
    if number in {errno.ENOTTY, errno.EINVAL}:
        return UsageError(f"{name} is no serial port.", "lerobot-find-port names the arm's port.")
    return UsageError(f"{name} cannot be opened: {text}.", "lerobot-find-port names the arm's port.")


def _errno(error: BaseException) -> tuple[int | None, str]:
    """The first errno along the chain of causes, and the innermost text."""
    number, text = None, str(error)
    at: BaseException | None = error
    while at is not None:
        found = getattr(at, "errno", None)
        if number is None and isinstance(found, int):
            number = found
        text = f"{type(at).__name__}: {at}"
        at = at.__cause__ or at.__context__
    return number, " ".join(text.split())
