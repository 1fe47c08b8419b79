"""Nudging an arm and looking again: what is asked of it, what is refused, and which joint is named."""

import dataclasses
import json
from functools import partial
from importlib.util import find_spec

import cv2
import numpy as np
import pytest
from drawn_arm import draw_arm
from fake_robot import JOINTS, KEYS, FakeClock, FakeRobot
from test_diagnose_motion import driver

from lerobot_diagnostics.diagnose import Inputs, motion, nudging, snapshot
from lerobot_diagnostics.diagnose.ladder import Outcome
from lerobot_diagnostics.diagnose.run import Ladder, zero_offsets
from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Cause, Finding, Status

START = {"shoulder_pan": 5.0, "shoulder_lift": -45.0, "elbow_flex": 45.0, "wrist_flex": 0.0, "gripper": 20.0}
TABLE = cv2.resize(
    np.random.default_rng(1).integers(90, 200, (24, 32, 3)).astype(np.uint8), (320, 240), interpolation=cv2.INTER_CUBIC
)


def drawn(pose):
    """Some arm in which each of six joints moves something else."""
    pan, lift, elbow, flex, roll, gripper = pose
    picture = TABLE.copy()
    links = ((lift, 90), (elbow, 75), (flex, 45))
    points = draw_arm(picture, (110.0 + 2 * pan, 230.0), np.deg2rad(40.0), links, gripper, finger=35, width=14)
    turned = points[2] + 26 * np.array([np.cos(np.deg2rad(3 * roll)), np.sin(np.deg2rad(3 * roll))])
    cv2.circle(picture, (16 * turned).round().astype(int).tolist(), 16 * 11, (20, 20, 60), -1, cv2.LINE_AA, 4)
    return picture


class DrawnRobot(FakeRobot):
    """Photographed by ``front``, which stands still; ``wrist`` goes with the arm. ``zeros``: reading minus truth."""

    def __init__(self, start=START, *, zeros=None, cameras=("front", "wrist"), kind="so101_follower", **kwargs):
        super().__init__(start, **kwargs)
        self.config.type, self.id = kind, "arm"
        self.zeros, self.cameras = zeros or {}, cameras
        self.is_connected, self.shown, self.drawn_at, self.fresh = False, None, None, None
        self.observation_features = {**self.action_features, **dict.fromkeys(cameras, (240, 320, 3))}

    def connect(self):
        self.is_connected = True

    def disconnect(self):
        self.is_connected = False

    def get_observation(self):
        joints = super().get_observation()
        if self.shown is not None and self.pose != self.drawn_at:  # drawn where it rests: that is where pictures count
            self.drawn_at = dict(self.pose)
            return joints | self.shown
        if self.shown is not None and self.fresh == self.pose:
            return joints | self.shown
        self.drawn_at = self.fresh = dict(self.pose)
        truth = [self.pose[f"{joint}.pos"] - self.zeros.get(joint, 0.0) for joint in JOINTS]
        pictures = {"front": drawn(truth), "wrist": np.roll(TABLE, [int(12 * v) for v in truth[:2]], (0, 1))}
        self.shown = {name: pictures[name] for name in self.cameras}
        return joints | self.shown


@pytest.fixture(scope="module")
def poses():
    return nudging.still_cameras(nudging.nudge(driver(DrawnRobot())))


def path(robot):
    return np.array([[action[key] for key in KEYS] for _, action in robot.sent])


def test_one_joint_at_a_time_slowly_and_back():
    robot = DrawnRobot()
    taken = nudging.nudge(driver(robot))
    assert len(taken) == len(nudging.MOVES_DEG)
    for pose in taken:
        at = np.array([[shot.joints[key] for key in KEYS] for shot in pose])
        away = at[1:] - at[0]
        assert (np.count_nonzero(np.abs(away) > 1e-6, axis=1) == 1).all()
        assert away.max(axis=0) == pytest.approx([4.0] * 6)
        assert away.min(axis=0) == pytest.approx([-4.0] * 6)
    assert np.abs(np.diff(path(robot), axis=0)).max() <= motion.SPEED / motion.EASE_HZ + 1e-9
    assert robot.pose["shoulder_lift.pos"] == pytest.approx(START["shoulder_lift"])


