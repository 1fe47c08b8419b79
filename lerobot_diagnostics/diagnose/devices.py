"""The devices rung: ports, servos, supply, calibration against motors, and a read-only soak at the control rate."""

from __future__ import annotations

import functools
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lerobot_diagnostics.diagnose.live import BUS_FAILURES, Arm, LiveRobot, Picture, Reading, settled
from lerobot_diagnostics.findings import Cause, Finding, FindingsOf, Status, Table
from lerobot_diagnostics.robot import calibration as calibrations
from lerobot_diagnostics.robot.connect import FIELDS

_finding = FindingsOf(Cause.MOTORS)

SOAK_S = 10.0
"""At 30 Hz 300 readings: a servo that loses one packet in a hundred loses three."""

REGISTERS = ("Present_Voltage", "Present_Temperature", "Status")

LOW_VOLTS = (6.0, (8.6, 10.5))
"""An STS3215 is fed with 7.4 V (6 to 8.4 V from two cells) or 12 V: below 6 V, or between the two, the supply sags."""

SAG_VOLTS = 1.0
"""Along one chain: cables and connectors cost less than half a volt at rest."""

HOT_C, TOO_HOT_C = 55, 65
"""STS3215: cuts off at 70 °C (Max_Temperature_Limit as delivered)."""

OVERLOAD_BIT = 0x20

SEAM_TICKS = 20
"""1.8°: nearer to 0 or 4095 than that a joint is about to cross its seam."""

OUTSIDE_TICKS = 35
"""3°: farther outside its calibrated range than that a joint was not calibrated as it is mounted."""

ERRORS_FAIL = 0.02
"""Share of failed readings. LeRobot tries a read again (three times on SO arms); at 2 % one episode of 600 frames has
twelve pauses."""

RATE = 0.9
"""Least share of the control rate that the loop must reach."""

OLD_NAMES = ("so101_follower", "so100_follower")
"""What ``so_follower`` was called before LeRobot 0.4.3; calibration files are looked up under the robot's name."""

KOCH = ("shoulder_pan", *calibrations.FULL_TURN)


