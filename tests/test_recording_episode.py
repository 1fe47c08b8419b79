import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from lerobot.datasets.lerobot_dataset import LeRobotDataset

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.recording import open_recording
from tests.make_dataset import JOINTS, joints, make_dataset, read_picture

FRONT, WRIST = "observation.images.front", "observation.images.wrist"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return make_dataset(
        tmp_path_factory.mktemp("data") / "set",
        lengths=(20, 15, 9),
        cameras={"front": "h264", "wrist": "image"},
        tasks=("pick", "place"),
        extra={"observation.environment_state": np.arange(44 * 4, dtype=np.float32).reshape(44, 4)},
    )


@pytest.fixture
def episode(root):
    return open_recording(root=root).episode(1)


def test_arrays_are_those_recorded(episode):
    assert len(episode) == episode.length == 15
    assert np.array_equal(episode.states, joints(15, 6, 1))
    assert np.array_equal(episode.actions, joints(16, 6, 1)[1:])
    assert episode.timestamps == pytest.approx(np.arange(15) / 10)
    assert episode.names == episode.state_names == JOINTS
    assert episode.fps == 10
    assert episode.task == "place"
    assert episode.tasks == ["place"] * 15


def test_other_columns_are_there_by_name_and_unknown_ones_are_listed(episode):
    assert np.array_equal(episode.column("observation.environment_state")[0], [80, 81, 82, 83])
    assert episode.column("frame_index").tolist() == list(range(15))
    with pytest.raises(KeyError, match=r"observation\.environment_state"):
        episode.column("observation.force")


def test_frames_of_both_storages_are_the_asked_ones_in_the_asked_order(episode):
    for number, camera in enumerate((FRONT, WRIST)):
        assert [read_picture(f) for f in episode.frames(camera)] == [(i, number) for i in range(15)]
        asked = [3, 3, 14, 2, 7]
        assert [read_picture(f)[0] for f in episode.frames(camera, asked)] == asked
        assert list(episode.frames(camera, [])) == []


def test_frames_outside_the_episode_or_of_no_camera_are_refused(episode):
    for index in (-1, 15):
        with pytest.raises(IndexError, match="episode of 15"):
            episode.frames(FRONT, [index])
    with pytest.raises(UsageError, match=r"no camera 'front'; there are: observation\.images\.front, .*wrist"):
        episode.frames("front")


def same_as_lerobot(root, indices, repo_id="local/set"):
    recording = open_recording(root=root)
    dataset = LeRobotDataset(repo_id, root=root, video_backend="pyav", return_uint8=True)
    for e in recording.episode_indices:
        episode = recording.episode(e)
        wanted = sorted({i % len(episode) for i in indices})
        pictures = {camera: list(episode.frames(camera, wanted)) for camera in recording.cameras}
        for j, i in enumerate(wanted):
            item = dataset[episode.row["dataset_from_index"] + i]
            assert np.array_equal(item["action"], episode.actions[i])
            assert np.array_equal(item["observation.state"], episode.states[i])
            assert item["timestamp"].item() == episode.timestamps[i]
            assert item["task"] == episode.tasks[i]
            for camera, frames in pictures.items():
                theirs = item[camera]
                if theirs.is_floating_point():  # image columns come scaled, whatever return_uint8 says
                    theirs = (theirs * 255).round().to(torch.uint8)
                assert np.array_equal(theirs.permute(1, 2, 0), frames[j]), (e, i, camera)


@pytest.mark.parametrize(
    "kind",
    [
        {"cameras": {"front": "h264", "wrist": "image"}},
        {"cameras": {"front": "av1"}, "episodes_per_file": 1},
        {"cameras": {"front": "h264"}, "gop": 250, "b_frames": 3, "fps": 30},
        {"cameras": {"front": "mpeg4"}, "gop": 12, "fps": 15},
    ],
)
def test_every_value_and_pixel_is_that_of_lerobots_own_reader(tmp_path, kind):
    same_as_lerobot(make_dataset(tmp_path / "set", lengths=(17, 11, 6), tasks=("a", "b"), **kind), range(17))


