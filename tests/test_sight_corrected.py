"""A corrected calibration, judged by LeRobot's own arithmetic."""

import json

import pytest
from lerobot.motors import Motor, MotorCalibration, MotorNormMode
from lerobot.motors.feetech import FeetechMotorsBus

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.sight.corrected import corrected_calibration, write_corrected

CALIBRATION = {
    "elbow_flex": {"id": 3, "drive_mode": 0, "homing_offset": -412, "range_min": 850, "range_max": 3050},
    "gripper": {"id": 6, "drive_mode": 0, "homing_offset": 1000, "range_min": 2000, "range_max": 3500},
}


def reading(calibration: dict, joint: str, tick: int) -> float:
    """What LeRobot reads when the encoder stands at ``tick``: the servo subtracts the homing offset."""
    mode = MotorNormMode.RANGE_0_100 if joint == "gripper" else MotorNormMode.DEGREES
    entry = MotorCalibration(**calibration[joint])
    bus = FeetechMotorsBus("none", {joint: Motor(entry.id, "sts3215", mode)}, {joint: entry})
    bus.apply_drive_mode = True
    return bus._normalize({entry.id: tick - entry.homing_offset})[entry.id]


@pytest.mark.parametrize(("joint", "tick", "offset"), [("elbow_flex", 1800, 4.0), ("gripper", 3600, -6.0)])
@pytest.mark.parametrize("drive_mode", [0, 1])
def test_the_joint_reads_less_by_its_offset_and_nothing_else_changes(joint, tick, offset, drive_mode):
    old = {name: entry | {"drive_mode": drive_mode} for name, entry in CALIBRATION.items()}
    new = corrected_calibration(old, {joint: offset})
    assert reading(new, joint, tick) == pytest.approx(reading(old, joint, tick) - offset, abs=0.05)
    assert {name: entry for name, entry in new.items() if name != joint} == {
        name: entry for name, entry in old.items() if name != joint
    }
    assert old[joint]["homing_offset"] == CALIBRATION[joint]["homing_offset"]


def test_an_unknown_joint_and_a_homing_offset_beyond_the_register_are_refused():
    with pytest.raises(UsageError, match="no joint wrist"):
        corrected_calibration(CALIBRATION, {"wrist": 1.0})
    with pytest.raises(UsageError, match="2047"):
        corrected_calibration(CALIBRATION, {"elbow_flex": -150.0})


def test_a_new_file_is_written_and_none_is_written_over(tmp_path):
    source, target = tmp_path / "arm.json", tmp_path / "arm_corrected.json"
    source.write_text(json.dumps(CALIBRATION))
    write_corrected(source, target, {"elbow_flex.pos": 4.0})
    assert json.loads(target.read_text()) == corrected_calibration(CALIBRATION, {"elbow_flex": 4.0})
    for taken in (source, target):
        with pytest.raises(UsageError, match="never written over"):
            write_corrected(source, taken, {"elbow_flex": 1.0})
    assert json.loads(source.read_text()) == CALIBRATION


@pytest.mark.parametrize("text", ["[]", "{", '{"elbow_flex": 3}'])
def test_a_file_that_is_no_calibration_is_a_users_error(tmp_path, text):
    source = tmp_path / "arm.json"
    source.write_text(text)
    with pytest.raises(UsageError, match="no calibration"):
        write_corrected(source, tmp_path / "new.json", {"elbow_flex": 1.0})
    with pytest.raises(UsageError, match="cannot be read"):
        write_corrected(tmp_path / "missing.json", tmp_path / "new.json", {"elbow_flex": 1.0})