def test_a_joint_at_its_limit_is_nudged_to_the_other_side():
    robot = DrawnRobot(START | {"gripper": 0.0})
    pose = nudging.nudge(driver(robot))[0]
    assert [round(shot.joints["gripper.pos"]) for shot in pose if shot.joints["gripper.pos"] > 0.5] == [4]
    assert path(robot)[:, 5].min() == 0


def test_an_arm_without_a_known_model_stays_at_its_pose():
    robot = DrawnRobot(kind="unknown_arm")
    (pose,) = nudging.nudge(driver(robot))
    assert len(pose) == 13
    assert np.abs(path(robot) - path(robot)[0]).max() <= 4 + 1e-9


@pytest.mark.parametrize(
    "low", [{"wrist_flex": 60.0}, {"shoulder_lift": 50.0, "elbow_flex": 40.0, "wrist_flex": -95.0}]
)
def test_a_low_gripper_or_wrist_is_refused_before_anything_moves(low):
    robot = DrawnRobot(START | low)
    with pytest.raises(UsageError, match="nothing is within 10 cm below it"):
        nudging.nudge(driver(robot))
    assert not robot.sent


def test_nothing_moves_when_it_is_not_confirmed():
    robot = DrawnRobot()
    with pytest.raises(motion.MotionEndedError):
        nudging.nudge(driver(robot, yes=False, stopped=lambda: True))
    assert not robot.sent


def test_a_joint_that_does_not_follow_is_refused_and_the_arm_returns():
    follow = dict.fromkeys(KEYS, 1.0) | {"wrist_roll.pos": 0.0}
    robot = DrawnRobot(follow=follow)
    with pytest.raises(UsageError, match=r"wrist_roll followed by 0\.0 of 4 degrees"):
        nudging.nudge(driver(robot))
    assert robot.sent[-1][1] == pytest.approx({key: START.get(key.removesuffix(".pos"), 0.0) for key in KEYS})


def test_only_cameras_that_stand_still_are_kept(poses):
    assert set(poses[0][0].pictures) == {"front"}
    with pytest.raises(UsageError, match="no camera stands still"):
        nudging.still_cameras(nudging.nudge(driver(DrawnRobot(cameras=("wrist",)))))


def test_what_is_written_is_read_back_and_an_old_snapshot_has_none(poses, tmp_path):
    entry = json.loads(json.dumps(nudging.save(poses, tmp_path)))
    (back, *_), (pose, *_) = nudging.load({"nudges": entry}, tmp_path), poses
    for there, here in zip(back, pose, strict=True):
        assert (there.goal, there.joints) == (pytest.approx(here.goal, abs=1e-3), pytest.approx(here.joints, abs=1e-3))
        assert (there.pictures["front"] == here.pictures["front"]).all()
    assert nudging.load({"schema": 1}, tmp_path) == []
    (tmp_path / entry[0][3]["pictures"]["front"]).unlink()
    with pytest.raises(UsageError, match="cannot be read"):
        nudging.load({"nudges": entry}, tmp_path)


@pytest.mark.parametrize(("joint", "off"), [("shoulder_pan", 4.0), ("elbow_flex", -4.0), ("wrist_roll", 5.0)])
def test_the_joint_whose_zero_moved_is_named(poses, joint, off):
    robot = DrawnRobot(zeros={joint: off})
    (finding,) = nudging.judge(driver(robot), poses).findings
    assert (finding.code, finding.status, finding.subject) == ("JOINT_OFFSET", Status.FAIL, joint)
    assert zero_offsets([finding]) == {joint: pytest.approx(off, abs=0.8)}
    assert robot.pose["shoulder_lift.pos"] == pytest.approx(START["shoulder_lift"])
    assert np.abs(np.diff(path(robot), axis=0)).max() <= motion.SPEED / motion.EASE_HZ + 2.5  # the last bit at once


