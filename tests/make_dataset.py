"""Tiny LeRobot v3.0 data sets for tests: joints that move smoothly, pictures that carry their own frame number.

    root = make_dataset(tmp_path / "data", lengths=(20, 15), cameras={"front": "h264"})

Nothing of LeRobot's writers is used except its mp4 concatenation, so the layout on disk is stated here once.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import av
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

JOINTS = (
    "shoulder_pan.pos",
    "shoulder_lift.pos",
    "elbow_flex.pos",
    "wrist_flex.pos",
    "wrist_roll.pos",
    "gripper.pos",
)
os.environ.setdefault("SVT_LOG", "1")  # the AV1 encoder prints its settings otherwise

ENCODERS = {"h264": "libx264", "av1": "libsvtav1", "mpeg4": "mpeg4"}
SCALAR = {
    "timestamp": "float32",
    "frame_index": "int64",
    "episode_index": "int64",
    "index": "int64",
    "task_index": "int64",
}
BLOCKS = 12  # bits in a picture's code: frame number (10) and camera (2)


def picture(frame: int, camera: int = 0, size: tuple[int, int] = (48, 64)) -> np.ndarray:
    """``[H, W, 3]`` uint8 whose columns of blocks spell ``frame`` (< 1024) and ``camera`` (< 4) in binary.

    The lower half is a gradient that differs in its three channels, so that exchanged channels or turns show.
    """
    H, W = size
    code = frame | camera << 10
    bits = np.array([code >> bit & 1 for bit in range(BLOCKS)])
    columns = bits[np.arange(W) * BLOCKS // W]
    image = np.zeros((H, W, 3), dtype=np.uint8)
    image[: H // 2] = np.where(columns, 220, 30)[None, :, None]
    image[H // 2 :, :, 0] = np.linspace(40, 220, W)[None, :]
    image[H // 2 :, :, 1] = np.linspace(200, 60, H - H // 2)[:, None]
    image[H // 2 :, :, 2] = 90
    return image


def read_picture(image: np.ndarray) -> tuple[int, int]:
    """``(frame, camera)`` as :func:`picture` spelled them, also after a lossy codec."""
    H, W = image.shape[:2]
    bits = [image[H // 8 : H // 3, (2 * bit + 1) * W // (2 * BLOCKS)].mean() > 125 for bit in range(BLOCKS)]
    code = sum(int(bit) << i for i, bit in enumerate(bits))
    return code & 1023, code >> 10


def joints(length: int, size: int, episode: int = 0) -> np.ndarray:
    """``[T, J]`` float32: slow sines of ±40, each joint with its own phase and rate."""
    t = np.arange(length)[:, None] / 10
    j = np.arange(size)[None, :]
    return (40 * np.sin(t * (0.5 + 0.15 * j) + j + 0.7 * episode)).astype(np.float32)


def write_mp4(
    path: Path, images: Sequence[np.ndarray], fps: int, codec: str = "h264", gop: int = 2, b_frames: int = 0
) -> None:
    """Encode pictures; ``gop`` is the distance of keyframes, ``b_frames`` lets h264 reorder frames."""
    path.parent.mkdir(parents=True, exist_ok=True)
    options = {"g": str(gop)}
    if codec == "h264":
        options |= {"crf": "18", "preset": "ultrafast" if not b_frames else "medium", "bf": str(b_frames)}
        options |= {"x264-params": "scenecut=0"}
    elif codec == "av1":
        options |= {"crf": "25", "preset": "12", "svtav1-params": "lp=1"}
    with av.open(str(path), "w") as container:
        stream = container.add_stream(ENCODERS[codec], fps, options=options)
        stream.height, stream.width = images[0].shape[:2]
        stream.pix_fmt = "yuv420p"
        for image in images:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode())


def concatenate(parts: Sequence[Path], target: Path) -> None:
    """One mp4 out of several, by LeRobot's own function."""
    from lerobot.datasets.video_utils import concatenate_video_files

    concatenate_video_files(list(parts), target)


