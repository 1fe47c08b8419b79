"""The rungs that move: what forbids them, what they refuse, and on the simulated arm which joint is named."""

from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest
from fake_robot import FakeClock, FakeRobot

from lerobot_diagnostics.diagnose import Inputs, motion
from lerobot_diagnostics.diagnose.motion import Driver, judge_by_sight
from lerobot_diagnostics.diagnose.run import Ladder, zero_offsets
from lerobot_diagnostics.findings import Cause, Finding, Status
from lerobot_diagnostics.replay.desk import Desk
from lerobot_diagnostics.replay.play import Player
from lerobot_diagnostics.robot.arm import Arm
from lerobot_diagnostics.robot.keys import ScriptedKeys
from lerobot_diagnostics.robot.move import End, Ending
from lerobot_diagnostics.sight.compare import Compared, Poses
from lerobot_diagnostics.sight.model import JOINTS

START = {"shoulder_pan": 5.0, "shoulder_lift": -60.0, "elbow_flex": 60.0, "wrist_flex": 40.0, "gripper": 20.0}
POSES = np.array([[10.0 * k, -60 + 5 * k, 60 - 5 * k, 40, 0, 20] for k in range(6)])


def driver(robot, *, yes=True, stopped=lambda: False):
    clock = FakeClock()
    desk = Desk(ScriptedKeys([]), stopped=stopped, yes=yes, say=lambda _: None, sleep=clock.sleep)
    return Driver(Player(Arm(robot, clock=clock), stopped=stopped, clock=clock, sleep=clock.sleep), desk)


@pytest.fixture
def recorded(monkeypatch):
    """Six recorded poses, all high enough; what the comparison itself says is not asked here."""
    before = Poses(POSES, {"observation.images.front": [np.zeros((4, 4, 3), np.uint8)] * 6})
    monkeypatch.setattr("lerobot_diagnostics.sight.compare.recorded_poses", lambda *_, **__: before)
    monkeypatch.setattr("lerobot_diagnostics.sight.driving.clearest", lambda readings, count: readings[:count])
    visited = []

    monkeypatch.setattr(
        "lerobot_diagnostics.sight.driving.both_sides",
        lambda poses, _bounds: (np.array([1.0, -1.0, 0.0, 0.0, 0.0, 0.0]), np.arange(len(poses)) < 2),
    )

    def compare_live(_before, capture, poses, sides):
        visited.extend(capture(pose, side) for pose, side in zip(poses, sides, strict=True))
        return Compared([Finding("JOINT_OFFSET", Status.PASS, Cause.CALIBRATION, "arm", "as recorded")])

    monkeypatch.setattr("lerobot_diagnostics.sight.compare.compare_live", compare_live)
    return visited


def sight(driving):
    return judge_by_sight(driving, None, [0], {"observation.images.front": "front"}, looks=6)


def test_every_pose_is_visited_slowly_and_the_arm_returns(recorded):
    robot = FakeRobot(START, pictures={"front": 7})
    outcome = sight(driver(robot))
    assert [f.status for f in outcome.findings] == [Status.PASS]
    for (reading, pictures), pose in zip(recorded, POSES, strict=True):
        assert reading == pytest.approx(pose)
        assert pictures["observation.images.front"][0, 0, 0] == 7
    assert robot.pose["shoulder_pan.pos"] == pytest.approx(5.0)
    pan = [action["shoulder_pan.pos"] for _, action in robot.sent]
    assert pan.index(pytest.approx(4.0)) < pan.index(pytest.approx(0.0))  # the first pose, from above
    sent = np.array([[action[f"{joint}.pos"] for joint in JOINTS] for _, action in robot.sent])
    assert np.abs(np.diff(sent, axis=0)).max() <= motion.SPEED / motion.EASE_HZ + 1e-9


def test_nothing_moves_when_it_is_not_confirmed(recorded):
    robot = FakeRobot(pictures={"front": 7})
    outcome = sight(driver(robot, yes=False, stopped=lambda: True))
    assert outcome.findings[0].status is Status.UNKNOWN
    assert not robot.sent
    assert not recorded


def test_a_robot_with_other_joints_is_not_moved(recorded):
    robot = FakeRobot(pictures={"front": 7})
    robot.action_features = {"joint_1.pos": float}
    outcome = sight(driver(robot))
    assert "no joint shoulder_pan" in outcome.findings[0].summary
    assert not robot.sent
    assert not recorded


def test_a_joint_that_does_not_follow_ends_it(recorded):
    follow = {f"{joint}.pos": float(joint != "elbow_flex") for joint in JOINTS}
    robot = FakeRobot(START, pictures={"front": 7}, follow=follow)
    (finding,) = sight(driver(robot)).findings
    assert finding.status is Status.FAIL
    assert finding.cause is Cause.MOTORS
    assert "elbow_flex" in finding.subject
    assert len(recorded) < len(POSES)


@pytest.mark.parametrize(
    ("end", "code", "cause", "status"),
    [
        (End.STALLED, "OVERLOAD", "motors", "fail"),
        (End.ARM_LOST, "BUS_ERRORS", "motors", "fail"),
        (End.CAMERA_LOST, "DEAD", "cameras", "fail"),
        (End.STOPPED, "TRACKING", "motors", "unknown"),
    ],
)
def test_how_a_way_ended_is_a_finding(end, code, cause, status):
    (finding,) = motion.way_ended(Ending(end, "why")).findings
    assert (finding.code, finding.cause, finding.status) == (code, cause, status)