def test_an_arm_that_is_as_it_was_passes_from_wherever_it_starts(poses):
    robot = DrawnRobot(START | {"shoulder_pan": -20.0, "elbow_flex": 30.0})
    (finding,) = nudging.judge(driver(robot), poses).findings
    assert (finding.code, finding.status) == ("JOINT_OFFSET", Status.PASS)
    assert robot.pose["shoulder_pan.pos"] == pytest.approx(-20.0)


def test_another_arm_is_not_moved(poses):
    robot = DrawnRobot()
    robot.action_features = {"joint_1.pos": float}
    (finding,) = nudging.judge(driver(robot), poses).findings
    assert finding.status is Status.UNKNOWN
    assert not robot.sent


def test_an_unknown_arm_far_away_is_to_be_brought_near_by_hand(poses):
    robot = DrawnRobot(START | {"shoulder_pan": 80.0}, kind="unknown_arm")
    (finding,) = nudging.judge(driver(robot), poses).findings
    assert finding.status is Status.UNKNOWN
    assert "bring the arm by hand near the snapshot's pose: shoulder_pan 5" in finding.summary
    assert not robot.sent


def test_a_stop_on_the_way_is_no_verdict(poses):
    robot = DrawnRobot(START | {"shoulder_pan": -20.0})
    (finding,) = nudging.judge(driver(robot, stopped=lambda: len(robot.sent) > 5), poses).findings
    assert (finding.code, finding.status) == ("TRACKING", Status.UNKNOWN)


@pytest.mark.parametrize(
    ("by_model", "asked"),
    [
        (
            Finding("JOINT_OFFSET", Status.UNKNOWN, Cause.CALIBRATION, "arm", "the robot has no joint shoulder_pan"),
            True,
        ),
        (Finding("UNDECIDED", Status.UNKNOWN, Cause.CALIBRATION, "arm", "outline", {"reasons": {}}), True),
        (Finding("UNDECIDED", Status.UNKNOWN, Cause.CALIBRATION, "arm", "which zero?", {"gain": {}}), False),
        (Finding("JOINT_OFFSET", Status.PASS, Cause.CALIBRATION, "arm", "as it was", {"gain": {}}), False),
        (Finding("OVERLOAD", Status.FAIL, Cause.MOTORS, "elbow_flex", "stalled"), False),
    ],
    ids=["other joints", "outline", "undecided", "passed", "stalled"],
)
def test_the_nudges_are_asked_where_the_model_could_not_be_fitted(poses, by_model, asked):
    robot = DrawnRobot(zeros={"elbow_flex": 4.0})
    found = nudging.settle(driver(robot), Outcome([by_model]), poses).findings
    if asked:
        assert found[0] == dataclasses.replace(by_model, status=Status.INFO)
        assert found[1].subject == "elbow_flex"
    else:
        assert found == [by_model]
        assert not robot.sent


def test_a_baseline_with_nudges_needs_no_data_set(poses, tmp_path):
    taken = {"schema": 1, "cameras": {}, "nudges": nudging.save(poses, tmp_path)}
    snapshot.file_of(tmp_path).write_text(json.dumps(taken))
    clock = FakeClock()
    robot = DrawnRobot(zeros={"elbow_flex": 4.0}, clock=clock)
    inputs = Inputs(robot=robot, baseline=str(tmp_path), replay=True, yes=True)
    ladder = Ladder(inputs, tmp_path, {}, clock, clock.sleep, 1.0)
    assert ladder.sight().moves
    assert zero_offsets(ladder.sight().run().findings) == {"elbow_flex": pytest.approx(4.0, abs=0.8)}
    assert not robot.is_connected
    ladder.found = [Finding("UNITS_MISMATCH", Status.FAIL, Cause.UNITS, "joints", "±100 on a robot in degrees")]
    assert ladder.sight().run is None
    without = Ladder(dataclasses.replace(inputs, baseline=None), tmp_path, {}, clock, clock.sleep, 1.0)
    assert without.sight().run is None


