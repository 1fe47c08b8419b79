"""Calibrations against themselves and each other; every fault with the look-alike that must stay silent."""

import json

import pytest

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Status
from lerobot_diagnostics.robot.calibration import check, circular, compare

FIELDS = ("id", "drive_mode", "homing_offset", "range_min", "range_max")
ARM = {
    "shoulder_pan": (1, 0, -1203, 797, 3299),
    "elbow_flex": (3, 0, 977, 944, 3152),
    "wrist_roll": (5, 0, 1480, 0, 4095),
    "gripper": (6, 0, -88, 2030, 3520),
}


def arm(**changes):
    """ARM with some fields of some joints set."""
    joints = {name: dict(zip(FIELDS, values, strict=True)) for name, values in ARM.items()}
    for name, change in changes.items():
        joints[name] |= change
    return joints


def told(findings, status):
    return {(f.code, f.subject) for f in findings if f.status is status}


def test_a_real_arm_is_plausible_and_so_is_its_full_turn_wrist():
    findings = check(arm())
    assert {(f.code, f.status) for f in findings} == {
        ("RANGE_IMPLAUSIBLE", Status.PASS),
        ("END_STOP", Status.PASS),
    }


@pytest.mark.parametrize(
    "change", [{"range_min": 2, "range_max": 4094}, {"range_min": 1500, "range_max": 1500}, {"range_max": 990}]
)
def test_a_range_no_joint_with_stops_can_have(change):
    assert ("RANGE_IMPLAUSIBLE", "elbow_flex") in told(check(arm(elbow_flex=change)), Status.FAIL)


def test_a_limit_on_the_seam_warns_and_one_beside_it_does_not():
    assert ("END_STOP", "elbow_flex") in told(check(arm(elbow_flex={"range_min": 0})), Status.WARN)
    assert not told(check(arm(elbow_flex={"range_min": 5})), Status.WARN)


def test_a_range_beside_the_homing_tick_warns():
    assert ("RANGE_IMPLAUSIBLE", "gripper") in told(check(arm(gripper={"range_min": 2200})), Status.WARN)


def test_koch_turns_its_shoulder_all_round():
    koch = arm(shoulder_pan={"range_min": 0, "range_max": 4095})
    assert ("RANGE_IMPLAUSIBLE", "shoulder_pan") in told(check(koch), Status.FAIL)
    assert not told(check(koch, full_turn=("shoulder_pan", "wrist_roll")), Status.FAIL)


def test_a_moved_zero_is_told_in_ticks_and_degrees():
    findings = compare(arm(), arm(elbow_flex={"homing_offset": 977 + 114}))
    found = next(f for f in findings if f.subject == "elbow_flex")
    assert (found.code, found.status) == ("ZERO_CHANGED", Status.FAIL)
    assert found.evidence["change_ticks"] == 114
    assert found.evidence["change_deg"] == pytest.approx(10.02, abs=0.01)
    assert "114 ticks" in found.summary
    assert told(findings, Status.PASS) == {("ZERO_CHANGED", j) for j in ("shoulder_pan", "wrist_roll", "gripper")}


def test_other_numbers_for_the_same_zero_and_width_are_no_change():
    again = arm(elbow_flex={"homing_offset": 977 - 300, "range_min": 944 + 300, "range_max": 3152 + 300})
    assert all(f.status is Status.PASS for f in compare(arm(), again))


def test_a_difference_across_the_seam_is_the_short_way_round():
    assert circular(4090) == -6
    assert circular(-4090) == 6
    seam = compare(arm(elbow_flex={"homing_offset": 2040}), arm(elbow_flex={"homing_offset": -2045}))
    found = next(f for f in seam if f.subject == "elbow_flex")
    assert found.evidence["change_ticks"] == 11
    assert found.status is Status.PASS


def test_a_full_turn_joint_is_explained_by_the_pose_it_was_homed_in():
    found = next(f for f in compare(arm(), arm(wrist_roll={"homing_offset": 1280})) if f.subject == "wrist_roll")
    assert found.status is Status.FAIL
    assert "homing" in found.summary
    elbow = next(f for f in compare(arm(), arm(elbow_flex={"homing_offset": 777})) if f.subject == "elbow_flex")
    assert "homing" not in elbow.summary


def test_direction_width_and_gripper_ends():
    assert ("INVERTED", "elbow_flex") in told(compare(arm(), arm(elbow_flex={"drive_mode": 1})), Status.FAIL)
    wider = arm(elbow_flex={"range_min": 944 - 100, "range_max": 3152 + 100})
    assert told(compare(arm(), wider), Status.WARN) == {("SCALE", "elbow_flex")}
    opens_less = compare(arm(), arm(gripper={"range_max": 3520 - 200}))
    assert told(opens_less, Status.FAIL) == {("ZERO_CHANGED", "gripper")}


def test_joints_bind_by_name_whatever_its_age_and_lost_ones_are_named():
    old = {f"main_{name}": entry for name, entry in arm().items()}
    assert all(f.status is Status.PASS for f in compare(old, arm()))
    short = {name: entry for name, entry in arm().items() if name != "gripper"}
    assert told(compare(arm(), short), Status.FAIL) == {("NAMES_MISMATCH", "gripper")}


def test_a_path_is_read_and_what_is_no_calibration_is_refused(tmp_path):
    path = tmp_path / "arm.json"
    path.write_text(json.dumps(arm()))
    assert all(f.status is Status.PASS for f in compare(str(path), path))
    path.write_text(json.dumps({"elbow_flex": {"id": 3}}))
    with pytest.raises(UsageError, match="range_min"):
        check(path)
    with pytest.raises(UsageError, match="cannot be read"):
        check(tmp_path / "none.json")