@pytest.mark.parametrize(
    "name", ["so101_sim_2cam", "g1_inspire_bottle", "so101_bimanual_cloth", "bridge_toysink_3cam", "pusht_image_slice"]
)
def test_real_recordings_read_as_in_lerobot(recordings, name):
    same_as_lerobot(recordings / name / "v30", [0, 1, 97, 250, 10**6 - 1])


def test_video_that_fits_its_rows_has_no_offset_and_a_shifted_one_shows(tmp_path, episode):
    assert np.abs(episode.frame_offsets(FRONT)).max() < 1e-4
    assert not episode.frame_offsets(WRIST).any()
    root = make_dataset(tmp_path / "set", lengths=(10, 10), cameras={"front": "h264"})
    path = root / "meta/episodes/chunk-000/file-000.parquet"
    table = pq.read_table(path).to_pydict()
    table[f"videos/{FRONT}/from_timestamp"][1] += 0.04
    pq.write_table(pa.table(table), path)
    shifted = open_recording(root=root).episode(1)
    assert shifted.frame_offsets(FRONT)[:9] == pytest.approx(-0.04, abs=1e-4)
    with pytest.raises(UsageError, match=r"no frame at 1\.0400 s"):
        list(shifted.frames(FRONT, [0]))
    tolerant = open_recording(root=root, tolerance_s=0.05).episode(1)
    assert read_picture(*tolerant.frames(FRONT, [0]))[0] == 0


def test_joints_only_use_needs_no_videos(tmp_path):
    root = make_dataset(tmp_path / "set", cameras={"front": "h264"})
    (root / f"videos/{FRONT}/chunk-000/file-000.mp4").unlink()
    episode = open_recording(root=root, need_videos=False).episode(0)
    assert episode.actions.shape == (20, 6)
    assert not episode.has_videos(FRONT)
    with pytest.raises(UsageError, match=r"lacks the video .*file-000\.mp4"):
        list(episode.frames(FRONT, [0]))


def test_has_videos_where_they_are(episode):
    assert episode.has_videos(FRONT)
    assert episode.has_videos(WRIST)


def test_missing_rows_are_named(tmp_path):
    root = make_dataset(tmp_path / "set", lengths=(10, 10))
    path = root / "data/chunk-000/file-000.parquet"
    pq.write_table(pq.read_table(path).slice(0, 17), path)
    recording = open_recording(root=root)
    assert recording.episode(0).actions.shape == (10, 6)
    with pytest.raises(UsageError, match=r"file-000\.parquet holds 7 of the 10 rows of episode 1"):
        _ = recording.episode(1).actions


def test_a_broken_picture_in_the_rows_is_named(tmp_path):
    root = make_dataset(tmp_path / "set", lengths=(3,), cameras={"wrist": "image"})
    path = root / "data/chunk-000/file-000.parquet"
    table = pq.read_table(path)
    cells = table[WRIST].to_pylist()
    cells[1]["bytes"] = io.BytesIO(b"no picture").getvalue()
    column = pa.array(cells, table.schema.field(WRIST).type)
    pq.write_table(table.set_column(table.column_names.index(WRIST), WRIST, column), path)
    episode = open_recording(root=root).episode(0)
    assert read_picture(*episode.frames(WRIST, [2])) == (2, 0)
    with pytest.raises(UsageError, match="at frame 1 of episode 0"):
        list(episode.frames(WRIST))


def test_no_action_or_state_is_an_empty_array(tmp_path):
    root = make_dataset(tmp_path / "set", lengths=(4,))
    info = json.loads((root / "meta/info.json").read_text())
    del info["features"]["action"]
    (root / "meta/info.json").write_text(json.dumps(info))
    episode = open_recording(root=root).episode(0)
    assert episode.actions.shape == (4, 0)
    assert episode.names == ()


def test_a_path_of_another_version_is_named(tmp_path):
    root = make_dataset(tmp_path / "set", lengths=(4,))
    info = root / "meta/info.json"
    info.write_text(info.read_text().replace("chunk-{chunk_index:03d}", "chunk-{episode_chunk:03d}"))
    with pytest.raises(UsageError, match="episode_chunk"):
        open_recording(root=root).episode(0)
