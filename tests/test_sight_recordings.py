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


def shares(_episode: int, length: int) -> np.ndarray:
    """[T, 6] in ±100 (gripper 0–100): pan, lift and elbow turn by whole ticks, flex and roll stand still."""
    t = np.linspace(0, 6, length)
    ticks = np.round(
        WIDTHS / 2 + np.stack([500 * np.sin(t), 400 * np.cos(t), 300 * np.sin(2 * t), 0 * t + 205, 0 * t]).T
    )
    return np.column_stack([ticks / WIDTHS * 200 - 100, 50 + 0 * t])


def test_shares_of_a_range_are_looked_at_as_the_angles_they_mean(tmp_path):
    root = make_dataset(tmp_path / "set", lengths=(60,), cameras={"front": "image"}, states=shares)
    recording = open_recording(root=root)
    with pytest.raises(CannotTellError, match=r"±100, and wrist_flex.* moves too little"):
        recorded_poses(recording, [FRONT])
    ranges = {"wrist_flex.pos": {"range_min": 1000, "range_max": 3050}}
    poses = recorded_poses(recording, [FRONT], calibration=ranges)
    ticks = poses.readings[:, :5] * 4095 / 360 + WIDTHS / 2
    assert ticks == pytest.approx(np.round(ticks), abs=0.02) and np.ptp(ticks, axis=0)[:3].min() > 400
    assert poses.readings[:, 3] == pytest.approx(205 * 360 / 4095, abs=0.01)
    assert poses.readings[:, 5] == pytest.approx(50.0)


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
