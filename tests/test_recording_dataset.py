import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from lerobot.datasets.dataset_metadata import LeRobotDatasetMetadata
from lerobot.datasets.lerobot_dataset import LeRobotDataset

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.recording import hub, open_episode, open_recording
from lerobot_diagnostics.recording.dataset import spans
from tests.make_dataset import JOINTS, make_dataset

FRONT = "observation.images.front"


@pytest.fixture(autouse=True)
def no_hub(monkeypatch):
    """A local data set never asks the Hub, whatever is wrong with it."""

    def refuse(*args, **kwargs):
        raise AssertionError(f"asked the Hub: {args} {kwargs}")

    for name in ("get_safe_version", "snapshot_download", "hf_hub_download"):
        monkeypatch.setattr(hub, name, refuse)
        for module in ("dataset_metadata", "lerobot_dataset"):
            monkeypatch.setattr(f"lerobot.datasets.{module}.{name}", refuse, raising=False)
    monkeypatch.setattr("socket.socket.connect", refuse)


@pytest.fixture
def root(tmp_path):
    return make_dataset(tmp_path / "set", lengths=(6, 5, 4), cameras={"front": "h264", "wrist": "image"})


def edit_info(root: Path, **changes) -> None:
    info = json.loads((root / "meta/info.json").read_text())
    (root / "meta/info.json").write_text(json.dumps(info | changes))


def test_metadata_is_that_of_info_json(root):
    recording = open_recording("user/set", root=root)
    assert (recording.repo_id, recording.root) == ("user/set", root)
    assert (recording.fps, recording.robot_type, recording.total_episodes) == (10.0, "so_follower", 3)
    assert list(recording.episode_indices) == [0, 1, 2]
    assert recording.cameras == (FRONT, "observation.images.wrist")
    assert (recording.video_cameras, recording.image_cameras) == ((FRONT,), ("observation.images.wrist",))
    assert recording.action_names == recording.state_names == JOINTS
    assert recording.tasks == ["pick the cube"]
    assert open_recording(root=root).repo_id == "set"


def test_opening_reads_info_json_alone(root):
    for path in [p for p in root.rglob("*") if p.is_file() and p.name != "info.json"]:
        path.unlink()
    assert open_recording(root=root).total_episodes == 3


def test_stats_are_arrays_by_feature(root):
    stats = open_recording(root=root).stats
    assert stats["action"]["mean"].shape == (6,)
    (root / "meta/stats.json").unlink()
    assert open_recording(root=root).stats is None
    (root / "meta/stats.json").write_text("{")
    with pytest.raises(UsageError, match=r"stats\.json is damaged"):
        _ = open_recording(root=root).stats


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ({"motors": list("abcdef")}, tuple("abcdef")),
        ([list("abcdef")], tuple("abcdef")),
        (None, None),
        (["a"], None),
    ],
)
def test_joint_names_of_every_convention(tmp_path, names, expected):
    recording = open_recording(root=make_dataset(tmp_path / "set", lengths=(3,), names=names))
    assert recording.joint_names("action") == expected
    assert recording.action_names == (expected or tuple(f"joint_{i}" for i in range(6)))


def test_meta_serves_lerobots_factories_without_reading_episode_rows(root):
    shutil.rmtree(root / "meta/episodes")
    meta = open_recording("user/set", root=root).meta
    assert isinstance(meta, LeRobotDatasetMetadata)
    assert meta.camera_keys == [FRONT, "observation.images.wrist"]
    assert meta.stats["action"]["std"].shape == (6,)
    assert meta.get_task_index("pick the cube") == 0
    assert (meta.fps, meta.total_episodes, meta.repo_id) == (10, 3, "user/set")

    from lerobot.policies.act.configuration_act import ACTConfig
    from lerobot.policies.factory import make_policy

    policy = make_policy(
        ACTConfig(device="cpu", pretrained_backbone_weights=None, dim_model=32, n_heads=4), ds_meta=meta
    )
    assert policy.config.action_feature.shape == (6,)


def test_meta_loads_its_episodes_when_lerobot_asks(root):
    assert open_recording(root=root).meta.get_video_file_path(1, FRONT) == Path(
        f"videos/{FRONT}/chunk-000/file-000.mp4"
    )


def test_an_episode_that_does_not_exist_lists_those_that_do(root):
    for index in (3, -1):
        with pytest.raises(UsageError, match=rf"has no episode {index}; it has 0-2\. .*--dataset\.episodes"):
            open_recording(root=root).episode(index)


@pytest.mark.parametrize(
    ("indices", "text"), [([], "none"), ([4], "4"), (range(8), "0-7"), ([9, 0, 1, 2, 5, 8], "0-2, 5, 8-9")]
)
def test_spans(indices, text):
    assert spans(indices) == text


def test_no_data_set_named():
    with pytest.raises(UsageError, match=r"--dataset\.repo_id=.* or --dataset\.root"):
        open_recording()


