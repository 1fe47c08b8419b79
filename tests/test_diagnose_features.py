"""Policy, data set and robot side by side: every mismatch, and what must not be called one."""

import pytest

from lerobot_diagnostics.diagnose.features import (
    Side,
    judge_fps,
    judge_framing,
    judge_inputs,
    judge_names,
    judge_rename,
    policy_side,
    robot_side,
    side_by_side,
)
from lerobot_diagnostics.findings import Status

CAM = "observation.images."
SIZE = (480, 640)
JOINTS = [f"joint_{i}.pos" for i in range(6)]


def side(name, *cameras, size=SIZE, joints=JOINTS):
    vectors = {"observation.state": len(joints), "action": len(joints)}
    names = {} if name == "policy" else {"observation.state": joints, "action": joints}
    return Side(name, vectors, {CAM + c: size for c in cameras}, names, 30 if name == "data set" else None)


def told(findings):
    return {(f.code, f.status.value) for f in findings if f.status is not Status.PASS}


def test_the_same_features_pass():
    assert not told(judge_inputs(side("policy", "a", "b"), side("data set", "b", "a"), {}, "act"))


def test_an_extra_camera_is_ignored():
    assert not told(judge_inputs(side("policy", "a"), side("data set", "a", "b"), {}, "act"))


def test_a_missing_camera_shifts_the_slots_of_a_vla_only():
    policy, data = side("policy", "a", "b", "c"), side("robot", "a", "c")
    assert told(judge_inputs(policy, data, {}, "smolvla")) == {("SLOT_SHIFT", "fail")}
    assert told(judge_inputs(policy, data, {}, "act")) == {("MISSING_CAMERA", "fail")}
    last = side("robot", "a", "b")
    assert told(judge_inputs(policy, last, {}, "smolvla")) == {("MISSING_CAMERA", "warn")}  # its slot stays empty


def test_a_prefix_gained_is_a_rename_and_not_a_loss():
    found = judge_inputs(side("policy", "wrist", "top"), side("robot", "left_wrist", "right_top"), {}, "act")
    assert '"observation.images.left_wrist": "observation.images.wrist"' in found[0].fix
    rename = {CAM + "left_wrist": CAM + "wrist", CAM + "right_top": CAM + "top"}
    assert not told(
        judge_inputs(side("policy", "wrist", "top"), side("robot", "left_wrist", "right_top"), rename, "act")
    )


def test_another_size_fails_a_policy_that_cannot_take_it():
    policy, live = side("policy", "a"), side("robot", "a", size=(720, 1280))
    assert told(judge_inputs(policy, live, {}, "act")) == {("RESOLUTION", "fail")}
    assert told(judge_inputs(policy, live, {}, "smolvla")) == {("RESOLUTION", "info")}


def test_vectors_of_another_length():
    found = judge_inputs(side("policy", "a"), side("data set", "a", joints=JOINTS[:5]), {}, "act")
    assert told(found) == {("NAMES_MISMATCH", "fail")}


def test_joints_bind_by_name_with_the_table_of_both_sides():
    data = side("data set")
    assert not told(judge_names(data, side("robot")))
    assert not told(judge_names(data, side("robot", joints=JOINTS[::-1])))  # order does not matter
    found = judge_names(data, side("robot", joints=[*JOINTS[:5], "other.pos"]))
    assert told(found) == {("NAMES_MISMATCH", "fail")}
    assert "other.pos ← (none)" in found[0].summary
    nameless = Side("data set", {"action": 6}, {}, {})
    assert told(judge_names(nameless, None)) == {("NAMES_MISMATCH", "unknown")}
    assert told(judge_names(nameless, side("robot"))) == {("NAMES_MISMATCH", "fail")}


SAVED = {CAM + "front": CAM + "camera1"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [(None, {("RENAME_ERASED", "warn")}), ({}, {("RENAME_ERASED", "fail")}), (SAVED, set())],
)
def test_an_empty_rename_map_erases_the_checkpoints(given, expected):
    found = judge_rename(SAVED, given, side("policy", "camera1"), side("robot", "front"), trained_on=False)
    assert told(found) == expected
    assert all('"observation.images.front": "observation.images.camera1"' in f.fix for f in found)


def test_a_rename_map_that_exchanges_two_cameras():
    exchange = {CAM + "a": CAM + "b", CAM + "b": CAM + "a"}
    both = side("policy", "a", "b"), side("data set", "a", "b")
    assert told(judge_rename({}, exchange, *both, trained_on=True)) == {("SWAPPED", "fail")}
    plain = {CAM + "x": CAM + "a", CAM + "y": CAM + "b"}
    assert not told(judge_rename({}, plain, side("policy", "a", "b"), side("data set", "x", "y"), trained_on=True))


def test_the_effective_field_of_view_of_a_crop():
    policy = side("policy", "a")
    found = judge_framing({"crop_shape": [84, 84]}, policy)
    assert told(found) == {("FRAMING", "fail")}
    assert found[0].evidence["share"] == pytest.approx(84 * 84 / (480 * 640))
    pusht = side("policy", "a", size=(96, 96))
    assert judge_framing({"crop_shape": [84, 84]}, pusht)[0].status is Status.PASS
    assert judge_framing({"resize_shape": [240, 320], "crop_ratio": 0.6}, policy)[0].status is Status.WARN
    assert not judge_framing({"crop_shape": None}, policy)


def test_another_control_rate():
    assert told(judge_fps(30, 20)) == {("FPS_MISMATCH", "fail")}
    assert not told(judge_fps(30, 30))
    assert not judge_fps(30, None)  # lerobot-rollout's own rate
    assert told(judge_fps(20, None)) == {("FPS_MISMATCH", "info")}


def test_the_table_shows_what_each_side_has():
    policy = policy_side(
        {
            "input_features": {
                "observation.state": {"type": "STATE", "shape": [6]},
                CAM + "camera1": {"type": "VISUAL", "shape": [3, *SIZE]},
            },
            "output_features": {"action": {"type": "ACTION", "shape": [6]}},
        }
    )
    joints = dict.fromkeys(JOINTS, float)
    live = robot_side({**joints, "front": (*SIZE, 3)}, joints)
    table = side_by_side([policy, side("data set", "camera1"), live], SAVED)
    assert table.columns == ["feature", "policy", "data set", "robot"]
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows[CAM + "camera1"] == ["640×480", "640×480", "640×480 (observation.images.front)"]
    assert rows["observation.state"] == ["6 values"] * 3
    assert rows["fps"] == ["–", "30", "–"]
