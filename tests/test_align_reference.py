"""Which recorded picture a live one is to match, and the one line for references that cannot serve."""

import numpy as np
import pytest
from make_dataset import JOINTS, make_dataset, read_picture

from lerobot_diagnostics.align.reference import StartViews, pair_cameras
from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.recording import open_recording

FRONT, TOP = "observation.images.front", "observation.images.top"
SIZE = (48, 64)


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    root = tmp_path_factory.mktemp("align") / "data"
    return open_recording(root=make_dataset(root, lengths=(20, 15, 18), cameras={"front": "h264", "top": "h264"}))


@pytest.fixture
def starts(recording):
    return StartViews(recording, {"front": FRONT, "cam1": TOP}, JOINTS, frame=0)


def test_a_reference_is_the_episodes_own_picture_and_joints_by_name(recording, starts):
    reference = starts.load(1)
    assert read_picture(reference.pictures["front"]) == (0, 0)  # frame and camera
    assert read_picture(reference.pictures["cam1"]) == (0, 1)
    states = recording.episode(1).states
    assert reference.state == pytest.approx(dict(zip(JOINTS, states[0], strict=True)))
    later = StartViews(recording, {"front": FRONT}, ["elbow_flex.pos", "x.vel"], frame=4).load(1)
    assert read_picture(later.pictures["front"]) == (4, 0)
    assert later.state == pytest.approx({"elbow_flex.pos": states[4, 2]})


def test_episodes_go_round(starts):
    assert [starts.step(2, 1), starts.step(0, -1), starts.step(1, 1)] == [0, 2, 2]


def test_pictures_of_other_episodes_are_taken_at_the_same_pose_only(tmp_path):
    def states(episode, length):
        sweep = np.linspace(0, 50, length)[:, None] * np.ones((1, 6))
        return (sweep + (30.0 if episode == 2 else 0.4 * episode)).astype(np.float32)

    root = make_dataset(tmp_path / "data", lengths=(10, 10, 10, 10), cameras={"front": "h264"}, states=states)
    starts = StartViews(open_recording(root=root), {"front": FRONT}, JOINTS)
    assert len(starts.load(0).others["front"]) == 2  # episode 2 starts elsewhere
    assert len(starts.load(2).others["front"]) == 0


def test_the_recording_shows_which_cameras_stand_and_what_stands_still(starts):
    assert set(starts.comparer().names) == {"front", "cam1"}
    assert starts.backgrounds(0)["front"].picture.shape == (48, 64, 3)


def test_an_episode_or_frame_that_is_not_there(recording, starts):
    with pytest.raises(UsageError, match="has no episode 7; it has 0-2"):
        starts.load(7)
    with pytest.raises(UsageError, match="has no frame 15; it has 15"):
        StartViews(recording, {"front": FRONT}, JOINTS, frame=15).load(1)


def test_cameras_pair_by_name_and_through_the_rename_map(recording):
    assert pair_cameras(recording, {"front": SIZE, "top": SIZE}) == {"front": FRONT, "top": TOP}
    renamed = pair_cameras(recording, {"front": SIZE, "cam1": SIZE}, {"observation.images.cam1": TOP})
    assert renamed == {"front": FRONT, "cam1": TOP}
    assert pair_cameras(recording, {"top": SIZE}) == {"top": TOP}  # a policy may use one of two cameras
    assert pair_cameras(recording, {"front": SIZE, "top": SIZE, "extra": SIZE}) == {"front": FRONT, "top": TOP}
    assert pair_cameras(recording, {"front": (96, 128), "top": SIZE})["front"] == FRONT  # resized


@pytest.mark.parametrize("live", [{"cam0": SIZE, "cam1": SIZE}, {"front": SIZE, "cam1": SIZE}, {}])
def test_other_names_are_named(recording, live):
    with pytest.raises(UsageError, match=r"recorded with cameras front, top; the robot has") as error:
        pair_cameras(recording, live)
    if live:
        assert "--rename_map='{\"observation.images.cam" in str(error.value)


def test_another_shape_is_refused_with_the_size_to_set(recording):
    with pytest.raises(UsageError, match=r"front delivers 128x72, recorded was 64x48: another shape\. Set width: 64"):
        pair_cameras(recording, {"front": (72, 128), "top": SIZE})


def test_a_recording_without_pictures(tmp_path):
    blind = open_recording(root=make_dataset(tmp_path / "blind", cameras={}))
    with pytest.raises(UsageError, match="has no pictures: there is nothing to align with"):
        pair_cameras(blind, {"front": SIZE})
