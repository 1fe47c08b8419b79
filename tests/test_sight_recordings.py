"""Which recorded poses are looked at, and which recordings are refused. No model, no renderer."""

import numpy as np
import pytest
from make_dataset import make_dataset, read_picture

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Status
from lerobot_diagnostics.recording import open_recording
from lerobot_diagnostics.sight import compare_recordings, recorded_poses
from lerobot_diagnostics.sight.compare import pick
from lerobot_diagnostics.sight.solve import POOL, POSES, CannotTellError, spread

FRONT = "observation.images.front"


def test_spread_takes_the_farthest_and_never_the_same_twice():
    states = np.array([[0.0], [10.0], [10.2], [5.0], [9.9]])
    assert spread(states, 3)[0] == 0
    assert sorted(spread(states, 5)) == [0, 2, 3]  # the others are within a degree of one that was taken
    assert spread(states, 2, first=[3])[0] == 3


def test_slow_frames_come_first_and_fast_ones_only_show_the_background():
    ramp = np.zeros((100, 6))
    ramp[:60, 0] = np.linspace(0, 30, 60)  # half a degree a frame
    ramp[60:, 0] = np.linspace(31, 150, 40)  # three
    rows = pick([ramp])
    assert (rows[:POSES] < 60).all()
    assert len(rows) == POOL
    assert (rows >= 60).sum() > POSES


def test_poses_near_given_ones_come_first():
    ramp = np.zeros((100, 6))
    ramp[:, 0] = np.linspace(0, 30, 100)
    wanted = np.zeros((2, 6))
    wanted[:, 0] = 20.0, 10.0
    assert ramp[pick([ramp], near=wanted)[:2], 0] == pytest.approx([20, 10], abs=0.2)


def test_each_pose_has_its_own_picture(tmp_path):
    recording = open_recording(root=make_dataset(tmp_path / "set", lengths=(40, 30), cameras={"front": "image"}))
    poses = recorded_poses(recording, [FRONT])
    assert len(poses.readings) == len(poses.pictures[FRONT]) == POOL
    for reading, picture in zip(poses.readings, poses.pictures[FRONT], strict=True):
        frame = read_picture(picture)[0]  # counted in its episode
        rows = [recording.episode(index).states[frame] for index in (0, 1) if frame < len(recording.episode(index))]
        assert any(row == pytest.approx(reading) for row in rows)


WIDTHS = np.array([2400, 2100, 2200, 2050, 4095])
RANGES = {"wrist_flex.pos": {"range_min": 1000, "range_max": 3050}}


def ticks(episode: int, length: int) -> np.ndarray:
    """[T, 5] whole ticks from the middle of the range: pan, lift and elbow turn, flex and roll stand still."""
    t = np.linspace(episode, episode + 6, length)
    return np.round(np.stack([500 * np.sin(t), 400 * np.cos(t), 300 * np.sin(2 * t), 0 * t + 205, 0 * t]).T)


def shares(widths: np.ndarray, episode: int, length: int) -> np.ndarray:
    """[T, 6] in ±100 of such ranges, as LeRobot has them; gripper 0–100."""
    values = (ticks(episode, length) + widths // 2) / widths * 200 - 100
    return np.column_stack([values, np.full(length, 50.0)])


def recorded(tmp_path, states, **kwargs):
    root = make_dataset(tmp_path / "set", lengths=(60, 60), cameras={"front": "image"}, states=states)
    return recorded_poses(open_recording(root=root), [FRONT], **kwargs).readings


@pytest.mark.parametrize("wider", [0, 300])  # a range calibrated anew between the episodes is each episode's own
def test_shares_of_a_range_are_looked_at_as_the_angles_they_mean(tmp_path, wider):
    def states(episode, length):
        return shares(WIDTHS + np.array([0, wider, 0, 0, 0]) * episode, episode, length)

    readings = recorded(tmp_path, states, calibration=RANGES)
    truth = np.concatenate([ticks(0, 60), ticks(1, 60)])
    for row in np.round(readings[:, :5] * 4095 / 360):
        assert np.abs(truth - row).max(axis=1).min() <= 1
    assert np.ptp(readings, axis=0)[:3].min() > 40 and readings[:, 5] == pytest.approx(50.0)


@pytest.mark.parametrize("ranges", [{}, RANGES | {"elbow_flex.pos": {"range_min": 800, "range_max": 3100}}])
def test_a_joint_that_stands_still_needs_the_range_of_the_arm_that_recorded(tmp_path, ranges):
    with pytest.raises(CannotTellError, match="±100, and wrist_flex moves too little"):
        recorded(tmp_path, lambda *at: shares(WIDTHS, *at), calibration=ranges)


def test_one_joint_that_looks_like_shares_makes_no_shares_of_degrees(tmp_path):
    def states(episode, length):
        degrees = np.column_stack([ticks(episode, length) * 360 / 4095, np.full(length, 50.0)])
        degrees[:, 0] = shares(WIDTHS, episode, length)[:, 0]
        return degrees

    readings = recorded(tmp_path, states, calibration=RANGES)
    assert readings[:, 3] == pytest.approx(205 * 360 / 4095, abs=1e-3) and np.ptp(readings[:, 0]) > 75


def test_other_joints_and_other_units_are_not_compared(tmp_path):
    known = open_recording(root=make_dataset(tmp_path / "known", lengths=(40,), cameras={"front": "image"}))
    other = make_dataset(tmp_path / "other", lengths=(40,), cameras={"front": "image"}, names=list("abcdef"))
    (found,) = compare_recordings(known, open_recording(root=other)).findings
    assert (found.code, found.status) == ("UNDECIDED", Status.UNKNOWN)
    assert "no joint shoulder_pan" in found.summary


def test_recordings_without_a_common_camera_are_refused(tmp_path):
    one = open_recording(root=make_dataset(tmp_path / "one", lengths=(9,), cameras={"front": "image"}))
    two = open_recording(root=make_dataset(tmp_path / "two", lengths=(9,), cameras={"top": "image"}))
    with pytest.raises(UsageError, match="no camera in common"):
        compare_recordings(one, two)