@dataclass
class Soak:
    """What a soak counted.

    Args:
        seconds: How long it took.
        readings: How many.
        failed: Failed readings by joint or camera.
        why: The last error of each.
        frames: New pictures by camera, where the camera stamps them.
        changed: Cameras whose picture ever changed.
        slowest_s: The longest reading.
        p95_s: 95 % of the readings were faster.
        last: The last reading.
        pictures: Some pictures of each camera, oldest first.
    """

    seconds: float = 0.0
    readings: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    why: dict[str, str] = field(default_factory=dict)
    frames: Counter[str] = field(default_factory=Counter)
    changed: set[str] = field(default_factory=set)
    slowest_s: float = 0.0
    p95_s: float = 0.0
    last: Reading = field(default_factory=Reading)
    pictures: dict[str, list[Picture]] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Readings a second."""
        return self.readings / self.seconds if self.seconds else 0.0


def soak(
    live: LiveRobot,
    hz: float,
    seconds: float = SOAK_S,
    *,
    clock: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
) -> Soak:
    """Read everything at a rate for some time, on absolute deadlines.

    Args:
        live: The robot.
        hz: Readings a second.
        seconds: How long.
        clock, sleep: Seconds.
    """
    result = Soak()
    took = []
    stamps: dict[str, float] = {}
    first: dict[str, Picture] = {}
    live.read()  # the first reading allocates and waits for the cameras
    started = clock()
    while (now := clock()) - started < seconds:
        reading = live.read()
        took.append(clock() - now)
        result.readings += 1
        for name, why in reading.failed.items():
            result.failed[name] += 1
            result.why[name] = why
        for name, picture in reading.pictures.items():
            if stamps.get(name) != reading.stamps.get(name):
                result.frames[name] += 1
                stamps[name] = reading.stamps[name]
            if name not in result.changed and not np.array_equal(first.setdefault(name, picture), picture):
                result.changed.add(name)
            if len(kept := result.pictures.setdefault(name, [])) < 3 and now - started >= len(kept) * seconds / 4:
                kept.append(picture)
        result.last = reading
        rest = started + result.readings / hz - clock()
        if rest > 0:
            sleep(rest)
    result.seconds = clock() - started
    result.slowest_s, result.p95_s = (max(took), float(np.percentile(took, 95))) if took else (0.0, 0.0)
    return result


def judge_ports(live: LiveRobot) -> list[Finding]:
    """BUS_ERRORS for ports and silent servos, MISSING_CAMERA and INDEX_UNSTABLE for cameras."""
    found = []
    for arm in live.arms:
        if arm.error is not None:
            found.append(_finding("BUS_ERRORS", Status.FAIL, arm.bus.port, arm.error.message, {}, arm.error.fix))
        elif arm.silent:
            found.append(_silent(arm))
        else:
            summary = f"All {len(arm.answering)} servos on {arm.bus.port} answer."
            found.append(_finding("BUS_ERRORS", Status.PASS, arm.bus.port, summary))
    for name, why in live.dead_cameras.items():
        fix = "lerobot-find-cameras lists what is connected; close other programs that hold it."
        summary = f"{name} does not open: {why}"
        found.append(_finding("MISSING_CAMERA", Status.FAIL, name, summary, {}, fix, Cause.CAMERAS))
    numbered = [
        name
        for name, camera in live.cameras.items()
        if isinstance(getattr(getattr(camera, "config", None), "index_or_path", None), int)
    ]
    if len(numbered) >= 2:
        summary = f"{', '.join(numbered)} are opened by number: after a replug or reboot they may trade places."
        fix = "Use index_or_path: /dev/v4l/by-id/… (or by-path for two alike) in --robot.cameras."
        found.append(_finding("INDEX_UNSTABLE", Status.WARN, ", ".join(numbered), summary, {}, fix, Cause.CAMERAS))
    return found


def _silent(arm: Arm) -> Finding:
    ids = {name: int(arm.bus.motors[name].id) for name in arm.silent}
    names = ", ".join(f"{arm.prefix}{name} (id {number})" for name, number in ids.items())
    evidence = {"silent": list(ids), "answering": arm.answering}
    if not arm.answering:
        summary = f"No servo answers on {arm.bus.port}."
        fix = "Switch the arm's power supply on; check that this is the arm's port (lerobot-find-port)."
    else:
        last = max(int(arm.bus.motors[name].id) for name in arm.answering)
        chain = min(ids.values()) > last
        summary = f"{names} {'does' if len(ids) == 1 else 'do'} not answer, {len(arm.answering)} others do."
        fix = (
            f"Check the cable between the servos with id {last} and {last + 1}: all beyond it are silent."
            if chain and len(ids) > 1
            else "Check its cable on both sides, and its id (lerobot-setup-motors)."
        )
    return _finding("BUS_ERRORS", Status.FAIL, f"{arm.prefix}{next(iter(ids))}", summary, evidence, fix)


def read_registers(arm: Arm) -> dict[str, dict[str, int]]:
    """:data:`REGISTERS` of every answering motor, those that can be read."""
    values: dict[str, dict[str, int]] = {}
    for name in arm.answering:
        for register in REGISTERS:
            value = settled(functools.partial(arm.bus.read, register, name, normalize=False, num_retry=2))
            if value is not None:
                values.setdefault(name, {})[register] = int(value)
    return values


def judge_supply(prefix: str, registers: Mapping[str, Mapping[str, int]]) -> list[Finding]:
    """BUS_ERRORS for the supply voltage, OVERLOAD for temperature and the overload bit.

    Args:
        prefix: The arm's.
        registers: From :func:`read_registers`: voltage in 0.1 V, temperature in °C.
    """
    volts = {name: r["Present_Voltage"] / 10 for name, r in registers.items() if "Present_Voltage" in r}
    heat = {name: r["Present_Temperature"] for name, r in registers.items() if "Present_Temperature" in r}
    found = []
    if volts:
        low = min(volts, key=lambda name: volts[name])
        evidence = {f"{name}_v": value for name, value in volts.items()}
        floor, (above, below) = LOW_VOLTS
        if volts[low] < floor or above < volts[low] < below or max(volts.values()) - volts[low] > SAG_VOLTS:
            status = Status.FAIL if volts[low] < floor else Status.WARN
            summary = f"{prefix}{low} gets {volts[low]:.1f} V (up to {max(volts.values()):.1f} V on the same chain)."
            fix = "Use the supply of the servos (7.4 V or 12 V) with 3 A or more, and check plugs and cables."
            found.append(_finding("BUS_ERRORS", status, f"{prefix}supply", summary, evidence, fix))
        else:
            summary = f"Supply is {volts[low]:.1f} to {max(volts.values()):.1f} V at the servos."
            found.append(_finding("BUS_ERRORS", Status.PASS, f"{prefix}supply", summary, evidence))
    for name, value in heat.items():
        if value >= HOT_C:
            status = Status.FAIL if value >= TOO_HOT_C else Status.WARN
            summary = f"{prefix}{name} is at {value} °C; servos cut off at 70 °C."
            fix = f"Let it cool; support the arm, and see what {name} carries or holds."
            found.append(_finding("OVERLOAD", status, f"{prefix}{name}", summary, {"temperature_c": value}, fix))
    for name, r in registers.items():
        if r.get("Status", 0) & OVERLOAD_BIT:
            summary = f"{prefix}{name} reports overload: it was stalled and has cut its torque."
            fix = f"Free {name}, then switch the arm's power off and on."
            found.append(_finding("OVERLOAD", Status.FAIL, f"{prefix}{name}", summary, {"status": r["Status"]}, fix))
    if heat and not any(f.code == "OVERLOAD" for f in found):
        warmest = max(heat, key=lambda name: heat[name])
        summary = f"No servo is hot or overloaded (warmest {prefix}{warmest}, {heat[warmest]} °C)."
        found.append(_finding("OVERLOAD", Status.PASS, f"{prefix}servos", summary))
    return found


def judge_arm(arm: Arm) -> tuple[list[Finding], list[Table]]:
    """:func:`judge_calibration` of an open arm; registers that cannot be read are left out."""
    motors = (settled(arm.bus.read_calibration) if not arm.silent else None) or {}
    try:
        positions = arm.bus.sync_read("Present_Position", arm.answering, normalize=False, num_retry=2)
    except BUS_FAILURES:
        positions = {}
    full_turn = KOCH if "koch" in str(getattr(arm.part, "name", "")) else calibrations.FULL_TURN
    path = Path(arm.part.calibration_fpath)
    return judge_calibration(arm.prefix, arm.part.calibration, motors, positions, path, full_turn=full_turn)


def judge_calibration(
    prefix: str,
    file: Mapping[str, Any],
    motors: Mapping[str, Any],
    positions: Mapping[str, int],
    path: Path,
    *,
    full_turn: Sequence[str] = calibrations.FULL_TURN,
) -> tuple[list[Finding], list[Table]]:
    """The calibration file by itself, against the motors' registers, and against where the arm stands.

    Args:
        prefix: The arm's.
        file: From the calibration file; empty where there is none.
        motors: From the motors.
        positions: Raw ticks by motor.
        path: Where the file is looked for.
        full_turn: See :func:`lerobot_diagnostics.robot.calibration.check`.
    """
    found: list[Finding] = []
    tables = []
    if not file:
        older = [path.parent.parent / name / path.name for name in OLD_NAMES]
        there = next((other for other in older if other.is_file()), None)
        fix = (
            f"Copy {there} there: an older LeRobot left it." if there else "Check --robot.id, or run lerobot-calibrate."
        )
        summary = f"There is no calibration file {path}."
        found.append(
            _finding("MISSING_FILES", Status.FAIL, f"{prefix}calibration", summary, {}, fix, Cause.CALIBRATION)
        )
    else:
        found += calibrations.check(file, full_turn=full_turn)
    if file and motors:
        found += _against_motors(prefix, file, motors, path)
        rows = [
            [
                f"{prefix}{name}",
                name_of,
                getattr(file.get(name), name_of, None),
                getattr(motors.get(name), name_of, None),
            ]
            for name in {**file, **motors}
            for name_of in FIELDS
            if getattr(file.get(name), name_of, None) != getattr(motors.get(name), name_of, None)
        ]
        if rows:
            tables.append(Table("Calibration: file and motors", ["joint", "value", "file", "motors"], rows, str(path)))
    for name, tick in positions.items():
        limits = file.get(name) or motors.get(name)
        if limits is None:
            continue
        evidence = {"position_ticks": tick, "range_min_ticks": limits.range_min, "range_max_ticks": limits.range_max}
        outside = max(limits.range_min - tick, tick - limits.range_max)
        if min(tick, 4095 - tick) < SEAM_TICKS:
            summary = (
                f"{prefix}{name} stands at tick {tick}, on its encoder's seam: the next move may read as a full turn."
            )
            fix = f"Move {name} away from it by hand and calibrate it in the middle of its range."
            found.append(_finding("WRAP", Status.WARN, f"{prefix}{name}", summary, evidence, fix, Cause.CALIBRATION))
        elif outside > OUTSIDE_TICKS:
            degrees = outside * calibrations.DEGREES_A_TICK
            summary = (
                f"{prefix}{name} stands {degrees:.0f}° outside its calibrated range: its zero is not where it was."
            )
            fix = f"Calibrate {name} again from stop to stop (lerobot-calibrate)."
            found.append(
                _finding("ZERO_CHANGED", Status.FAIL, f"{prefix}{name}", summary, evidence, fix, Cause.CALIBRATION)
            )
    if positions and not any(f.code == "WRAP" for f in found):
        found.append(
            _finding("WRAP", Status.PASS, f"{prefix}joints", "No joint stands at its seam.", cause=Cause.CALIBRATION)
        )
    return found, tables


def _against_motors(prefix: str, file: Mapping[str, Any], motors: Mapping[str, Any], path: Path) -> list[Finding]:
    compared = calibrations.compare(file, {name: _with_mode(entry, file.get(name)) for name, entry in motors.items()})
    differing = [f for f in compared if f.status is not Status.PASS]
    fix = f"LeRobot asks on connecting which is right: {path}, or the motors. If the file worked, answer ENTER."
    if differing:
        return [
            Finding(
                f.code,
                f.status,
                f.cause,
                f"{prefix}{f.subject}",
                f"file and motors differ: {f.summary}",
                f.evidence,
                fix,
            )
            for f in differing
        ]
    numbers = any(
        getattr(entry, name) != getattr(motors.get(joint), name, None)
        for joint, entry in file.items()
        for name in FIELDS
    )
    said = "mean the same angles, in other numbers" if numbers else "agree to the tick"
    summary = f"Calibration file and motors {said} ({len(file)} joints)."
    status = Status.WARN if numbers else Status.PASS
    return [_finding("ZERO_CHANGED", status, f"{prefix}joints", summary, {}, fix if numbers else "", Cause.CALIBRATION)]


def _with_mode(motor: Any, file: Any) -> dict[str, int]:
    """Motors hold no drive_mode: that of the file."""
    return {**vars(motor), "drive_mode": getattr(file, "drive_mode", 0)}


def judge_soak(result: Soak, hz: float, expected_fps: Mapping[str, float]) -> tuple[list[Finding], Table]:
    """BUS_ERRORS by servo, STALE_FRAMES, FROZEN, SLOW_LOOP: what a soak counted.

    Args:
        result: From :func:`soak`.
        hz: The rate asked for.
        expected_fps: Configured rate by camera.
    """
    found = []
    servos = {name: n for name, n in result.failed.items() if name not in expected_fps}
    for name, count in servos.items():
        share = count / result.readings
        status = Status.FAIL if share >= ERRORS_FAIL else Status.WARN
        summary = f"{name} failed {count} of {result.readings} readings at {hz:g} Hz ({share:.1%}): {result.why[name]}"
        fix = f"Check the cable before {name} and its plugs; try another cable, then another servo."
        evidence = {"failed": count, "readings": result.readings, "rate_hz": hz}
        found.append(_finding("BUS_ERRORS", status, name, summary, evidence, fix))
    if result.last.joints and not servos:
        summary = f"No reading of {result.readings} failed in {result.seconds:.0f} s at {hz:g} Hz."
        found.append(_finding("BUS_ERRORS", Status.PASS, "soak", summary))
    for name, fps in expected_fps.items():
        found += _camera(name, fps, result)
    evidence = {
        "rate_hz": result.rate,
        "asked_hz": hz,
        "p95_ms": 1e3 * result.p95_s,
        "slowest_ms": 1e3 * result.slowest_s,
    }
    slow = result.rate < RATE * hz
    summary = (
        f"Reading arm and cameras reaches {result.rate:.1f} Hz of {hz:g} (p95 {1e3 * result.p95_s:.0f} ms a reading)."
    )
    fix = "Lower the cameras' resolution or --fps; see which device is slow." if slow else ""
    found.append(
        _finding("SLOW_LOOP", Status.FAIL if slow else Status.PASS, "readings", summary, evidence, fix, Cause.CLOCK)
    )
    names = list(dict.fromkeys([*result.failed, *expected_fps]))
    rows = [
        [name, result.failed[name], result.frames[name] / result.seconds if name in expected_fps else None]
        for name in names
        if result.seconds
    ]
    note = f"{result.readings} readings in {result.seconds:.1f} s; what is not listed never failed."
    return found, Table("Soak", ["device", "failed readings", "pictures a second"], rows, note)


def _camera(name: str, fps: float, result: Soak) -> list[Finding]:
    rate = result.frames[name] / result.seconds if result.seconds else 0.0
    evidence = {"pictures_a_second": rate, "configured_fps": fps, "failed": result.failed[name]}
    if result.failed[name]:
        summary = f"{name} gave no picture in {result.failed[name]} of {result.readings} readings: {result.why[name]}"
        fix = f"Check {name}'s cable and hub; two cameras on one USB hub may be too much for it."
        return [_finding("STALE_FRAMES", Status.FAIL, name, summary, evidence, fix, Cause.CLOCK)]
    found = []
    if rate < 0.8 * min(fps, result.rate):
        summary = f"{name} gives {rate:.1f} new pictures a second of {fps:g}: the policy sees old ones."
        fix = f"Light the scene (long exposures cost frames), or lower {name}'s resolution."
        found.append(_finding("STALE_FRAMES", Status.WARN, name, summary, evidence, fix, Cause.CLOCK))
    else:
        summary = f"{name} gives {rate:.1f} new pictures a second."
        found.append(_finding("STALE_FRAMES", Status.PASS, name, summary, evidence, cause=Cause.CLOCK))
    if name not in result.changed and result.readings > 1:
        # the arm stands still: only a real sensor's noise would show that the camera lives
        summary = f"{name} showed the very same picture for {result.seconds:.0f} s while nothing moved."
        fix = f"Wave a hand in front of {name} and run again: a live camera shows it."
        found.append(_finding("FROZEN", Status.UNKNOWN, name, summary, evidence, fix, Cause.CAMERAS))
    return found
