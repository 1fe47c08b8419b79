"""Names, units and limits."""

from types import SimpleNamespace

import numpy as np
import pytest
from fake_robot import KEYS

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Status
from lerobot_diagnostics.recording.units import Unit
from lerobot_diagnostics.robot.joints import (
    RobotJoint,
    check_units,
    from_old_convention,
    is_old_convention,
    joint_map,
    robot_joints,
)

RANGE = {"range_min": 900, "range_max": 3100}  # not 2275 wide, where degrees and ±100 coincide


@pytest.mark.parametrize("names", [KEYS, tuple(reversed(KEYS)), tuple(f"main_{k.removesuffix('.pos')}" for k in KEYS)])
def test_joints_bind_by_name_in_every_convention(names):
    row = np.arange(6.0, dtype=np.float32)
    values = joint_map(KEYS, names).values(row)
    wanted = dict(zip((n.removeprefix("main_").removesuffix(".pos") for n in names), row, strict=True))
    assert values == {key: wanted[key.removesuffix(".pos")] for key in KEYS}
    assert {type(value) for value in values.values()} == {float}


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (KEYS[:5], r"gripper.pos ← \(none\)"),
        ((*KEYS, "x.vel"), r"\(none\) ← x.vel"),
        (tuple(f"left_{k}" for k in KEYS), r"\(none\) ← left_gripper.pos"),
        (None, "does not name"),
    ],
)
def test_other_joints_are_refused_with_both_sides(names, said):
    with pytest.raises(UsageError, match=said):
        joint_map(KEYS, names)


def test_old_convention():
    names = ["main_shoulder_lift", "main_elbow_flex", "main_wrist_flex"]
    assert is_old_convention(names) and not is_old_convention(KEYS)
    assert from_old_convention(np.array([[100.0, 130.0, 5.0]]), names).tolist() == [[-10.0, 40.0, 5.0]]


def joints(unit):
    return {key: RobotJoint(key, unit, RANGE) for key in KEYS}


def recorded(scale):
    """``[200, 6]`` whole encoder ticks in the unit that ``scale`` makes of them."""
    ticks = 900 + np.random.default_rng(0).integers(0, 2201, (200, 6))
    values = scale(ticks)
    values[:, 5] = (ticks[:, 5] - 900) / 22
    return values.astype(np.float32)


def degrees(ticks):
    return (ticks - 2000) * 360 / 4095


def percent(ticks):
    return (ticks - 900) / 2200 * 200 - 100


def test_the_quantum_decides_the_unit_and_the_fix_names_the_flag():
    for scale, robot, status, fix in (
        (degrees, Unit.DEGREES, Status.PASS, ""),
        (percent, Unit.RANGE_M100_100, Status.PASS, ""),
        (percent, Unit.DEGREES, Status.FAIL, "--robot.use_degrees=false"),
        (degrees, Unit.RANGE_M100_100, Status.FAIL, "--robot.use_degrees=true"),
        (lambda t: np.deg2rad(degrees(t)), Unit.DEGREES, Status.FAIL, "Convert"),
        (lambda t: np.round(degrees(t)), Unit.DEGREES, Status.UNKNOWN, "use_degrees"),
        (degrees, Unit.UNKNOWN, Status.UNKNOWN, "use_degrees"),
    ):
        finding = check_units(joints(robot), recorded(scale), KEYS)
        assert (finding.code, finding.status) == ("UNITS_MISMATCH", status), (scale, robot, finding)
        assert fix in finding.fix


def test_bounds_and_degrees_follow_the_calibration():
    half = 1100 * 360 / 4095
    assert RobotJoint("elbow_flex.pos", Unit.DEGREES, RANGE).bounds == pytest.approx((-half, half))
    assert RobotJoint("elbow_flex.pos", Unit.RANGE_M100_100, RANGE).bounds == (-100, 100)
    assert RobotJoint("gripper.pos", Unit.UNKNOWN).bounds == (0, 100)
    assert RobotJoint("elbow_flex.pos", Unit.UNKNOWN).bounds == (-np.inf, np.inf)
    assert RobotJoint("elbow_flex.pos", Unit.RANGE_M100_100, RANGE).degrees(100.0) == pytest.approx(half)
    assert RobotJoint("elbow_flex.pos", Unit.RANGE_M100_100, RANGE).from_degrees(half) == pytest.approx(100.0)


def test_two_arms_keep_their_prefixes():
    def part(mode):
        motors = {"elbow_flex": SimpleNamespace(norm_mode=SimpleNamespace(value=mode))}
        calibration = {"elbow_flex": SimpleNamespace(**RANGE)}
        return SimpleNamespace(bus=SimpleNamespace(motors=motors, calibration=calibration))

    robot = SimpleNamespace(
        action_features={"left_elbow_flex.pos": float, "right_elbow_flex.pos": float, "x.vel": float},
        left_arm=part("degrees"),
        right_arm=part("range_m100_100"),
    )
    found = robot_joints(robot)
    assert {key: joint.unit for key, joint in found.items()} == {
        "left_elbow_flex.pos": Unit.DEGREES,
        "right_elbow_flex.pos": Unit.RANGE_M100_100,
    }
    assert found["left_elbow_flex.pos"].calibration == RANGE


def test_a_robot_without_a_bus_may_say_that_it_speaks_degrees():
    keys = {"elbow_flex.pos": float, "gripper.pos": float}
    simulated = SimpleNamespace(config=SimpleNamespace(use_degrees=True), action_features=keys)
    units = {key: joint.unit for key, joint in robot_joints(simulated).items()}
    assert units == {"elbow_flex.pos": Unit.DEGREES, "gripper.pos": Unit.UNKNOWN}
