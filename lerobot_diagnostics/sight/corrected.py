"""A LeRobot calibration with zeros corrected, as a new file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.recording.names import canonical, is_gripper
from lerobot_diagnostics.report.write import atomic_file

TICKS_PER_DEGREE = 4095 / 360
"""LeRobot's: degrees = (position − (range_min + range_max) / 2) · 360 / 4095."""
MOST_HOMING = 2047
"""The servo's register holds eleven bits and a sign."""


def corrected_calibration(calibration: Mapping[str, Any], offsets: Mapping[str, float]) -> dict[str, Any]:
    """A copy of a calibration under which the joints read as they did before their zeros moved.

    A position is the encoder's tick minus ``homing_offset``, so a joint that reads δ too much wants its homing offset
    raised by δ in ticks; the range keeps its numbers and with them moves by as much on the arm.

    Args:
        calibration: LeRobot's calibration, by joint: ``id, drive_mode, homing_offset, range_min, range_max``.
        offsets: By joint, how much it reads too much: degrees, the gripper in its 0–100 (JOINT_OFFSET's
            ``offset_deg`` and ``offset_pct``).

    Raises:
        UsageError: A joint is not in the calibration, or its homing offset would leave the servo's range.
    """
    names = {canonical(name): name for name in calibration}
    new = {name: dict(entry) for name, entry in calibration.items()}
    for joint, offset in offsets.items():
        name = names.get(canonical(joint))
        if name is None:
            raise UsageError(f"the calibration has no joint {joint}.", f"There are: {', '.join(calibration)}.")
        entry = new[name]
        per_unit = TICKS_PER_DEGREE
        if is_gripper(joint):
            per_unit = (entry["range_max"] - entry["range_min"]) / 100
            if entry["drive_mode"]:  # then 100 is at range_min
                per_unit = -per_unit
        homing = entry["homing_offset"] + round(offset * per_unit)
        if abs(homing) > MOST_HOMING:
            raise UsageError(
                f"{joint} would need a homing offset of {homing}; the servo takes ±{MOST_HOMING}.",
                "Recalibrate with lerobot-calibrate, the joint in the middle of its range at the first ENTER.",
            )
        entry["homing_offset"] = homing
    return new


def write_corrected(source: Path, target: Path, offsets: Mapping[str, float]) -> None:
    """Write :func:`corrected_calibration` of a file to another, new file.

    Raises:
        UsageError: ``target`` exists (a calibration is never written over), or ``source`` is no calibration.
    """
    if target.exists():
        raise UsageError(f"{target} exists, and a calibration is never written over.", "Choose another file.")
    try:
        calibration = json.loads(source.read_text(encoding="utf-8"))
        new = corrected_calibration(calibration, offsets)
    except OSError as error:
        raise UsageError(f"{source} cannot be read: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UsageError(f"{source} is no calibration of LeRobot's.") from None
    with atomic_file(target) as temporary:
        temporary.write_text(json.dumps(new, indent=4), encoding="utf-8")
