"""Recorded pictures: dead and frozen cameras, videos off their rows."""

import numpy as np

from lerobot_diagnostics.diagnose.recorded import Sample, judge_alignment, judge_pictures
from lerobot_diagnostics.findings import Status
from lerobot_diagnostics.recording import open_recording
from tests.make_dataset import make_dataset, picture


def sample(pictures, moves=True):
    states = np.linspace(0, 1, len(pictures))[:, None] if moves else np.zeros((len(pictures), 1))
    return Sample(states, {"observation.images.front": pictures})


ALIVE = [picture(i) for i in range(5)]
BLACK = [np.zeros((48, 64, 3), np.uint8)] * 5


def told(findings):
    return {(f.code, f.status.value) for f in findings if f.status is not Status.PASS}


def test_a_black_camera_fails_in_what_training_used_and_warns_elsewhere():
    samples = {0: sample(BLACK), 1: sample(ALIVE)}
    found = judge_pictures(samples)
    assert told(found) == {("DEAD", "fail")}
    assert found[0].evidence["episodes"] == [0]
    assert told(judge_pictures(samples, used=[1])) == {("DEAD", "warn")}
    assert not told(judge_pictures({1: sample(ALIVE)}))


def test_a_camera_that_dies_midway():
    assert told(judge_pictures({0: sample([*ALIVE[:3], *BLACK[:2]])})) == {("DEAD", "fail")}


def test_frozen_while_the_arm_moves_and_still_while_it_rests():
    frozen = [ALIVE[0]] * 5
    assert told(judge_pictures({0: sample(frozen)})) == {("FROZEN", "fail")}
    assert not told(judge_pictures({0: sample(frozen, moves=False)}))


def test_video_rows_and_a_start_that_is_off(tmp_path):
    root = make_dataset(tmp_path / "data", lengths=(12, 12), cameras={"front": "h264"})
    recording = open_recording(root=root)
    camera = recording.cameras[0]
    episodes = [recording.episode(i) for i in range(2)]
    assert not told(judge_alignment(recording, episodes, [camera]))
    episodes[1].row = {
        **episodes[1].row,
        f"videos/{camera}/from_timestamp": 1e-2 + episodes[1].row[f"videos/{camera}/from_timestamp"],
    }
    found = judge_alignment(recording, episodes, [camera])
    assert told(found) == {("MISALIGNED", "fail")}
    assert found[0].evidence["episode"] == 1
