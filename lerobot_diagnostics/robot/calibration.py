"""Is a calibration plausible, and what does it make of angles recorded under another one?

LeRobot keeps ``id, drive_mode, homing_offset, range_min, range_max`` a joint. A Feetech servo reports
``encoder − homing_offset``; LeRobot's degrees are counted from the middle of the range, ±100 and 0–100 from its ends.
So an angle of 0° is the encoder tick

    zero = homing_offset + (range_min + range_max) / 2        (modulo a turn of 4096 ticks)

and two calibrations that differ in every number but agree in zero and width mean the same poses.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Cause, Finding, FindingsOf, Status
from lerobot_diagnostics.recording.names import canonical, is_gripper, joint
from lerobot_diagnostics.recording.units import TURN

_finding = FindingsOf(Cause.CALIBRATION)

type Calibration = str | Path | Mapping[str, Any]
"""LeRobot's JSON: a path, the dictionary in it, or LeRobot's own ``{joint: MotorCalibration}``."""

FIELDS = ("id", "drive_mode", "homing_offset", "range_min", "range_max")

FULL_TURN = ("wrist_roll", "wheel")
"""Joints (parts of their names) that LeRobot itself calibrates to 0–4095 (``full_turn_motor`` in its SO arms and
LeKiwi). Koch adds ``shoulder_pan``: pass it."""

DEGREES_A_TICK = 360 / (TURN - 1)
"""LeRobot's definition of a degree; see ``MotorsBus._normalize``."""

LEAST_TICKS = 100
"""A narrower range (9°) lets no joint work; ``recording.units`` draws the same line."""

NARROW_TICKS = 512
"""45°. The narrowest of the joints of a real SO-101 is the gripper with 1490 ticks, then 2205 (elbow)."""

NEAR_FULL_TICKS = 3900
"""The widest joint with stops of a real SO-101 spans 2612 ticks. LeRobot records the least and greatest position seen,
so that a joint pushed across the encoder's seam is recorded as nearly the whole turn."""

END_TICKS = 1
"""A limit this near to 0 or 4095 lies on the encoder's seam."""

CENTRE = 2047
"""Homing makes the pose at hand this tick (LeRobot's ``_get_half_turn_homings``): the range must contain it."""

HOMING_LIMIT = 2047
"""The register's size: 11 bits and a sign."""

ZERO_WARN_DEG, ZERO_FAIL_DEG = 1.0, 3.0
"""Joints are homed by hand and eye; STS3215 servos at LeRobot's P = 16 stand 2–3° off their goal anyway, so a zero is
called changed beyond that. On an SO-101 3° in the elbow is 1 cm at the gripper (17° are 6 cm)."""

WIDTH_WARN = 0.03
"""Relative. At the end of a ±100 range 3 % of width are 3 units, as much as a servo's standing error."""


class Limits(NamedTuple):
    """One joint's entry, in ticks."""

    id: int
    drive_mode: int
    homing_offset: int
    range_min: int
    range_max: int

    @property
    def width(self) -> int:
        """Ticks from end to end."""
        return self.range_max - self.range_min

    @property
    def zero(self) -> float:
        """Encoder tick of 0°; for a gripper, of the middle of its 0–100."""
        return self.homing_offset + (self.range_min + self.range_max) / 2


def read(calibration: Calibration) -> dict[str, Limits]:
    """A calibration as limits by joint.

    Raises:
        UsageError: If the file is not there or is no LeRobot calibration.
    """
    where = "the calibration"
    if isinstance(calibration, str | Path):
        where = str(calibration)
        try:
            calibration = json.loads(Path(calibration).expanduser().read_text(encoding="utf-8"))
        except OSError as error:
            raise UsageError(f"{where} cannot be read: {error.strerror or error}.", "Check the path.") from error
        except ValueError as error:
            raise UsageError(f"{where} is not JSON: {error}.", "Restore it, or run lerobot-calibrate.") from error
    if not isinstance(calibration, Mapping):
        raise UsageError(f"{where} holds no joints.", "A LeRobot calibration is a JSON object of joints.")
    limits = {}
    for name, entry in calibration.items():
        values = entry if isinstance(entry, Mapping) else vars(entry) if hasattr(entry, "__dict__") else {}
        missing = [field for field in FIELDS if not isinstance(values.get(field), int)]
        if missing:
            raise UsageError(
                f"{where}: {name} has no whole number for {', '.join(missing)}.", "Run lerobot-calibrate again."
            )
        limits[str(name)] = Limits(*(values[field] for field in FIELDS))
    return limits


