"""Six STS3215 servos on the wire: what LeRobot's stock ``so101_follower`` finds when it opens the port.

:class:`ServoBank` is the pure part, bytes in and bytes out at a given time. :class:`ServoRig` puts it behind a
pseudo-terminal (POSIX only) and keeps a log of everything the host said, which tests
read to learn what reached the arm.

Protocol: Feetech STS/SMS, ``FF FF id length instruction parameters… checksum`` with length = parameters + 2 and
checksum = ~(sum of all bytes after the header) & 0xFF; registers and sign bits as in ``lerobot.motors.feetech.tables``.
"""

from __future__ import annotations

import json
import os
import select
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from lerobot.motors.encoding_utils import decode_sign_magnitude, encode_sign_magnitude
from lerobot.motors.feetech.tables import STS_SMS_SERIES_CONTROL_TABLE as REGISTERS
from lerobot.motors.feetech.tables import STS_SMS_SERIES_ENCODINGS_TABLE as SIGN_BITS

JOINTS = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper")
"""Joint names; servo ids are 1 to 6 in this order."""

RESOLUTION = 4096
MODEL_NUMBER = 777
OVERLOAD = 0x20  # error bit of a status packet
FULL_LOAD = 1000  # Present_Load in 0.1 % of the maximum torque
STALL_CURRENT = 400  # Present_Current in 6.5 mA: 2.6 A, the data sheet's stall current at 12 V

PING, READ, WRITE, SYNC_READ, SYNC_WRITE = 0x01, 0x02, 0x03, 0x82, 0x83
BROADCAST = 0xFE

CALIBRATION: Mapping[str, Mapping[str, int]] = {
    "shoulder_pan": {"homing_offset": -1203, "range_min": 797, "range_max": 3299},
    "shoulder_lift": {"homing_offset": 341, "range_min": 910, "range_max": 3186},
    "elbow_flex": {"homing_offset": 977, "range_min": 944, "range_max": 3152},
    "wrist_flex": {"homing_offset": -560, "range_min": 967, "range_max": 3129},
    "wrist_roll": {"homing_offset": 1480, "range_min": 0, "range_max": 4095},
    "gripper": {"homing_offset": -88, "range_min": 2030, "range_max": 3520},
}
"""A calibrated arm with the widths of a real SO-101 (about ±110°, ±100°, ±97°, ±95°, a full turn)."""

REST = {
    "shoulder_pan": 0.0,
    "shoulder_lift": -95.0,
    "elbow_flex": 92.0,
    "wrist_flex": 70.0,
    "wrist_roll": 0.0,
    "gripper": 2.0,
}
"""Folded on itself: degrees, gripper 0–100."""


@dataclass
class Faults:
    """What is wrong with the arm or its wiring. Mutable: a test may break the arm while it runs.

    Args:
        zero_offset_ticks: Encoder reading minus true position, by joint: the encoder lies, the wire cannot show it.
        standing_error_ticks: How far from its goal a servo comes to rest, by joint (4096 ticks a turn).
        stalled: Joints that something holds: they do not move, load and current are at their maximum, and once the
            stall has lasted ``Protection_Time`` every status packet carries the overload bit.
        silent: Joints that answer nothing.
        silent_in_sync_read: Joints that answer single requests only.
        drop_every: Every N-th status packet is lost; 0 is none.
        corrupt_every: Every N-th status packet arrives with a wrong checksum; 0 is none.
    """

    zero_offset_ticks: dict[str, int] = field(default_factory=dict)
    standing_error_ticks: dict[str, int] = field(default_factory=dict)
    stalled: set[str] = field(default_factory=set)
    silent: set[str] = field(default_factory=set)
    silent_in_sync_read: set[str] = field(default_factory=set)
    drop_every: int = 0
    corrupt_every: int = 0


@dataclass(frozen=True)
class Write:
    """One write instruction: when it came, to which register, the raw values by joint (sign decoded)."""

    time_s: float
    register: str
    values: Mapping[str, int]


