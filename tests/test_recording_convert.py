import hashlib
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lerobot.datasets.utils import BackwardCompatibilityError
from packaging.version import Version

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.recording import convert, hub, open_recording
from tests.make_dataset import joints, picture, read_picture, write_mp4

FRONT = "observation.images.front"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(convert, "HF_LEROBOT_HOME", tmp_path / "home")
    return tmp_path / "home" / "diagnostics" / "converted"


def make_v21(root: Path, lengths=(6, 4), fps=10) -> Path:
    """A data set in the v2.1 layout: one parquet file and one mp4 an episode, JSON lines."""
    scalars = {"frame_index": "int64", "episode_index": "int64", "index": "int64", "task_index": "int64"}
    features = {
        key: {"dtype": "float32", "shape": [6], "names": {"motors": list("abcdef")}}
        for key in ("action", "observation.state")
    }
    features |= {FRONT: {"dtype": "video", "shape": [48, 64, 3], "names": ["height", "width", "channels"]}}
    features |= {"timestamp": {"dtype": "float32", "shape": [1], "names": None}}
    features |= {key: {"dtype": dtype, "shape": [1], "names": None} for key, dtype in scalars.items()}
    start, episodes, statistics = 0, [], []
    for e, length in enumerate(lengths):
        values = joints(length, 6, e)
        columns = {key: pa.array(values.tolist(), pa.list_(pa.float32())) for key in ("action", "observation.state")}
        columns |= {"timestamp": (np.arange(length) / fps).astype(np.float32), "frame_index": np.arange(length)}
        columns |= {
            "episode_index": np.full(length, e),
            "index": start + np.arange(length),
            "task_index": np.zeros(length, int),
        }
        path = root / f"data/chunk-000/episode_{e:06d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns), path)
        write_mp4(root / f"videos/chunk-000/{FRONT}/episode_{e:06d}.mp4", [picture(i) for i in range(length)], fps)
        episodes.append({"episode_index": e, "tasks": ["pick"], "length": length})
        stats = {
            key: {"min": values.min(0), "max": values.max(0), "mean": values.mean(0), "std": values.std(0)}
            for key in ("action", "observation.state")
        }
        plain = {key: {kind: v.tolist() for kind, v in s.items()} | {"count": [length]} for key, s in stats.items()}
        statistics.append({"episode_index": e, "stats": plain})
        start += length
    info = {
        "codebase_version": "v2.1", "robot_type": "so100", "total_episodes": len(lengths), "total_frames": start,
        "total_tasks": 1, "total_videos": len(lengths), "total_chunks": 1, "chunks_size": 1000, "fps": fps,
        "splits": {"train": f"0:{len(lengths)}"}, "features": features,
        "data_path": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
        "video_path": "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4",
    }  # fmt: skip
    (root / "meta").mkdir()
    (root / "meta/info.json").write_text(json.dumps(info))
    for name, lines in (
        ("episodes", episodes),
        ("episodes_stats", statistics),
        ("tasks", [{"task_index": 0, "task": "pick"}]),
    ):
        (root / f"meta/{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return root


def tree(root: Path) -> dict[str, tuple[str, int]]:
    """Contents and modification times of everything under ``root``."""
    return {
        path.relative_to(root).as_posix(): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in root.rglob("*")
        if path.is_file()
    }


def test_a_v21_data_set_reads_like_any_other_and_stays_as_it_was(tmp_path, cache):
    root = make_v21(tmp_path / "parent" / "old")
    (tmp_path / "parent" / "old_old").mkdir()  # siblings that the converter would delete or move
    (tmp_path / "parent" / "old_v30").mkdir()
    before = tree(tmp_path / "parent")
    recording = open_recording(root=root, convert=True)
    assert recording.repo_id == "old"
    episode = recording.episode(1)
    assert np.array_equal(episode.actions, joints(4, 6, 1))
    assert episode.task == "pick"
    assert episode.names == tuple("abcdef")
    assert [read_picture(f)[0] for f in episode.frames(FRONT)] == [0, 1, 2, 3]
    assert tree(tmp_path / "parent") == before
    assert sorted(p.name for p in (tmp_path / "parent").iterdir()) == ["old", "old_old", "old_v30"]
    assert [p.name for p in cache.iterdir()] == [recording.root.name]  # nothing half-made is left


def test_links_in_the_data_set_do_not_lead_the_converter_to_the_originals(tmp_path):
    original = make_v21(tmp_path / "blobs")
    root = tmp_path / "linked"
    for path in [p for p in original.rglob("*") if p.is_file()]:
        link = root / path.relative_to(original)
        link.parent.mkdir(parents=True, exist_ok=True)
        (link.symlink_to if path.suffix == ".mp4" else link.hardlink_to)(path)
    before = tree(original)
    recording = open_recording(root=root, convert=True)
    assert tree(original) == before
    assert tree(root) == before
    originals = {path.stat().st_ino for path in original.rglob("*") if path.is_file()}
    assert not originals & {path.stat().st_ino for path in recording.root.rglob("*") if path.is_file()}


def test_the_second_run_uses_the_first_ones_copy_until_the_original_changes(tmp_path, monkeypatch, cache):
    root = make_v21(tmp_path / "old")
    first = open_recording(root=root, convert=True).root
    with monkeypatch.context() as patch:
        patch.setattr("lerobot.scripts.convert_dataset_v21_to_v30.convert_dataset", None)
        assert open_recording(root=root, convert=True).root == first
    os.utime(root / "meta/episodes.jsonl", ns=(1, 1))
    assert open_recording(root=root, convert=True).root != first
    assert len(list(cache.iterdir())) == 2


def test_nothing_is_pushed(tmp_path, monkeypatch):
    seen = {}
    monkeypatch.setattr(
        "lerobot.scripts.convert_dataset_v21_to_v30.convert_dataset",
        lambda repo_id, root, push_to_hub: seen.update(
            repo_id=repo_id, push=push_to_hub, beside=list(root.parent.iterdir())
        ),
    )
    root = make_v21(tmp_path / "old")
    copy = convert.converted(root, "user/old")
    assert (seen["repo_id"], seen["push"]) == ("user/old", False)
    assert [p.name for p in seen["beside"]] == ["dataset"]  # alone in a fresh parent
    assert copy.is_dir()


def test_a_v21_data_set_on_the_hub_is_fetched_whole_and_converted(tmp_path, monkeypatch):
    root, asked = make_v21(tmp_path / "snapshots" / "0123"), []

    def only_v21(*args):
        raise BackwardCompatibilityError(args[0], Version("2.1"))

    def snapshot_download(repo_id, **kwargs):
        asked.append((repo_id, kwargs["revision"], kwargs.get("allow_patterns")))
        return str(root)

    monkeypatch.setattr(hub, "get_safe_version", only_v21)
    monkeypatch.setattr(hub, "snapshot_download", snapshot_download)
    episode = open_recording("user/old", convert=True).episode(0)
    assert asked == [("user/old", "v2.1", None)]
    assert np.array_equal(episode.actions, joints(6, 6, 0))
    assert len(list(episode.frames(FRONT))) == 6  # nothing more is fetched: it is a local copy now


def test_a_data_set_that_cannot_be_converted_is_one_line_and_leaves_nothing(tmp_path, cache):
    root = make_v21(tmp_path / "old")
    (root / "meta/episodes_stats.jsonl").unlink()
    with pytest.raises(UsageError, match=r"converter cannot convert .*old"):
        open_recording(root=root, convert=True)
    assert list(cache.iterdir()) == []


def test_v20_says_what_the_converter_takes(tmp_path):
    root = make_v21(tmp_path / "old")
    info = root / "meta/info.json"
    info.write_text(info.read_text().replace("v2.1", "v2.0"))
    with pytest.raises(UsageError, match=r"v2\.0.*v2\.1"):
        open_recording(root=root, convert=True)


def test_a_real_v21_data_set_converts_to_its_v30(recordings, tmp_path):
    # copied: its folder may not be ours to write, and the test must be able to tell
    old = shutil.copytree(recordings / "so101_sim_2cam" / "v21", tmp_path / "v21")
    before = tree(old)
    mine = open_recording(root=old, convert=True)
    theirs = open_recording(root=recordings / "so101_sim_2cam" / "v30")
    assert tree(old) == before
    assert mine.total_episodes == theirs.total_episodes == 4
    for index in mine.episode_indices:
        a, b = mine.episode(index), theirs.episode(index)
        assert np.array_equal(a.actions, b.actions)
        assert np.array_equal(a.states, b.states)
        assert np.array_equal(a.timestamps, b.timestamps)
        assert a.task == b.task
        for camera in mine.cameras:
            for x, y in zip(
                a.frames(camera, [0, 201, len(a) - 1]), b.frames(camera, [0, 201, len(b) - 1]), strict=True
            ):
                assert np.array_equal(x, y)
