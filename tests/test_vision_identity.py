import numpy as np
import pytest
from vision_scenes import camera, recording, table

from lerobot_diagnostics.vision.identity import ORIENTATIONS, PERMUTATIONS, Identifier, describe, oriented, undone


@pytest.mark.parametrize("orientation", range(8))
def test_descriptor_of_a_turned_picture_is_a_permutation(orientation: int) -> None:
    picture = table(1)[:, :240]
    turned = describe(oriented(picture, orientation))
    assert np.abs(turned - describe(picture)[PERMUTATIONS[orientation]]).max() < 0.005
    assert np.array_equal(undone(oriented(picture, orientation), orientation), picture)


def test_orientations_say_what_happened() -> None:
    picture = table(1)
    assert ORIENTATIONS[1].endswith("counter-clockwise")
    assert np.array_equal(oriented(picture, 1)[0, 0], picture[0, -1])  # the top right corner comes to the top left
    assert np.array_equal(oriented(picture, 6), picture[::-1])
    assert ORIENTATIONS[6] == "mirrored top-bottom"


def test_own_camera_scores_high_others_and_turned_ones_low() -> None:
    frames, episodes = recording({"a": 1, "b": 2})
    identifier = Identifier(frames, {"a": episodes, "b": episodes})
    scores = identifier.scores(camera(2, 7.0, 999))
    assert scores.total[0, 1] > 1.4
    assert scores.total[0, 0] < 0.7
    assert scores.total[1:].max() < 1.0
    turned = identifier.scores(oriented(camera(2, 7.0, 999), 1))
    assert turned.total[1, 1] > 1.4  # with the turn undone it is camera b
    assert turned.total[0].max() < 0.9


def test_held_out_scores_come_from_other_episodes() -> None:
    frames, episodes = recording({"a": 1, "b": 2})
    held = Identifier(frames, {"a": episodes, "b": episodes}).held_out()
    assert sorted(held) == [0, 1, 2, 3]
    assert all(len(held[e]["a"]) == 5 for e in held)
    one = Identifier(frames, {"a": [0] * 20, "b": [0] * 20}).held_out()
    assert one == {}


def test_nearest_finds_the_reference_at_the_same_pose() -> None:
    frames, episodes = recording({"a": 1})
    identifier = Identifier(frames, {"a": episodes})
    assert identifier.nearest("a", frames["a"][7], 2)[0] == 7
