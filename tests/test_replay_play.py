"""Easing and playing on a robot and a clock that only do what they are told."""

import numpy as np
import pytest
from fake_robot import KEYS, FakeClock, FakeRobot
from make_dataset import make_dataset

from lerobot_diagnostics.recording import open_episode
from lerobot_diagnostics.replay.plan import make_plan
from lerobot_diagnostics.replay.play import Player
from lerobot_diagnostics.robot import Arm
from lerobot_diagnostics.robot.move import End

LOST = ConnectionError("no status packet")


def wave(_episode, length):
    return 10 * np.sin(np.arange(length)[:, None] / 10 + np.arange(6)[None, :]) + [0, 0, 0, 0, 0, 20]


@pytest.fixture
def plan(tmp_path):
    root = make_dataset(tmp_path / "data", lengths=(60,), fps=30, states=wave)
    return make_plan(open_episode(root, 0), KEYS, speed=1.0)


class Stage:
    """A player with everything injected."""

    def __init__(self, *, stop_at=None, **robot):
        self.clock = FakeClock()
        self.robot = FakeRobot(clock=self.clock, **robot)
        self.arm = Arm(self.robot, clock=self.clock)
        stopped = lambda: stop_at is not None and self.clock() >= stop_at  # noqa: E731
        self.player = Player(self.arm, stopped=stopped, clock=self.clock, sleep=self.clock.sleep)

    @property
    def times(self):
        return np.array([time for time, _ in self.robot.sent])


def at(plan, k=0):
    return {key.removesuffix(".pos"): value for key, value in plan.pose(k).items()}


def test_every_command_goes_out_at_its_time(plan):
    stage = Stage(start=at(plan))
    stage.arm.read()
    take = stage.player.play(plan)
    assert take.ending.finished
    sent = np.array([[goal[key] for key in KEYS] for _, goal in stage.robot.sent])
    assert sent == pytest.approx(plan.actions)
    assert np.diff(stage.times) == pytest.approx(1 / 30, abs=2e-3)
    assert take.achieved == pytest.approx(plan.actions)  # this robot goes there at once
    assert take.time_s[0] == 0 and len(take.late_s) == 60


def test_half_the_speed_is_twice_the_time(plan):
    stage = Stage(start=at(plan))
    stage.arm.read()
    stage.player.play(make_plan(plan.episode, KEYS, speed=0.5))
    assert stage.times[-1] - stage.times[0] == pytest.approx(59 / 15, abs=0.01)


def test_pictures_are_kept_where_asked_and_every_frame_is_watched(plan):
    stage = Stage(start=at(plan), pictures={"front": 5})
    stage.arm.read()
    watched = []
    take = stage.player.play(plan, keep=[3, 7], watch=lambda frame, _reading: watched.append(frame))
    assert sorted(take.kept) == [3, 7] and take.kept[3]["front"].shape == (24, 32, 3)
    assert watched == list(range(60))


def test_two_failed_reads_delay_the_rest_and_lose_no_command(plan):
    stage = Stage(start=at(plan))
    stage.arm.read()
    stage.robot.fails = [None] * 10 + [LOST, LOST]
    take = stage.player.play(plan)
    assert take.ending.finished and take.failed_reads == 2
    assert len(stage.robot.sent) == 60
    assert np.isnan(take.achieved[10]).all() and np.isfinite(take.achieved[11]).all()


def test_three_failed_reads_end_it_without_another_goal(plan):
    stage = Stage(start=at(plan))
    stage.arm.read()
    stage.robot.fails = [None] * 10 + [LOST] * 3
    take = stage.player.play(plan)
    assert take.ending.end is End.ARM_LOST
    assert len(stage.robot.sent) == 11 == len(take.sent)


def test_a_dead_camera_ends_it(plan):
    stage = Stage(start=at(plan))
    stage.arm.read()
    stage.robot.fails = [None] * 10 + [TimeoutError("too old")]
    assert stage.player.play(plan).ending.end is End.CAMERA_LOST
    assert len(stage.robot.sent) == 11


def test_a_joint_that_stays_behind_is_held_where_it_is(tmp_path):
    root = make_dataset(
        tmp_path / "far", lengths=(90,), fps=30, states=lambda _e, n: np.tile(np.arange(n)[:, None] * 1.0, 6)
    )
    plan = make_plan(open_episode(root, 0), KEYS, speed=1.0)
    stage = Stage(follow=dict.fromkeys(KEYS, 1.0) | {"elbow_flex.pos": 0.0})
    stage.arm.read()
    take = stage.player.play(plan)
    assert (take.ending.end, take.ending.joint) == (End.STALLED, "elbow_flex.pos")
    assert stage.robot.sent[-1][1]["elbow_flex.pos"] == 0.0
    # the goal is 15° ahead after about 17 frames (the recording's own lag is 1°), and then 0.3 s pass
    assert 24 <= len(take.sent) <= 30


def test_velocities_stop_whatever_happens(tmp_path):
    names = (*KEYS, "x.vel")
    root = make_dataset(
        tmp_path / "base", lengths=(30,), fps=30, names=names, size=7, states=lambda _e, n: np.full((n, 7), 0.4)
    )
    plan = make_plan(open_episode(root, 0), names, speed=0.5)
    for fails, end in (([], End.FINISHED), ([None] * 9 + [LOST] * 3, End.ARM_LOST)):
        stage = Stage(velocities=("x.vel",))
        stage.arm.read()
        stage.robot.fails = list(fails)
        assert stage.player.play(plan).ending.end is end
        velocities = [goal["x.vel"] for _, goal in stage.robot.sent]
        assert velocities[:-1] == pytest.approx([0.2] * (len(velocities) - 1)) and velocities[-1] == 0.0


def test_easing_bounds_each_step_and_ends_at_the_goal(plan):
    stage = Stage(start=at(plan) | {"shoulder_pan": 14.0})
    goal = plan.pose(0)
    assert stage.player.ease_to(goal, [goal, plan.pose(0) | {"shoulder_pan.pos": 14.0}], 30.0).finished
    pan = [14.0] + [sent["shoulder_pan.pos"] for _, sent in stage.robot.sent]
    assert np.abs(np.diff(pan)).max() <= 1.0 + 1e-9
    assert stage.robot.sent[-1][1] == pytest.approx(goal)


def test_an_arm_that_stands_off_is_not_waited_for_for_ever(plan):
    goal = plan.pose(0)
    for off, end in ((3.0, End.FINISHED), (12.0, End.NOT_ARRIVED)):
        stage = Stage(start=at(plan) | {"shoulder_pan": off}, follow=0.0)
        stage.robot.pose["shoulder_pan.pos"] = off
        stage.robot.follow = dict.fromkeys(KEYS, 1.0) | {"shoulder_pan.pos": 0.0}
        ending = stage.player.ease_to(goal, [goal, goal | {"shoulder_pan.pos": off}], 30.0)
        assert ending.end is end
        assert stage.clock() - 100.0 < 4.0


@pytest.mark.parametrize("moment", np.random.default_rng(7).uniform(0.0, 4.0, 20).round(3))
def test_after_a_stop_the_last_goal_is_out_within_a_tenth_of_a_second(plan, moment):
    stage = Stage(start=at(plan) | {"shoulder_pan": 40.0}, stop_at=100.0 + moment)
    goal = plan.pose(0)
    ending = stage.player.ease_to(goal, [goal, goal | {"shoulder_pan.pos": 40.0}], 30.0)
    if ending.finished:
        ending = stage.player.play(plan).ending
    assert ending.end is End.STOPPED
    assert not len(stage.times) or stage.times.max() <= 100.0 + moment + 0.1
