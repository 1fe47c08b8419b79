"""Reference views from a recording, under the policy's names."""

import numpy as np
import pytest
from make_dataset import make_dataset, read_picture

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.guard.references import build_references, match_cameras
from lerobot_diagnostics.recording import open_recording

KEYS = ("observation.images.top", "observation.images.wrist")


def test_names_are_the_policys():
    assert match_cameras(KEYS, {}) == {"top": KEYS[0], "wrist": KEYS[1]}
    renames = {KEYS[0]: "observation.images.camera1", KEYS[1]: "observation.images.camera2"}
    assert match_cameras(KEYS, renames) == {"camera1": KEYS[0], "camera2": KEYS[1]}
    assert match_cameras(KEYS, renames, ["observation.images.camera2"]) == {"camera2": KEYS[1]}
    assert match_cameras(["observation.image"], {}) == {"observation.image": "observation.image"}


def test_a_policy_that_takes_none_of_the_recorded_cameras_needs_a_map():
    with pytest.raises(UsageError, match="--rename_map"):
        match_cameras(KEYS, {}, ["observation.images.front"])


def test_every_episode_gives_its_first_frame_and_some_more(tmp_path):
    root = make_dataset(
        tmp_path / "d", lengths=(20, 15, 10), cameras={"top": "image", "wrist": "image"}, picture_size=(96, 128)
    )
    recording = open_recording(root=root)
    views = build_references(recording, match_cameras(recording.cameras, {}))
    top = views.cameras["top"]
    assert top.size == (128, 96)
    assert sorted(set(top.thumb_episodes)) == [0, 1, 2]
    assert len(top.thumbs) == 24  # eight an episode
    shown = [read_picture(view) for view in top.views]
    assert {camera for _, camera in shown} == {0}
    assert {e for (frame, _), e in zip(shown, top.view_episodes, strict=True) if frame == 0} == {0, 1, 2}
    assert read_picture(views.cameras["wrist"].views[0])[1] == 1
    assert np.allclose(top.view_states[0], recording.episode(0).states[0])
    only = build_references(recording, {"top": KEYS[0]}, [1])
    assert set(only.cameras["top"].thumb_episodes) == {1}
    with pytest.raises(UsageError, match="episodes"):
        build_references(recording, {"top": KEYS[0]}, [])
