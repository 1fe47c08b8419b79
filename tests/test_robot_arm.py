"""The command path: what is asked, what goes out, and when nothing may go out."""

import numpy as np
import pytest
from fake_robot import KEYS, FakeClock, FakeRobot

from lerobot_diagnostics.robot import Arm, ArmLostError, CameraLostError

ZERO = dict.fromkeys(KEYS, 0.0)
LOST = ConnectionError("no status packet")


def reading_arm(robot, **settings):
    arm = Arm(robot, **settings)
    assert arm.read() is not None
    return arm


def test_a_goal_goes_out_by_name_as_plain_floats_and_is_logged():
    robot = FakeRobot()
    arm = reading_arm(robot)
    asked = {key: np.float32(i) for i, key in enumerate(reversed(KEYS))}
    arm.send(asked)
    ((_, sent),) = robot.sent
    assert sent == {key: 5.0 - i for i, key in enumerate(KEYS)}
    assert {type(value) for value in sent.values()} == {float}
    assert arm.log[0].asked == sent == arm.log[0].sent


def test_a_step_is_limited_against_the_pose_and_then_against_the_last_goal():
    robot = FakeRobot(follow=0.0)
    arm = reading_arm(robot, max_step=10, max_gripper_step=40)
    for _ in range(3):
        arm.send(ZERO | {"elbow_flex.pos": 25.0, "gripper.pos": 100.0})
    assert [sent["elbow_flex.pos"] for _, sent in robot.sent] == [10, 20, 25]
    assert [sent["gripper.pos"] for _, sent in robot.sent] == [40, 80, 100]
    assert arm.log[0].asked["elbow_flex.pos"] == 25.0


def test_no_goal_without_a_read_nor_after_a_failed_one_until_the_next_succeeds():
    robot = FakeRobot()
    arm = Arm(robot)
    assert arm.send(ZERO) is None
    arm.read()
    assert arm.send(ZERO) == ZERO
    robot.fails = [LOST, None]
    assert arm.read() is None
    assert arm.send(ZERO) is None and len(robot.sent) == 1
    arm.read()
    assert arm.send(ZERO) == ZERO and arm.failed_reads == 1


def test_three_failed_reads_in_a_row_lose_the_arm_but_two_do_not():
    robot = FakeRobot()
    arm = reading_arm(robot)
    robot.fails = [LOST, LOST, None, LOST, LOST]
    assert [arm.read() is None for _ in range(5)] == [True, True, False, True, True]
    robot.fails = [LOST]
    with pytest.raises(ArmLostError, match="3 reads in a row"):
        arm.read()


def test_half_a_second_without_a_read_loses_the_arm():
    clock = FakeClock()
    robot = FakeRobot()
    arm = reading_arm(robot, clock=clock)

    def slow_failure():
        clock.now += 0.3
        raise LOST

    robot.get_observation = slow_failure
    assert arm.read() is None
    with pytest.raises(ArmLostError, match="2 reads"):
        arm.read()


def test_a_dead_camera_is_not_a_dead_bus():
    robot = FakeRobot()
    arm = reading_arm(robot)
    robot.fails = [TimeoutError("OpenCVCamera(0) latest frame is too old: 520 ms")]
    with pytest.raises(CameraLostError, match="too old"):
        arm.read()
    assert arm.failed_reads == 0


def test_a_write_that_fails_counts_like_a_read():
    robot = FakeRobot()
    arm = reading_arm(robot)
    robot.send_fails = [LOST]
    assert arm.send(ZERO) is None
    assert not arm.trusted and arm.failed_reads == 1


def test_velocities_scale_with_speed_default_to_zero_and_are_zeroed_by_halt():
    robot = FakeRobot(velocities=("x.vel",))
    arm = reading_arm(robot)
    arm.send(ZERO | {"x.vel": 0.4}, speed=0.25)
    arm.halt()
    arm.halt()
    arm.send(ZERO)
    assert [sent["x.vel"] for _, sent in robot.sent] == [0.1, 0.0, 0.0]


def test_halt_sends_nothing_to_an_arm_without_velocities_and_hold_sends_the_pose():
    robot = FakeRobot({"elbow_flex": 3.0})
    arm = reading_arm(robot)
    arm.halt()
    assert robot.sent == []
    arm.hold()
    assert robot.sent[0][1] == ZERO | {"elbow_flex.pos": 3.0}


@pytest.mark.parametrize("goal", [ZERO | {"elbow_flex.pos": float("nan")}, {"elbow_flex.pos": 1.0}, ZERO | {"x": 1.0}])
def test_a_goal_that_is_not_whole_is_refused(goal):
    robot = FakeRobot()
    with pytest.raises(ValueError, match="goal with"):
        reading_arm(robot).send(goal)
    assert robot.sent == []


def test_pictures_and_joints_are_told_apart():
    reading = reading_arm(FakeRobot(velocities=("x.vel",), pictures={"front": 7})).last
    assert set(reading.pictures) == {"front"} and reading.pictures["front"].shape == (24, 32, 3)
    assert set(reading.joints) == {*KEYS, "x.vel"}