def frame(servo_id: int, code: int, parameters: bytes = b"") -> bytes:
    """A packet; ``code`` is the instruction, or the error byte of a status packet."""
    body = bytes([servo_id, len(parameters) + 2, code]) + parameters
    return b"\xff\xff" + body + bytes([~sum(body) & 0xFF])


def to_ticks(joint: str, value: float, calibration: Mapping[str, Mapping[str, int]] = CALIBRATION) -> float:
    """Degrees (gripper: 0–100) to the ticks that the servo is told, by LeRobot's definition of both."""
    low, high = calibration[joint]["range_min"], calibration[joint]["range_max"]
    if joint == "gripper":
        return low + value / 100 * (high - low)
    return value * (RESOLUTION - 1) / 360 + (low + high) / 2


def to_units(joint: str, ticks: float, calibration: Mapping[str, Mapping[str, int]] = CALIBRATION) -> float:
    """Inverse of :func:`to_ticks`."""
    low, high = calibration[joint]["range_min"], calibration[joint]["range_max"]
    if joint == "gripper":
        return (ticks - low) / (high - low) * 100
    return (ticks - (low + high) / 2) * 360 / (RESOLUTION - 1)


class Servo:
    """One STS3215: its register table and where its shaft is.

    ``encoder`` is the shaft's absolute reading in ticks; the servo reports ``encoder − Homing_Offset``, and goals are
    in that frame too. A goal is clipped to the position limits and approached at a bounded speed.
    """

    def __init__(
        self, joint: str, servo_id: int, calibration: Mapping[str, int], present: float, faults: Faults
    ) -> None:
        self.joint, self.id, self.faults = joint, servo_id, faults
        self.table = bytearray(256)
        for register, value in {
            "Model_Number": MODEL_NUMBER,
            "Firmware_Major_Version": 3,
            "Firmware_Minor_Version": 10,
            "ID": servo_id,
            "Min_Position_Limit": calibration["range_min"],
            "Max_Position_Limit": calibration["range_max"],
            "Homing_Offset": calibration["homing_offset"],
            "Max_Torque_Limit": FULL_LOAD,
            "Protection_Time": 200,
            "Present_Voltage": 120,
            "Present_Temperature": 30,
            "Goal_Position": round(present),
        }.items():
            self.set(register, value)
        self.encoder = present + calibration["homing_offset"]
        self.stalled_since: float | None = None
        self._now: float | None = None

    def get(self, register: str) -> int:
        """A register's value, sign decoded."""
        address, length = REGISTERS[register]
        value = int.from_bytes(self.table[address : address + length], "little")
        return decode_sign_magnitude(value, SIGN_BITS[register]) if register in SIGN_BITS else value

    def set(self, register: str, value: int) -> None:
        """Set a register's value, sign encoded."""
        address, length = REGISTERS[register]
        raw = encode_sign_magnitude(value, SIGN_BITS[register]) if register in SIGN_BITS else value
        self.table[address : address + length] = raw.to_bytes(length, "little")

    @property
    def present(self) -> float:
        """What the servo believes its position is, in ticks."""
        return self.encoder - self.get("Homing_Offset")

    def advance(self, now: float, speed: float) -> None:
        """Move towards the goal until ``now`` at ``speed`` ticks a second; bring the read-only registers up to date."""
        elapsed = now - self._now if self._now is not None else 0.0
        self._now = now
        goal = min(max(self.get("Goal_Position"), self.get("Min_Position_Limit")), self.get("Max_Position_Limit"))
        target = goal + self.faults.standing_error_ticks.get(self.joint, 0)
        missing = target - self.present if self.get("Torque_Enable") else 0.0
        held = self.joint in self.faults.stalled and abs(missing) > 1
        step = 0.0 if held else max(-speed * elapsed, min(speed * elapsed, missing))
        self.encoder += step
        if not held:
            self.stalled_since = None
        elif self.stalled_since is None:
            self.stalled_since = now
        self.set("Present_Position", round(self.present) % RESOLUTION)
        self.set("Present_Velocity", round(step / elapsed) if elapsed else 0)
        self.set("Present_Load", FULL_LOAD if held else 0)
        self.set("Present_Current", STALL_CURRENT if held else 0)
        self.set("Moving", int(abs(step) >= 1))
        self.set("Status", OVERLOAD if self.overloaded(now) else 0)

    def overloaded(self, now: float) -> bool:
        """Whether a stall has outlasted ``Protection_Time`` (10 ms a count)."""
        return self.stalled_since is not None and now - self.stalled_since >= self.get("Protection_Time") * 0.01

    def write(self, address: int, data: bytes) -> None:
        """Write to the table. Torque coming on takes the present position as goal, so that the arm does not jump."""
        torque_address = REGISTERS["Torque_Enable"][0]
        if address == torque_address and data[0] and not self.table[torque_address]:
            self.set("Goal_Position", round(self.present))
        self.table[address : address + len(data)] = data


