import pytest

from lerobot_diagnostics.recording.names import (
    canonical,
    is_gripper,
    is_velocity,
    joint,
    joint_names,
    limb,
    match,
    placeholder_names,
)


@pytest.mark.parametrize(
    "names",
    [
        ["a", "b", "c"],
        ("a", "b", "c"),
        {"motors": ["a", "b", "c"]},
        [["a", "b", "c"]],
        [["a", "b"], ["c"]],
        {"b": 1, "a": 0, "c": 2},
    ],
)
def test_names_of_every_convention_are_read_in_order(names):
    assert joint_names(names, 3) == ("a", "b", "c")


@pytest.mark.parametrize("names", [None, [], {}, ["a", "b"], ["a", "b", "b"], ["a", "b", "c", "d"]])
def test_names_that_do_not_fit_are_none_and_not_guessed(names):
    assert joint_names(names, 3) is None


def test_placeholders_number_the_joints():
    assert placeholder_names(2) == ("joint_0", "joint_1")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("main_shoulder_pan", "shoulder_pan"),
        ("shoulder_pan.pos", "shoulder_pan"),
        ("shoulder_pan", "shoulder_pan"),
        ("left_shoulder_pan.pos", "left_shoulder_pan"),
        ("arm_shoulder_pan.pos", "arm_shoulder_pan"),
        ("theta.vel", "theta.vel"),
    ],
)
def test_canonical_spelling(name, expected):
    assert canonical(name) == expected


def test_limb_and_joint_come_apart():
    assert [limb(n) for n in ("left_gripper.pos", "arm_gripper.pos", "main_gripper", "gripper.pos")] == [
        "left",
        "arm",
        "",
        "",
    ]
    assert {joint(n) for n in ("left_gripper.pos", "arm_gripper.pos", "main_gripper", "gripper.pos")} == {"gripper"}
    assert joint("left") == "left"  # a prefix alone is a name, not a limb


def test_gripper_and_velocity_are_told_by_name():
    assert is_gripper("right_gripper.pos")
    assert not is_gripper("wrist_roll.pos")
    assert is_velocity("x.vel")
    assert not is_velocity("x.pos")


def test_match_binds_by_joint_not_by_position_and_leaves_the_rest_open():
    expected = ["shoulder_pan.pos", "gripper.pos", "x.vel"]
    given = ["main_gripper", "main_shoulder_pan", "x.pos"]
    assert match(expected, given) == {
        "shoulder_pan.pos": "main_shoulder_pan",
        "gripper.pos": "main_gripper",
        "x.vel": None,
    }


def test_match_keeps_limbs_apart():
    assert match(["left_gripper.pos"], ["right_gripper.pos"]) == {"left_gripper.pos": None}