@pytest.fixture
def command(monkeypatch, tmp_path):
    """lerobot-setup-snapshot on a drawn arm, without waiting for the clock."""
    from lerobot_diagnostics.cli.setup_snapshot import SetupSnapshotConfig, take_snapshot
    from lerobot_diagnostics.sim.config_so101_sim import SO101SimConfig

    clock = FakeClock()
    for module, name in ((nudging, "take"), (motion, "driving")):
        monkeypatch.setattr(module, name, partial(getattr(module, name), clock=clock, sleep=clock.sleep))

    def run(robot, name, **flags):
        monkeypatch.setattr("lerobot_diagnostics.robot.connect.make_robot", lambda _: robot)
        folder = tmp_path / name
        config = SetupSnapshotConfig(robot=SO101SimConfig(), output_dir=str(folder), nudge=True, yes=True, **flags)
        return take_snapshot(config), folder

    return run


def test_the_command_keeps_the_nudges_and_names_the_joint_later(command):
    code, before = command(DrawnRobot(), "before")
    assert code == 0
    assert len(nudging.load(snapshot.load(before)[0], before)) == 3
    report, _ = command(DrawnRobot(zeros={"elbow_flex": 4.0}), "after", diff=str(before))
    assert zero_offsets(report.findings) == {"elbow_flex": pytest.approx(4.0, abs=0.8)}
    assert (report.exit_code, report.verdict.cause) == (1, "calibration")
    report, _ = command(DrawnRobot(), "same", diff=str(before))
    assert report.exit_code == 0


def test_a_snapshot_without_nudges_cannot_be_compared_by_them(command, tmp_path):
    (tmp_path / "snapshot.json").write_text(json.dumps({"schema": 1, "cameras": {}}))
    robot = DrawnRobot()
    with pytest.raises(UsageError, match="holds no nudges"):
        command(robot, "after", diff=str(tmp_path))
    assert robot.reads == 0


@pytest.mark.parametrize("why", ["too low", "Ctrl-C"])
def test_what_stops_the_nudges_leaves_the_ordinary_snapshot(command, tmp_path, monkeypatch, why):
    robot = DrawnRobot(START | {"wrist_flex": 60.0} if why == "too low" else START)
    if why == "Ctrl-C":
        monkeypatch.setattr("lerobot_diagnostics.robot.stop.StopSignals.__call__", lambda _: len(robot.sent) > 40)
    with pytest.raises(UsageError if why == "too low" else KeyboardInterrupt):
        command(robot, "before")
    assert not robot.is_connected
    taken, pictures = snapshot.load(tmp_path / "before")
    assert "nudges" not in taken
    assert "front" in pictures
    assert {path.name for path in (tmp_path / "before").iterdir()} == {"snapshot.json", "front.png", "wrist.png"}


@pytest.mark.skipif(not find_spec("mujoco"), reason="needs the extra sim")
def test_on_the_simulated_arm_the_joint_whose_zero_moved_is_named(monkeypatch):
    from lerobot_diagnostics.sim import world
    from lerobot_diagnostics.sim.config_so101_sim import SimCameraConfig, SimFaults, SO101SimConfig
    from lerobot_diagnostics.sim.so101_sim import SO101Sim

    clock = FakeClock()

    def arm(**faults):
        cameras = {"front": SimCameraConfig(fps=5), "wrist": SimCameraConfig(fps=5, width=160, height=120)}
        config = SO101SimConfig(cameras=cameras, faults=SimFaults(noise_deg=0.05, **faults))
        return SO101Sim(config, clock=clock, sleep=clock.sleep)

    with pytest.raises(UsageError, match="nothing is within 10 cm below it"):
        nudging.take(arm(), yes=True, clock=clock, sleep=clock.sleep)
    monkeypatch.setattr(world, "REST", world.REST | {"shoulder_lift": -60.0, "elbow_flex": 55.0, "wrist_flex": 10.0})
    poses = nudging.take(arm(), yes=True, clock=clock, sleep=clock.sleep)
    assert set(poses[0][0].pictures) == {"front"}
    faulty = arm(light_level=0.85, cube_move_m=[0.02, -0.02], joint_zero_deg={"elbow_flex": 4.0})
    with motion.driving(faulty, yes=True, clock=clock, sleep=clock.sleep) as driving:
        (finding,) = nudging.judge(driving, poses).findings
    assert finding.subject == "elbow_flex"
    assert finding.evidence["offset_deg"] == pytest.approx(4.0, abs=1.0)