class ServoBank:
    """The six servos of an arm: requests in, status packets out. Pure but for its own state.

    Args:
        faults: See :class:`Faults`; kept, so that later changes take effect.
        start: Start pose by joint, degrees and gripper 0–100; joints left out are at :data:`REST`.
        calibration: What the servos hold, as :data:`CALIBRATION`.
        speed_deg_s: Fastest motion of a joint.
        on_goal: Called with the number of goal writes so far, after each one.
    """

    def __init__(
        self,
        faults: Faults | None = None,
        *,
        start: Mapping[str, float] | None = None,
        calibration: Mapping[str, Mapping[str, int]] = CALIBRATION,
        speed_deg_s: float = 300.0,
        on_goal: Callable[[int], None] | None = None,
    ) -> None:
        self.faults = faults or Faults()
        self.calibration = calibration
        self.speed = speed_deg_s * RESOLUTION / 360
        self.on_goal = on_goal
        pose = {**REST, **(start or {})}
        self.servos = {
            number: Servo(joint, number, calibration[joint], to_ticks(joint, pose[joint], calibration), self.faults)
            for number, joint in enumerate(JOINTS, start=1)
        }
        self.log: list[Write] = []
        self.requests = 0
        self._status_packets = 0
        self._buffer = b""

    def receive(self, data: bytes, now: float) -> bytes:
        """Answer whatever requests ``data`` completes; bytes of an unfinished one are kept."""
        self._buffer += data
        return b"".join(self._answer(packet, now) for packet in self._packets())

    def _packets(self) -> Iterator[bytes]:
        while (start := self._buffer.find(b"\xff\xff")) >= 0:
            self._buffer = self._buffer[start:]
            if len(self._buffer) < 4 or len(self._buffer) < (size := self._buffer[3] + 4):
                return
            packet, self._buffer = self._buffer[:size], self._buffer[size:]
            if packet == frame(packet[2], packet[4], packet[5:-1]):
                yield packet

    def _answer(self, packet: bytes, now: float) -> bytes:
        self.requests += 1
        target, instruction, parameters = packet[2], packet[4], packet[5:-1]
        for servo in self.servos.values():
            servo.advance(now, self.speed)
        if instruction == SYNC_READ:
            address, length = parameters[:2]
            return b"".join(
                self._status(number, now, self.servos[number].table[address : address + length])
                for number in parameters[2:]
                if number in self.servos and self.servos[number].joint not in self.faults.silent_in_sync_read
            )
        if instruction == SYNC_WRITE:
            address, length = parameters[:2]
            records = [parameters[at : at + length + 1] for at in range(2, len(parameters), length + 1)]
            self._write(address, {record[0]: record[1:] for record in records}, now)
            return b""  # nobody answers a broadcast
        numbers = list(self.servos) if target == BROADCAST else [target] if target in self.servos else []
        if instruction == PING:
            return b"".join(self._status(number, now) for number in numbers)
        if instruction == READ and numbers:
            address, length = parameters
            return self._status(target, now, self.servos[target].table[address : address + length])
        if instruction == WRITE and numbers:
            self._write(parameters[0], dict.fromkeys(numbers, parameters[1:]), now)
            return self._status(target, now) if target != BROADCAST else b""
        return b""

    def _write(self, address: int, values: Mapping[int, bytes], now: float) -> None:
        present = {n: data for n, data in values.items() if n in self.servos}
        for number, data in present.items():
            if self.servos[number].joint not in self.faults.silent:
                self.servos[number].write(address, data)
        # Goal_Position and Moving_Velocity share no address; where two names do, the first is meant.
        register = next((name for name, (start, _) in REGISTERS.items() if start == address), f"@{address}")
        bit = SIGN_BITS.get(register)
        numbers = {n: int.from_bytes(data, "little") for n, data in present.items()}
        self.log.append(
            Write(
                now,
                register,
                {self.servos[n].joint: v if bit is None else decode_sign_magnitude(v, bit) for n, v in numbers.items()},
            )
        )
        if register == "Goal_Position" and self.on_goal:
            self.on_goal(len(self.writes("Goal_Position")))

    def _status(self, number: int, now: float, data: bytes = b"") -> bytes:
        if self.servos[number].joint in self.faults.silent:
            return b""
        self._status_packets += 1
        if self.faults.drop_every and self._status_packets % self.faults.drop_every == 0:
            return b""
        packet = frame(number, OVERLOAD if self.servos[number].overloaded(now) else 0, bytes(data))
        if self.faults.corrupt_every and self._status_packets % self.faults.corrupt_every == 0:
            return packet[:-1] + bytes([packet[-1] ^ 0xFF])
        return packet

    def writes(self, register: str) -> list[Write]:
        """All writes to a register, in order."""
        return [write for write in self.log if write.register == register]

    def goals(self) -> list[dict[str, float]]:
        """Every goal that reached the arm, in order, by joint: degrees, gripper 0–100."""
        return [
            {joint: to_units(joint, ticks, self.calibration) for joint, ticks in write.values.items()}
            for write in self.writes("Goal_Position")
        ]

    def true_pose(self) -> dict[str, float]:
        """Where the links really are after the last request, by joint: degrees, gripper 0–100.

        The reported pose is this plus ``zero_offset_ticks``.
        """
        return {
            servo.joint: to_units(
                servo.joint,
                servo.present - self.faults.zero_offset_ticks.get(servo.joint, 0),
                self.calibration,
            )
            for servo in self.servos.values()
        }