def test_a_root_that_is_not_there_is_not_made(tmp_path):
    with pytest.raises(UsageError, match=r"--dataset\.root=.*nowhere is no folder"):
        open_recording("user/set", root=tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


def test_a_folder_that_is_no_data_set(tmp_path):
    with pytest.raises(UsageError, match=r"has no meta/info\.json"):
        open_recording("user/set", root=tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", '{"codebase_version": "v3.0"}', '{"codebase_version": "x"}', "\udcff"]
)
def test_a_damaged_info_json_is_named(root, text):
    (root / "meta/info.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(UsageError, match=r"info\.json"):
        open_recording(root=root)


@pytest.mark.parametrize("changes", [{"fps": 0}, {"features": {"action": {}}}, {"features": []}, {"chunks_size": "x"}])
def test_impossible_values_in_info_json_are_named(root, changes):
    edit_info(root, **changes)
    with pytest.raises(UsageError, match=r"info\.json"):
        open_recording(root=root)


@pytest.mark.parametrize("version", ["v2.1", "v2.0", "v1.6"])
def test_an_older_data_set_says_how_to_convert(root, version):
    edit_info(root, codebase_version=version)
    with pytest.raises(UsageError, match=rf"is a {version[1:].join(['v', ''])} data set.*--dataset\.convert=true"):
        open_recording(root=root)


def test_a_newer_data_set_says_so(root):
    edit_info(root, codebase_version="v4.0")
    with pytest.raises(UsageError, match=r"is a v4\.0 data set.*Upgrade lerobot"):
        open_recording(root=root)


def test_an_empty_data_set_says_so(root):
    edit_info(root, total_episodes=0)
    with pytest.raises(UsageError, match="is empty"):
        open_recording(root=root)


def test_more_episodes_promised_than_listed(root):
    edit_info(root, total_episodes=5)
    with pytest.raises(UsageError, match=r"promises 5 episodes, but meta/episodes has no episode 4"):
        open_recording(root=root).episode(4)


def test_no_list_of_episodes(root):
    shutil.rmtree(root / "meta/episodes")
    with pytest.raises(UsageError, match="meta/episodes has no episode 0"):
        open_recording(root=root).episode(0)


@pytest.mark.parametrize("name", ["data/chunk-000/file-000.parquet", f"videos/{FRONT}/chunk-000/file-000.mp4"])
def test_a_missing_file_is_named_when_the_episode_is_opened(root, name):
    (root / name).unlink()
    with pytest.raises(UsageError, match=rf"--dataset\.root=.* lacks {name}, which holds episode 1"):
        open_recording(root=root).episode(1)


def test_only_the_needed_cameras_must_be_there(root):
    (root / f"videos/{FRONT}/chunk-000/file-000.mp4").unlink()
    assert len(open_recording(root=root, need_videos=["observation.images.wrist"]).episode(0)) == 6
    assert len(open_recording(root=root, need_videos=False).episode(0)) == 6
    with pytest.raises(UsageError, match="lacks"):
        open_recording(root=root, need_videos=[FRONT]).episode(0)


@pytest.mark.parametrize("name", ["meta/episodes/chunk-000/file-000.parquet", "data/chunk-000/file-000.parquet"])
def test_a_damaged_parquet_file_is_named(root, name):
    (root / name).write_bytes(b"PAR1" + bytes(100))
    with pytest.raises(UsageError, match=r"file-000\.parquet is damaged"):
        _ = open_recording(root=root).episode(0).actions


def test_damaged_tasks_are_named(root):
    (root / "meta/tasks.parquet").write_bytes(b"no")
    with pytest.raises(UsageError, match=r"tasks\.parquet is damaged"):
        _ = open_recording(root=root).tasks
    (root / "meta/tasks.parquet").unlink()
    with pytest.raises(UsageError, match=r"tasks\.parquet"):
        _ = open_recording(root=root).episode(0).task


def test_video_columns_missing_from_the_episode_rows(root):
    path = root / "meta/episodes/chunk-000/file-000.parquet"
    table = pq.read_table(path)
    pq.write_table(table.drop_columns([f"videos/{FRONT}/from_timestamp"]), path)
    with pytest.raises(UsageError, match=f"where episode 0 begins in {FRONT}"):
        open_recording(root=root).episode(0).frames(FRONT, [0])
    pq.write_table(table.drop_columns([f"videos/{FRONT}/file_index"]), path)
    with pytest.raises(UsageError, match="does not say which file"):
        open_recording(root=root).episode(0)


def test_an_episode_opens_from_every_form_of_a_data_set(root):
    forms = [
        open_recording(root=root),
        LeRobotDataset("user/set", root=root),
        LeRobotDatasetMetadata("user/set", root=root),
        root,
        str(root),
    ]
    expected = open_recording(root=root).episode(2).actions
    for form in forms:
        episode = open_episode(form, 2)
        assert np.array_equal(episode.actions, expected)
        assert len(list(episode.frames(FRONT, [0, 3]))) == 2


def test_a_data_set_recorded_here_is_used_by_its_name(root, monkeypatch):
    monkeypatch.setattr("lerobot_diagnostics.recording.dataset.HF_LEROBOT_HOME", root.parent)
    assert open_recording("set").root == root
    assert len(open_episode("set", 0)) == 6


def test_depth_maps_are_no_cameras(root):
    info = json.loads((root / "meta/info.json").read_text())
    info["features"][FRONT]["info"]["video.is_depth_map"] = True
    (root / "meta/info.json").write_text(json.dumps(info))
    assert open_recording(root=root).cameras == ("observation.images.wrist",)