def make_dataset(
    root: Path,
    *,
    lengths: Sequence[int] = (20, 15),
    fps: int = 10,
    cameras: Mapping[str, str] | None = None,
    names: Any = JOINTS,
    size: int = len(JOINTS),
    picture_size: tuple[int, int] = (48, 64),
    gop: int = 2,
    b_frames: int = 0,
    tasks: Sequence[str] = ("pick the cube",),
    states: Callable[[int, int], np.ndarray] | None = None,
    actions: Callable[[int, int], np.ndarray] | None = None,
    extra: Mapping[str, np.ndarray] | None = None,
    robot_type: str | None = "so_follower",
    episodes_per_file: int | None = None,
) -> Path:
    """Write a LeRobot v3.0 data set and return ``root``.

    Frame i of camera number c (in the order of ``cameras``) of every episode is ``picture(i, c)``.

    Args:
        root: Where to; created.
        lengths: Frames of each episode.
        fps: Frames per second.
        cameras: Name (``observation.images.<name>``) to ``"h264"``, ``"av1"``, ``"mpeg4"`` or ``"image"``.
        names: ``names`` of ``action`` and ``observation.state`` as written to ``meta/info.json``.
        size: Number of joints.
        picture_size: Height and width.
        gop: Distance of keyframes.
        b_frames: Reordered frames (h264).
        tasks: Episode e has task ``tasks[e % len(tasks)]``.
        states: ``(episode, length) -> [T, J]``; slow sines by default.
        actions: Likewise; by default the states one frame later.
        extra: Further ``observation.*`` or other float features, ``[sum of lengths, *shape]``.
        robot_type: As written to ``meta/info.json``.
        episodes_per_file: Start new data and video files after so many episodes; all in one by default.
    """
    cameras = cameras or {}
    extra = extra or {}
    states = states or (lambda episode, length: joints(length, size, episode))
    actions = actions or (lambda episode, length: np.roll(states(episode, length + 1), -1, axis=0)[:length])
    per_file = episodes_per_file or len(lengths)
    keys = {name: f"observation.images.{name}" for name in cameras}
    features = _features(cameras, keys, names, size, picture_size, fps, extra)

    rows: list[dict[str, Any]] = []
    tables: list[pa.Table] = []
    everything: dict[str, list[np.ndarray]] = {"observation.state": [], "action": []}
    start = 0
    for episode, length in enumerate(lengths):
        values = {"observation.state": states(episode, length), "action": actions(episode, length)}
        for key in everything:
            everything[key].append(np.asarray(values[key], dtype=np.float32))
        scalars = {
            "timestamp": (np.arange(length) / fps).astype(np.float32),
            "frame_index": np.arange(length),
            "episode_index": np.full(length, episode),
            "index": np.arange(start, start + length),
            "task_index": np.full(length, episode % len(tasks)),
        }
        columns: dict[str, Any] = {key: _vectors(value[-1]) for key, value in everything.items()}
        columns |= {key: _vectors(value[start : start + length]) for key, value in extra.items()}
        for number, (name, kind) in enumerate(cameras.items()):
            if kind == "image":
                cells = [{"bytes": _png(picture(i, number, picture_size)), "path": f"{i}.png"} for i in range(length)]
                columns[keys[name]] = pa.array(cells, pa.struct({"bytes": pa.binary(), "path": pa.string()}))
        columns |= {key: pa.array(value, SCALAR[key].replace("float32", "float")) for key, value in scalars.items()}
        tables.append(pa.table(columns))
        file = episode // per_file
        row: dict[str, Any] = {
            "episode_index": episode,
            "tasks": [tasks[episode % len(tasks)]],
            "length": length,
            "data/chunk_index": 0,
            "data/file_index": file,
            "dataset_from_index": start,
            "dataset_to_index": start + length,
            "meta/episodes/chunk_index": 0,
            "meta/episodes/file_index": 0,
        }
        for name, kind in cameras.items():
            if kind != "image":
                before = sum(lengths[file * per_file : episode]) / fps
                row |= {f"videos/{keys[name]}/chunk_index": 0, f"videos/{keys[name]}/file_index": file}
                row |= {f"videos/{keys[name]}/from_timestamp": before}
                row |= {f"videos/{keys[name]}/to_timestamp": before + length / fps}
        row |= {f"stats/action/{kind}": value for kind, value in _stats([everything["action"][-1]]).items()}
        rows.append(row)
        start += length

    for file in range(0, len(lengths), per_file):
        path = root / f"data/chunk-000/file-{file // per_file:03d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        with pq.ParquetWriter(path, tables[0].schema) as writer:
            for table in tables[file : file + per_file]:  # one row group an episode, as LeRobot records
                writer.write_table(table)
        for number, (name, kind) in enumerate(cameras.items()):
            if kind != "image":
                target = root / f"videos/{keys[name]}/chunk-000/file-{file // per_file:03d}.mp4"
                _write_video(target, lengths[file : file + per_file], number, picture_size, fps, kind, gop, b_frames)

    _write_meta(
        root, rows, features, tasks, fps, lengths, robot_type, any(kind != "image" for kind in cameras.values())
    )
    stats = {key: _stats(value) for key, value in everything.items()}
    stats |= {
        key: {
            "mean": [[[0.5]]] * 3,
            "std": [[[0.25]]] * 3,
            "min": [[[0.0]]] * 3,
            "max": [[[1.0]]] * 3,
            "count": [start],
        }
        for key in keys.values()
    }
    (root / "meta/stats.json").write_text(json.dumps(stats))
    return root