class ServoRig:
    """A :class:`ServoBank` behind a pseudo-terminal; use as a context manager. Keyword arguments go to the bank.

    Attributes:
        bank: The servos, with the log; safe to read and to change while running.
        port: Path for ``--robot.port``.
    """

    def __init__(
        self, faults: Faults | None = None, *, clock: Callable[[], float] = time.monotonic, **bank: object
    ) -> None:
        self.bank = ServoBank(faults, **bank)  # type: ignore[arg-type]
        self._clock = clock

    def __enter__(self) -> ServoRig:
        import pty
        import tty

        self._master, self._slave = pty.openpty()
        tty.setraw(self._slave)  # no echo, even before the host has opened it
        self.port = os.ttyname(self._slave)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True, name="servo-rig")
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join(timeout=2)
        os.close(self._master)
        os.close(self._slave)

    def go_first(self) -> bool:
        """Answer at once, as real servos do, which share no processor with the host; False where that is forbidden."""
        try:
            once = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
            os.sched_setscheduler(self._thread.native_id or 0, once, os.sched_param(1))
        except (AttributeError, PermissionError):  # another system than Linux, or not its administrator
            return False
        return True

    def _serve(self) -> None:
        while not self._stop.is_set():
            if select.select([self._master], [], [], 0.05)[0]:
                reply = self.bank.receive(os.read(self._master, 4096), self._clock())
                if reply:
                    os.write(self._master, reply)

    def save_calibration(self, folder: Path, robot_id: str = "rig") -> Path:
        """Write the servos' calibration where ``--robot.calibration_dir`` and ``--robot.id`` make LeRobot look."""
        content = {
            joint: {"id": number, "drive_mode": 0, **self.bank.calibration[joint]}
            for number, joint in enumerate(JOINTS, start=1)
        }
        path = folder / f"{robot_id}.json"
        path.write_text(json.dumps(content, indent=4))
        return path
