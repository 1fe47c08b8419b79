"""Live pictures against a small recording: the pose nearest to the live one, and what has changed there."""

from functools import cache
from types import SimpleNamespace

import numpy as np
from vision_scenes import camera, warped

from lerobot_diagnostics.diagnose.views import judge_views, live_state, read_references
from lerobot_diagnostics.findings import Status

SEEDS = {"observation.images.front": 1, "observation.images.top": 2}


class FakeEpisode:
    """A sweep of the arm over 20 frames, one joint."""

    def __init__(self, index):
        self.index = index
        self.angles = np.linspace(-50, 50, 20) + index
        self.states = self.angles[:, None]

    def __len__(self):
        return len(self.angles)

    def frames(self, key, indices):
        return (camera(SEEDS[key], self.angles[i], 100 * self.index + int(i)) for i in indices)


RECORDING = SimpleNamespace(
    episode=FakeEpisode, state_names=("joint.pos",), episode_indices=range(3), cameras=tuple(SEEDS)
)


@cache
def references_at(angle):
    return read_references(RECORDING, range(3), RECORDING.cameras, np.array([angle]))


def judge(live, angle=10.0, tmp=None):
    state = np.array([angle])
    references = references_at(angle)
    return references, judge_views(live, references, state, tmp)


def told(outcome):
    return {(f.code, f.subject) for f in outcome.findings if f.status in (Status.FAIL, Status.WARN)}


def views(angle=10.0):
    return {"front": camera(1, angle, 7), "top": camera(2, angle, 8)}


def test_the_references_hold_the_pose_nearest_to_the_live_one(tmp_path):
    references, outcome = judge(views(), tmp=tmp_path)
    assert references.distance < 0.05
    assert abs(FakeEpisode(references.episode).angles[references.frame] - 10) < 3
    assert not told(outcome)
    assert {p.path for p in outcome.pictures} == {"view_front.png", "view_top.png"}
    assert all((tmp_path / p.path).is_file() for p in outcome.pictures)


def test_a_moved_camera_and_swapped_ones():
    moved = {**views(), "front": warped(camera(1, 10.0, 7), 12, 0)}
    assert ("MOVED", "front") in told(judge(moved)[1])
    front, top = views().values()
    assert {("SWAPPED", "front"), ("SWAPPED", "top")} <= told(judge({"front": top, "top": front})[1])


def test_far_from_every_recorded_pose_the_workspace_is_unknown():
    _, outcome = judge(views(angle=90.0), angle=90.0)
    unknown = [f for f in outcome.findings if f.code == "OBJECT_MOVED" and f.status is Status.UNKNOWN]
    assert unknown and "% of the joints' range away" in unknown[0].summary


def test_the_live_state_binds_by_name():
    recording = SimpleNamespace(state_names=("b.pos", "a.pos"))
    assert live_state(recording, {"a.pos": 1.0, "b.pos": 2.0}).tolist() == [2.0, 1.0]
    assert live_state(recording, {"a.pos": 1.0}) is None