def _features(
    cameras: Mapping[str, str],
    keys: Mapping[str, str],
    names: Any,
    size: int,
    picture_size: tuple[int, int],
    fps: int,
    extra: Mapping[str, np.ndarray],
) -> dict[str, Any]:
    names = list(names) if isinstance(names, tuple) else names
    features: dict[str, Any] = {
        key: {"dtype": "float32", "shape": [size], "names": names} for key in ("action", "observation.state")
    }
    features |= {
        key: {"dtype": "float32", "shape": list(value.shape[1:]), "names": None} for key, value in extra.items()
    }
    for name, kind in cameras.items():
        dtype = "image" if kind == "image" else "video"
        features[keys[name]] = {"dtype": dtype, "shape": [*picture_size, 3], "names": ["height", "width", "channels"]}
        if dtype == "video":
            features[keys[name]]["info"] = {"video.fps": fps, "video.codec": kind, "has_audio": False}
    return features | {key: {"dtype": dtype, "shape": [1], "names": None} for key, dtype in SCALAR.items()}


def _vectors(values: np.ndarray) -> pa.Array:
    values = np.asarray(values, dtype=np.float32)
    return pa.array(values.reshape(len(values), -1).tolist(), pa.list_(pa.float32()))


def _png(image: np.ndarray) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(image).save(stream, "PNG")
    return stream.getvalue()


def _stats(values: Sequence[np.ndarray]) -> dict[str, Any]:
    data = np.concatenate(list(values)).astype(np.float64)
    kinds: dict[str, np.ndarray] = {"min": data.min(0), "max": data.max(0), "mean": data.mean(0), "std": data.std(0)}
    kinds |= {f"q{q:02d}": np.quantile(data, q / 100, axis=0) for q in (1, 10, 50, 90, 99)}
    return {kind: value.tolist() for kind, value in kinds.items()} | {"count": [len(data)]}


def _write_video(
    target: Path,
    lengths: Sequence[int],
    camera: int,
    picture_size: tuple[int, int],
    fps: int,
    codec: str,
    gop: int,
    b_frames: int,
) -> None:
    parts = [target.with_name(f"part-{i}.mp4") for i in range(len(lengths))]
    for part, length in zip(parts, lengths, strict=True):
        write_mp4(part, [picture(i, camera, picture_size) for i in range(length)], fps, codec, gop, b_frames)
    concatenate(parts, target)
    for part in parts:
        part.unlink()


def _write_meta(
    root: Path,
    rows: Sequence[Mapping[str, Any]],
    features: Mapping[str, Any],
    tasks: Sequence[str],
    fps: int,
    lengths: Sequence[int],
    robot_type: str | None,
    has_video: bool,
) -> None:
    episodes = root / "meta/episodes/chunk-000/file-000.parquet"
    episodes.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist([dict(row) for row in rows]), episodes)
    table = pd.DataFrame({"task_index": range(len(tasks))}, index=pd.Index(list(tasks), name="task"))
    table.to_parquet(root / "meta/tasks.parquet")
    info = {
        "codebase_version": "v3.0",
        "robot_type": robot_type,
        "total_episodes": len(lengths),
        "total_frames": sum(lengths),
        "total_tasks": len(tasks),
        "chunks_size": 1000,
        "data_files_size_in_mb": 100,
        "video_files_size_in_mb": 200,
        "fps": fps,
        "splits": {"train": f"0:{len(lengths)}"},
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4" if has_video else None,
        "features": features,
    }
    (root / "meta/info.json").write_text(json.dumps(info, indent=2))
