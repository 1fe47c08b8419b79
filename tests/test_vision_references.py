import numpy as np
import pytest
from vision_scenes import camera, recording

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.vision import ReferenceViews, is_dead, nearest_states
from lerobot_diagnostics.vision.references import THUMBS, VIEWS


def test_arrays_round_trip_and_stay_under_a_megabyte() -> None:
    frames, episodes = recording({"front": 1, "wrist": 2}, episodes=20, length=5)
    states = np.arange(100, dtype=np.float32)[:, None]
    views = ReferenceViews.build(frames, states=states, episodes=episodes)
    arrays = views.arrays()
    assert sum(a.nbytes for k, a in arrays.items() if k.startswith("front/")) < 1_000_000
    again = ReferenceViews.from_arrays(arrays)
    assert list(again.cameras) == ["front", "wrist"]
    for name, before in views.cameras.items():
        after = again.cameras[name]
        assert after.size == (320, 240)
        assert len(before.thumbs) == len(after.thumbs) == THUMBS
        assert len(after.views) == VIEWS
        assert after.thumb_episodes == before.thumb_episodes
        assert np.array_equal(after.view_states, before.view_states)
        assert np.abs(after.views[0].astype(float) - before.views[0]).mean() < 3


def test_every_episode_gives_its_first_frame() -> None:
    frames, episodes = recording({"a": 1}, episodes=20, length=5)
    views = ReferenceViews.build(frames, states=np.arange(100.0)[:, None], episodes=episodes).cameras["a"]
    assert set(views.thumb_episodes) == set(range(20))
    firsts = {5 * e for e in set(views.view_episodes)}
    assert len(firsts) == VIEWS // 2
    assert firsts <= set(views.view_states[:, 0].astype(int).tolist())


def test_dead_references_are_left_out_and_only_dead_ones_refused() -> None:
    black = np.zeros((240, 320, 3), np.uint8)
    good = camera(1, 0)
    views = ReferenceViews.build({"a": [black, good]}, episodes=[0, 1]).cameras["a"]
    assert views.thumb_episodes == (1,)
    with pytest.raises(UsageError, match="a: every reference picture is black"):
        ReferenceViews.build({"a": [black]})


def test_dead_is_black_or_constant_and_a_dim_picture_is_not() -> None:
    noise = np.random.default_rng(0).normal(3, 2, (240, 320, 3)).clip(0, 255).astype(np.uint8)
    assert is_dead(noise)
    assert is_dead(np.full((240, 320, 3), 128, np.uint8))
    assert not is_dead((camera(1, 0) * 0.25).astype(np.uint8))


def test_nearest_state_weighs_joints_by_their_range() -> None:
    # Joint 0 sweeps 0–100, joint 1 only 0–1: being 0.5 off in joint 1 is worse than 20 off in joint 0.
    grid = np.array([[x, y] for x in range(0, 101, 10) for y in (0.0, 0.5, 1.0)])
    index, distance = nearest_states(grid, np.array([50.0, 0.0]), 3)
    assert grid[index[0]].tolist() == [50.0, 0.0]
    assert distance[0] == 0.0
    assert {tuple(grid[i]) for i in index[1:]} == {(40.0, 0.0), (60.0, 0.0)}
    with pytest.raises(UsageError, match=r"\[N, D\]"):
        nearest_states(grid, np.zeros(3))


def test_lengths_and_missing_fields_are_refused() -> None:
    with pytest.raises(UsageError, match="lengths differ"):
        ReferenceViews.build({"a": [camera(1, 0)]}, episodes=[0, 1])
    with pytest.raises(UsageError, match="no reference cameras"):
        ReferenceViews.build({})
    arrays = ReferenceViews.build({"a": [camera(1, 0)]}).arrays()
    del arrays["a/view_jpeg"]
    with pytest.raises(UsageError, match="view_jpeg"):
        ReferenceViews.from_arrays(arrays)