def circular(ticks: float) -> float:
    """A difference of two encoder ticks the short way round: −2048 to 2048.

    >>> circular(4090)
    -6
    """
    return (ticks + TURN / 2) % TURN - TURN / 2 if abs(ticks) > TURN / 2 else ticks


def check(calibration: Calibration, *, full_turn: Collection[str] = FULL_TURN) -> list[Finding]:
    """Is a calibration plausible by itself?

    Args:
        calibration: See :data:`Calibration`.
        full_turn: Parts of the names of joints that turn all the way round by design.

    Returns:
        RANGE_IMPLAUSIBLE and END_STOP for each joint concerned; where there is none, one ``pass`` for each code.

    Raises:
        UsageError: See :func:`read`.
    """
    findings = []
    limits = read(calibration)
    for name, entry in limits.items():
        endless = any(part in joint(name) for part in full_turn)
        findings += _ends(name, entry) if not endless else _homing(name, entry)
    for code, said in (
        ("RANGE_IMPLAUSIBLE", f"all {len(limits)} recorded ranges are ones that a joint can have"),
        ("END_STOP", "no joint with stops has a limit on the encoder's seam (0 or 4095)"),
    ):
        if not any(f.code == code for f in findings):
            status = Status.PASS if limits else Status.UNKNOWN
            findings.append(
                _finding(code, status, "calibration", said if limits else "the calibration holds no joint", {})
            )
    return findings


RECALIBRATE = "Run lerobot-calibrate again: move every joint from stop to stop, starting from the middle of its range."


def _homing(name: str, entry: Limits) -> list[Finding]:
    if abs(entry.homing_offset) <= HOMING_LIMIT:
        return []
    summary = f"{name}: homing offset {entry.homing_offset} does not fit the servo's register (±{HOMING_LIMIT})"
    evidence = {"homing_offset_ticks": entry.homing_offset}
    return [_finding("RANGE_IMPLAUSIBLE", Status.FAIL, name, summary, evidence, RECALIBRATE)]


def _ends(name: str, entry: Limits) -> list[Finding]:
    evidence = {
        "range_min_ticks": entry.range_min,
        "range_max_ticks": entry.range_max,
        "width_deg": round(entry.width * DEGREES_A_TICK, 1),
    }

    def implausible(status: Status, what: str) -> Finding:
        summary = f"{name}: recorded range {entry.range_min}–{entry.range_max} ticks {what}"
        return _finding("RANGE_IMPLAUSIBLE", status, name, summary, evidence, RECALIBRATE)

    found = _homing(name, entry)
    degrees = f"({entry.width * DEGREES_A_TICK:.0f}°)"
    if entry.width <= 0:
        return [*found, implausible(Status.FAIL, "is empty: its ends are the same or exchanged")]
    if entry.width >= NEAR_FULL_TICKS:
        what = f"{degrees} is nearly a whole turn on a joint that has stops: it crossed the encoder's seam (4095 → 0)"
        return [*found, implausible(Status.FAIL, what)]
    if entry.width < LEAST_TICKS:
        return [*found, implausible(Status.FAIL, f"{degrees} is too narrow to work in: the joint was not moved")]
    if entry.width < NARROW_TICKS:
        found.append(implausible(Status.WARN, f"{degrees} is narrow: was the joint moved from stop to stop?"))
    if not entry.range_min <= CENTRE <= entry.range_max:
        what = f"does not contain {CENTRE}, the tick at which it was homed: homed or moved in another pose"
        found.append(implausible(Status.WARN, what))
    for end, at, seam in (("range_min", entry.range_min, 0), ("range_max", entry.range_max, TURN - 1)):
        if abs(at - seam) <= END_TICKS:
            summary = f"{name}: {end} is {at}, on the encoder's seam: the true end may lie beyond it"
            found.append(_finding("END_STOP", Status.WARN, name, summary, evidence, RECALIBRATE))
    return found


