"""Easing to a pose on a robot without hardware: bounded, stoppable, and honest about not arriving."""

import itertools

import pytest
from fake_robot import KEYS, FakeClock, FakeRobot

from lerobot_diagnostics.robot import Arm, Mover
from lerobot_diagnostics.robot.move import ARRIVED, EASE_HZ, End

GOAL = dict.fromkeys(KEYS, 0.0) | {"elbow_flex.pos": 30.0}


def mover(robot, clock, stopped=lambda: False):
    return Mover(Arm(robot, clock=clock), stopped=stopped, clock=clock, sleep=clock.sleep)


def test_it_arrives_no_faster_than_asked():
    clock = FakeClock()
    robot = FakeRobot(clock=clock)
    ending = mover(robot, clock).ease_to(GOAL, [GOAL, robot.pose], speed=30.0)
    assert ending.finished
    assert robot.pose == pytest.approx(GOAL)
    path = [0.0, *(action["elbow_flex.pos"] for _, action in robot.sent)]
    assert max(b - a for a, b in itertools.pairwise(path)) <= 30.0 / EASE_HZ + 1e-6
    assert robot.sent[-1][0] - robot.sent[0][0] == pytest.approx(1.5, abs=0.1)  # mean speed is two thirds


def test_an_arm_that_is_there_is_not_moved():
    clock = FakeClock()
    robot = FakeRobot({"elbow_flex": 28.0}, clock=clock)
    assert mover(robot, clock).ease_to(GOAL, [GOAL], speed=30.0).finished
    assert robot.sent == []


def test_a_stop_ends_it_at_once():
    clock = FakeClock()
    robot = FakeRobot(clock=clock)
    ending = mover(robot, clock, stopped=lambda: len(robot.sent) >= 5).ease_to(GOAL, [GOAL, robot.pose], speed=30.0)
    assert ending.end is End.STOPPED
    assert len(robot.sent) == 5


def test_a_joint_that_does_not_follow_is_named():
    clock = FakeClock()
    robot = FakeRobot(follow={**dict.fromkeys(KEYS, 1.0), "elbow_flex.pos": 0.0}, clock=clock)
    ending = mover(robot, clock).ease_to(GOAL, [GOAL, robot.pose], speed=30.0)
    assert ending.end is End.STALLED and ending.joint == "elbow_flex.pos"


def test_a_standing_error_is_an_arrival_and_twice_that_is_not():
    clock = FakeClock()
    for left, end in ((ARRIVED - 1, End.FINISHED), (ARRIVED + 3, End.NOT_ARRIVED)):
        robot = FakeRobot(clock=clock)
        send = robot.send_action

        def short(action, robot=robot, send=send, left=left):
            result = send(action)
            robot.pose["elbow_flex.pos"] = max(0.0, action["elbow_flex.pos"] - left)
            return result

        robot.send_action = short
        assert mover(robot, clock).ease_to(GOAL, [GOAL, dict(robot.pose)], speed=30.0).end is end


@pytest.mark.parametrize(("sag", "first"), [(-3.0, 20.0), (-9.0, 11.0)])
def test_an_arm_that_hangs_below_its_goal_does_not_drop_when_it_sets_out_again(sag, first):
    """The second way begins at the last goal; only where the arm was moved from it, where it stands."""
    robot, clock = FakeRobot(), FakeClock()
    moving = mover(robot, clock)
    assert moving.ease_to({**GOAL, "elbow_flex.pos": 20.0}, [GOAL, dict(robot.pose)], speed=30.0).finished
    robot.pose["elbow_flex.pos"] += sag
    robot.pose["gripper.pos"] += 30.0  # it closed on something
    sent = len(robot.sent)
    assert moving.ease_to({**GOAL, "elbow_flex.pos": 40.0}, [GOAL, dict(robot.pose)], speed=30.0).finished
    later = [action for _, action in robot.sent[sent:]]
    assert later[0]["elbow_flex.pos"] == pytest.approx(first, abs=0.5)
    assert later[0]["gripper.pos"] == pytest.approx(
        GOAL["gripper.pos"] if sag > -6 else GOAL["gripper.pos"] + 30, abs=0.5
    )