def ladder_with(tmp_path, *found, yes=True):
    robot = SimpleNamespace(observation_features={}, action_features={})
    ladder = Ladder(Inputs(robot=robot, replay=True, yes=yes), tmp_path, {}, None, None, 1.0)
    ladder.recording = SimpleNamespace(cameras=["observation.images.front", "observation.images.top"])
    ladder.found = list(found)
    return ladder


def test_wrong_units_forbid_motion(tmp_path):
    wrong = Finding("UNITS_MISMATCH", Status.FAIL, Cause.UNITS, "joints", "±100 on a robot in degrees")
    assert ladder_with(tmp_path, wrong).sight().run is None
    assert "UNITS_MISMATCH" in ladder_with(tmp_path, wrong).replay().needs
    warned = Finding("UNITS_MISMATCH", Status.WARN, Cause.UNITS, "joints", "perhaps")
    assert ladder_with(tmp_path, warned).sight().moves


def test_what_a_policy_predicts_forbids_no_motion_because_it_is_not_sent(tmp_path):
    predicted = [Finding(code, Status.FAIL, Cause.CONFIG, "pan", "by the policy") for code in ("OFFSET", "PERMUTED")]
    assert ladder_with(tmp_path, *predicted).sight().moves
    assert not ladder_with(tmp_path, Finding("NAMES_MISMATCH", Status.FAIL, Cause.CONFIG, "pan", "other")).sight().moves


def test_two_recordings_are_compared_without_an_arm(tmp_path, monkeypatch):
    ladder = ladder_with(tmp_path)
    ladder.inputs = Inputs(after={"repo_id": None, "root": "after"}, episodes=[3])
    opened = []

    def open_recording(**given):
        opened.append(given)
        return "now"

    def compare(before, after, *, episodes):
        assert (before, after, episodes) == (ladder.recording, "now", [3])
        moved = Finding("JOINT_OFFSET", Status.FAIL, Cause.CALIBRATION, "elbow_flex", "moved", {"offset_deg": 4.0})
        return Compared([moved], {"elbow_flex": (4.0, 0.4)})

    monkeypatch.setattr("lerobot_diagnostics.diagnose.run.open_recording", open_recording)
    monkeypatch.setattr("lerobot_diagnostics.sight.compare_recordings", compare)
    rung = ladder.recordings()
    assert not rung.moves
    outcome = rung.run()
    assert opened == [{"repo_id": None, "root": "after"}] and zero_offsets(outcome.findings) == {"elbow_flex": 4.0}
    assert any("elbow_flex" in str(row) for table in outcome.tables for row in table.rows)


def test_only_cameras_that_show_their_view_are_used(tmp_path):
    swapped = Finding("UNKNOWN_VIEW", Status.FAIL, Cause.CAMERAS, "top", "another place")
    ladder = ladder_with(tmp_path, swapped)
    ladder.soaked = SimpleNamespace(pictures={"front": [], "top": [], "wrist": []})
    assert ladder._right_cameras(ladder.recording) == {"observation.images.front": "front"}


def test_offsets_are_those_of_zeros_that_moved():
    moved = Finding("JOINT_OFFSET", Status.FAIL, Cause.CALIBRATION, "elbow_flex", "moved", {"offset_deg": 4.0})
    gripper = Finding("JOINT_OFFSET", Status.FAIL, Cause.CALIBRATION, "gripper", "moved", {"offset_pct": -5.0})
    seen = Finding("JOINT_OFFSET", Status.WARN, Cause.CALIBRATION, "front", "parts of the arm")
    assert zero_offsets([moved, gripper, seen]) == {"elbow_flex": 4.0, "gripper": -5.0}


@pytest.mark.skipif(not find_spec("mujoco"), reason="needs the extra sim")
@pytest.mark.timeout(600)
def test_on_the_simulated_arm_the_joint_whose_zero_moved_is_named(tmp_path, capsys, monkeypatch):
    from lerobot_diagnostics.diagnose import diagnose
    from lerobot_diagnostics.sim.config_so101_sim import SimCameraConfig, SimFaults, SO101SimConfig
    from lerobot_diagnostics.sim.record import record
    from lerobot_diagnostics.sim.so101_sim import SO101Sim

    cameras = {"front": SimCameraConfig(fps=5)}
    record(tmp_path / "data", "local/sim", SO101SimConfig(cameras=dict(cameras)), seeds=range(3), fps=10)
    clock = FakeClock()
    config = SO101SimConfig(cameras=cameras, seed=7, faults=SimFaults(joint_zero_deg={"elbow_flex": 4.0}))
    robot = SO101Sim(config, clock=clock, sleep=clock.sleep)
    monkeypatch.setattr(motion, "judge_replay", lambda *_, **__: motion.Outcome())  # has tests of its own
    report = diagnose(
        Inputs(repo_id="local/sim", root=str(tmp_path / "data"), robot=robot, replay=True, yes=True),
        tmp_path, {}, say=print, clock=clock, sleep=clock.sleep, soak_s=1.0,
    )  # fmt: skip
    assert report.verdict.cause == "calibration"
    assert zero_offsets(report.findings) == {"elbow_flex": pytest.approx(4.0, abs=0.5)}
    said = capsys.readouterr().out
    assert "the arm moves" in said.partition("calibration by sight")[2]
    assert "the arm moves" not in said.partition("calibration by sight")[0]