def compare(before: Calibration, after: Calibration) -> list[Finding]:
    """What angles recorded under one calibration mean under another.

    Joints are matched by name whatever its age; differences of ticks are circular.

    Args:
        before: The calibration of the recording, or of the setup while it worked.
        after: Today's.

    Returns:
        One ZERO_CHANGED for each joint (``pass`` where zero and width stayed), INVERTED and SCALE where they apply,
        NAMES_MISMATCH for joints that only one of the two has.

    Raises:
        UsageError: See :func:`read`.
    """
    old = {canonical(name): (name, entry) for name, entry in read(before).items()}
    new = {canonical(name): (name, entry) for name, entry in read(after).items()}
    findings = []
    for lost, there in ((sorted(old.keys() - new.keys()), "before"), (sorted(new.keys() - old.keys()), "after")):
        if lost:
            summary = f"{', '.join(lost)}: only in the calibration {there}, so not compared"
            fix = "Compare calibrations of the same robot (--robot.id)."
            findings.append(
                Finding("NAMES_MISMATCH", Status.FAIL, Cause.CALIBRATION, ", ".join(lost), summary, {}, fix)
            )
    for key in old.keys() & new.keys():
        name = new[key][0]
        findings += _changes(name, old[key][1], new[key][1])
    order = list(new)
    return sorted(findings, key=lambda f: order.index(canonical(f.subject)) if canonical(f.subject) in order else -1)


def _changes(name: str, old: Limits, new: Limits) -> list[Finding]:
    ticks = circular(new.zero - old.zero)
    degrees = ticks * DEGREES_A_TICK
    width = new.width / old.width if old.width > 0 else float("nan")
    evidence: dict[str, Any] = {
        "zero_before_ticks": old.zero % TURN,
        "zero_after_ticks": new.zero % TURN,
        "change_ticks": ticks,
        "change_deg": round(degrees, 2),
        "width_before_ticks": old.width,
        "width_after_ticks": new.width,
    }
    findings = []
    if old.drive_mode != new.drive_mode:
        summary = f"{name}: its direction was turned round (drive_mode {old.drive_mode} → {new.drive_mode})"
        fix = f"Set drive_mode of {name} back to {old.drive_mode} in the calibration file."
        findings.append(_finding("INVERTED", Status.FAIL, name, summary, {}, fix))
    if is_gripper(name):
        findings.append(_gripper(name, old, new, evidence))
        return findings

    status = (
        Status.FAIL if abs(degrees) > ZERO_FAIL_DEG else Status.WARN if abs(degrees) > ZERO_WARN_DEG else Status.PASS
    )
    if status is Status.PASS:
        same = "is where it was" if abs(ticks) < 1 else f"is within {abs(degrees):.1f}° of where it was"
        findings.append(_finding("ZERO_CHANGED", status, name, f"{name}: zero {same}", evidence))
    else:
        summary = (
            f"{name}: zero moved by {abs(ticks):.0f} ticks ({abs(degrees):.1f}°): the recorded 0° is now "
            f"{-degrees:+.1f}°".replace("-", "−")
        )
        if "wrist_roll" in joint(name):
            summary += "; a full-turn joint takes its zero from the pose held at homing"
        fix = f"Restore the calibration file of the recording, or calibrate {name} again, homed in the pose of then."
        findings.append(_finding("ZERO_CHANGED", status, name, summary, evidence, fix))
    if not abs(width - 1) <= WIDTH_WARN:
        summary = (
            f"{name}: its range went from {old.width} to {new.width} ticks: in ±100 units the recorded values now mean "
            f"motions {abs(width - 1):.0%} {'larger' if width > 1 else 'smaller'} (degrees are not concerned)"
        )
        fix = f"Calibrate {name} again from stop to stop, or restore the calibration file of the recording."
        findings.append(_finding("SCALE", Status.WARN, name, summary, evidence, fix))
    return findings


def _gripper(name: str, old: Limits, new: Limits, evidence: Mapping[str, Any]) -> Finding:
    """A gripper's 0–100 hangs on both ends of its range."""
    ends = [
        circular(new.homing_offset + end_new - old.homing_offset - end_old)
        for end_old, end_new in ((old.range_min, new.range_min), (old.range_max, new.range_max))
    ]
    worst = max(ends, key=abs)
    degrees = abs(worst) * DEGREES_A_TICK
    evidence = {**evidence, "change_at_0_ticks": ends[0], "change_at_100_ticks": ends[1]}
    if degrees <= ZERO_WARN_DEG:
        return _finding("ZERO_CHANGED", Status.PASS, name, f"{name}: both ends are where they were", evidence)
    summary = f"{name}: the ends of its 0–100 moved by {ends[0]:+.0f} and {ends[1]:+.0f} ticks ({degrees:.1f}°)"
    fix = f"Calibrate {name} again from fully closed to fully open, or restore the calibration file of the recording."
    status = Status.FAIL if degrees > ZERO_FAIL_DEG else Status.WARN
    return _finding("ZERO_CHANGED", status, name, summary.replace("-", "−"), evidence, fix)
