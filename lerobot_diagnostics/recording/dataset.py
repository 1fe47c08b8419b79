"""A recorded data set, opened without reading more than was asked for and without a surprise visit to the Hub."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import packaging.version
from lerobot.datasets.dataset_metadata import CODEBASE_VERSION, LeRobotDatasetMetadata
from lerobot.datasets.io_utils import load_stats, load_tasks
from lerobot.datasets.lerobot_dataset import LeRobotDataset
from lerobot.datasets.utils import (
    EPISODES_DIR,
    INFO_PATH,
    STATS_PATH,
    BackwardCompatibilityError,
    DatasetInfo,
    has_legacy_hub_download_metadata,
)
from lerobot.utils.constants import HF_LEROBOT_HOME, HF_LEROBOT_HUB_CACHE

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.recording import convert as converter
from lerobot_diagnostics.recording import hub, tables
from lerobot_diagnostics.recording.episode import ACTION, STATE, Episode
from lerobot_diagnostics.recording.names import joint_names, placeholder_names

TOLERANCE_S = 1e-4
"""LeRobot's own default for how far a video frame may lie from its row's time stamp."""


class Metadata(LeRobotDatasetMetadata):  # type: ignore[misc]
    """LeRobot's metadata class over files already here, for its factories: no Hub, no episode rows until asked for."""

    def __init__(self, recording: Recording) -> None:
        # The parent's __init__ loads every episode's row, and goes to the Hub when a file is missing.
        self.repo_id = recording.repo_id
        self.repo_type = "dataset"
        self.revision = CODEBASE_VERSION
        self.root = recording.root
        self._requested_root = recording.root
        self._pq_writer = None
        self.latest_episode = None
        self._metadata_buffer: list[dict[str, Any]] = []
        self._metadata_buffer_size = 10
        self._finalized = True
        self.info = recording.info
        self.stats = recording.stats
        self.tasks = recording._task_table
        self.episodes = None


class Recording:
    """A LeRobot data set of which only ``meta/info.json`` has been read. Made by :func:`open_recording`.

    Attributes:
        root: The folder with ``meta/``, ``data/`` and ``videos/``.
        repo_id: The name it goes by; the folder's name if none was given.
        info: LeRobot's own ``DatasetInfo``.
        need_videos: Whether the cameras' files must be there when an episode is opened, or of which cameras.
        tolerance_s: How far a video frame may lie from its row's time stamp.
    """

    def __init__(
        self,
        root: Path,
        info: DatasetInfo,
        *,
        repo_id: str | None = None,
        on_hub: bool = False,
        need_videos: bool | Collection[str] = True,
        tolerance_s: float = TOLERANCE_S,
    ) -> None:
        self.root = root
        self.repo_id = repo_id or root.resolve().name
        self.info = info
        self.need_videos = need_videos
        self.tolerance_s = tolerance_s
        self._on_hub = on_hub

    def __repr__(self) -> str:
        return f"Recording({self.label}, {self.total_episodes} episodes)"

    @property
    def label(self) -> str:
        """How messages call it: the flag that names it."""
        return f"--dataset.repo_id={self.repo_id}" if self._on_hub else f"--dataset.root={self.root}"

    @property
    def features(self) -> dict[str, dict[str, Any]]:
        """``features`` of ``meta/info.json``."""
        features: dict[str, dict[str, Any]] = self.info.features
        return features

    @property
    def fps(self) -> float:
        """Frames per second."""
        return float(self.info.fps)

    @property
    def robot_type(self) -> str | None:
        """The robot's type as recorded."""
        robot_type: str | None = self.info.robot_type
        return robot_type

    @property
    def total_episodes(self) -> int:
        """How many episodes ``meta/info.json`` promises."""
        return int(self.info.total_episodes)

    @property
    def episode_indices(self) -> range:
        """The episodes that exist: v3.0 numbers them without gaps."""
        return range(self.total_episodes)

    @cached_property
    def video_cameras(self) -> tuple[str, ...]:
        """Keys of the RGB cameras stored as video."""
        return tuple(
            key for key, feature in self.features.items() if feature["dtype"] == "video" and not _depth(feature)
        )

    @cached_property
    def image_cameras(self) -> tuple[str, ...]:
        """Keys of the RGB cameras stored as images in the parquet rows."""
        return tuple(
            key for key, feature in self.features.items() if feature["dtype"] == "image" and not _depth(feature)
        )

    @cached_property
    def cameras(self) -> tuple[str, ...]:
        """Keys of all RGB cameras, in the data set's order. Depth maps are no pictures and are left out."""
        return tuple(key for key in self.features if key in self.video_cameras or key in self.image_cameras)

    def joint_names(self, key: str) -> tuple[str, ...] | None:
        """The recorded names of a feature's dimensions; None when there are none that fit.

        Raises:
            KeyError: If the data set has no such feature.
        """
        feature = self.features[key]
        return joint_names(feature.get("names"), _size(feature))

    def _labels(self, key: str) -> tuple[str, ...]:
        if key not in self.features:
            return ()
        return self.joint_names(key) or placeholder_names(_size(self.features[key]))

    @property
    def action_names(self) -> tuple[str, ...]:
        """One name for each dimension of ``action``: the recorded ones, else ``joint_0``, ``joint_1``, …"""
        return self._labels(ACTION)

    @property
    def state_names(self) -> tuple[str, ...]:
        """One name for each dimension of ``observation.state``, like :attr:`action_names`."""
        return self._labels(STATE)

    @cached_property
    def stats(self) -> dict[str, dict[str, Any]] | None:
        """``meta/stats.json`` as arrays by feature and statistic; None if the data set has none.

        Raises:
            UsageError: If the file is damaged.
        """
        try:
            stats: dict[str, dict[str, Any]] | None = load_stats(self.root)
        except (ValueError, AttributeError, OSError) as error:
            raise _damaged(self.root / STATS_PATH, error) from error
        return stats

    @cached_property
    def _task_table(self) -> Any:
        """LeRobot's table of tasks, None if the data set has none."""
        if not self.info.total_tasks:
            return None
        path = self.root / "meta" / "tasks.parquet"
        with tables.open_parquet(path):
            return load_tasks(self.root)

    @cached_property
    def tasks(self) -> list[str]:
        """The tasks in the order of ``task_index``."""
        return [] if self._task_table is None else [str(task) for task in self._task_table.index]

    @cached_property
    def meta(self) -> Metadata:
        """A ``LeRobotDatasetMetadata`` for LeRobot's policy and processor factories, with ``episodes`` not loaded."""
        return Metadata(self)

    def file(self, name: str) -> Path:
        """A file of the data set by its path inside it, fetched first if the data set is on the Hub.

        Raises:
            UsageError: If it cannot be fetched. A local file may be missing: opening it says so.
        """
        return hub.fetch_file(self.repo_id, self.root, name) if self._on_hub else self.root / name

    @cached_property
    def _episode_files(self) -> list[Path]:
        return sorted((self.root / EPISODES_DIR).glob("*/*.parquet"))

    def episode(self, index: int) -> Episode:
        """Open one episode: reads its row of ``meta/episodes`` and sees that its files are there.

        Raises:
            UsageError: If it does not exist (the message says which do), the data set lacks its row, its data file or,
                unless ``need_videos`` says otherwise, one of its videos.
        """
        if index not in self.episode_indices:
            raise UsageError(
                f"{self.label} has no episode {index}; it has {spans(self.episode_indices)}.",
                f"Choose among these, e.g. --dataset.episodes=[{self.total_episodes - 1}].",
            )
        row = tables.find_episode(self._episode_files, index)
        if row is None or not row.get("length"):
            raise UsageError(
                f"meta/info.json of {self.label} promises {self.total_episodes} episodes, but meta/episodes has no "
                f"episode {index}.",
                "The data set is inconsistent: restore it, or choose others with --dataset.episodes.",
            )
        episode = Episode(self, index, row)
        needed = [episode.data_path]
        if self.need_videos:
            asked = self.video_cameras if self.need_videos is True else self.need_videos
            needed += [episode.video_path(camera) for camera in asked if camera in self.video_cameras]
        for path in needed:
            if not path.is_file():
                raise UsageError(
                    f"{self.label} lacks {path.relative_to(self.root).as_posix()}, which holds episode {index}.",
                    "Restore the file, or choose other episodes with --dataset.episodes.",
                )
        return episode


def _depth(feature: Mapping[str, Any]) -> bool:
    """Whether a feature is a depth map: the keys LeRobot has used for that."""
    info = {**(feature.get("video_info") or {}), **(feature.get("info") or {})}
    return bool(info.get("is_depth_map") or info.get("video.is_depth_map"))


def _size(feature: Mapping[str, Any]) -> int:
    size = 1
    for length in feature["shape"]:
        size *= int(length)
    return size


def spans(indices: Collection[int]) -> str:
    """Whole numbers in compact form: ``0-7``, ``0-3, 5, 8-9``, ``none``."""
    text, ordered = [], sorted(indices)
    start = 0
    for i in range(1, len(ordered) + 1):
        if i == len(ordered) or ordered[i] != ordered[i - 1] + 1:
            first, last = ordered[start], ordered[i - 1]
            text.append(str(first) if first == last else f"{first}-{last}")
            start = i
    return ", ".join(text) or "none"


def _damaged(path: Path, error: Exception) -> UsageError:
    return UsageError(
        f"{path} is damaged: {type(error).__name__}: {error}", "Restore the file, or check --dataset.root."
    )


def open_recording(
    repo_id: str | None = None,
    *,
    root: str | Path | None = None,
    revision: str | None = None,
    convert: bool = False,
    need_videos: bool | Collection[str] = True,
    tolerance_s: float = TOLERANCE_S,
) -> Recording:
    """Open a data set. Reads ``meta/info.json``; everything else is read when it is asked for.

    With ``root`` nothing ever leaves the machine. Without it, a data set recorded here (under ``$HF_LEROBOT_HOME``) is
    used as it is; else ``meta/`` comes from the Hub, and later only the files of the episodes that are opened.

    Args:
        repo_id: ``user/name`` (``--dataset.repo_id``). A mere label when ``root`` is given.
        root: A local data set (``--dataset.root``).
        revision: Branch, tag or commit on the Hub; the newest that this LeRobot reads by default.
        convert: Convert a v2.1 data set with LeRobot's converter, on a copy (``--dataset.convert``).
        need_videos: Whether the videos must be there: of all cameras, none (joints only), or those named.
        tolerance_s: How far a video frame may lie from its row's time stamp.

    Raises:
        UsageError: If there is no such data set, it is damaged, empty or of another version, or the Hub refuses.
    """
    on_hub = False
    if root is not None:
        folder = Path(root)
        if not folder.is_dir():
            raise UsageError(
                f"--dataset.root={folder} is no folder.",
                "Correct it, or leave it out to take --dataset.repo_id from the Hub.",
            )
    elif repo_id is None:
        raise UsageError("No data set was named.", "Give --dataset.repo_id=user/name or --dataset.root=folder.")
    else:
        folder = Path(HF_LEROBOT_HOME) / repo_id
        if not (folder / INFO_PATH).is_file() or has_legacy_hub_download_metadata(folder):
            on_hub = True
            folder = _from_hub(repo_id, revision, convert)
    version = _version(folder, _read_info(folder))
    if version.major < 3:
        if not convert:
            name = f"--dataset.root={folder}" if root is not None else f"--dataset.repo_id={repo_id}"
            raise UsageError(
                f"{name} is a v{version} data set; this LeRobot reads {CODEBASE_VERSION}.",
                "Pass --dataset.convert=true to have LeRobot convert a copy of it (the original is not touched).",
            )
        repo_id = repo_id or folder.resolve().name
        folder, on_hub = converter.converted(folder, repo_id), False
    return Recording(
        folder,
        _load_info(folder),
        repo_id=repo_id,
        on_hub=on_hub,
        need_videos=need_videos,
        tolerance_s=tolerance_s,
    )


def _from_hub(repo_id: str, revision: str | None, convert: bool) -> Path:
    """The snapshot with ``meta/``, or with everything when it has to be converted."""
    try:
        snapshot = hub.fetch_meta(repo_id, revision)
        old = _version(snapshot, _read_info(snapshot)).major < 3
        revision = snapshot.name
    except BackwardCompatibilityError:
        old, revision = True, "v2.1"
    if not old:
        return snapshot
    if not convert:
        raise UsageError(
            f"--dataset.repo_id={repo_id} is on the Hub as v2.1 only; this LeRobot reads {CODEBASE_VERSION}.",
            "Pass --dataset.convert=true to have LeRobot convert a local copy of it (nothing is pushed).",
        )
    return hub.fetch_all(repo_id, revision)


def _read_info(root: Path) -> dict[str, Any]:
    path = root / INFO_PATH
    try:
        info = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(
            f"--dataset.root={root} has no {INFO_PATH}: it is no LeRobot data set.",
            "Point --dataset.root at the folder that holds meta/, data/ and videos/.",
        ) from None
    except (ValueError, OSError) as error:
        raise _damaged(path, error) from error
    if not isinstance(info, dict) or "codebase_version" not in info:
        raise UsageError(f"{path} names no codebase_version.", "Check --dataset.root.")
    return info


def _version(root: Path, info: Mapping[str, Any]) -> packaging.version.Version:
    try:
        return packaging.version.parse(str(info["codebase_version"]))
    except packaging.version.InvalidVersion as error:
        raise _damaged(root / INFO_PATH, error) from error


def _load_info(root: Path) -> DatasetInfo:
    raw = _read_info(root)
    version = _version(root, raw)
    if version.major > packaging.version.parse(CODEBASE_VERSION).major:
        raise UsageError(
            f"{root} is a v{version} data set; this LeRobot reads {CODEBASE_VERSION}.", "Upgrade lerobot to read it."
        )
    known = {field.name for field in dataclasses.fields(DatasetInfo)}
    try:
        # from_dict logs a warning for every field it does not know, which is nobody's fault here
        info = DatasetInfo.from_dict({key: value for key, value in raw.items() if key in known})
        sizes = {key: (feature["dtype"], _size(feature)) for key, feature in info.features.items()}
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise _damaged(root / INFO_PATH, error) from error
    if not info.total_episodes or not sizes:
        raise UsageError(f"The data set in {root} is empty: meta/info.json counts 0 episodes.", "Check --dataset.root.")
    return info


def open_episode(dataset: Recording | LeRobotDataset | LeRobotDatasetMetadata | str | Path, episode: int) -> Episode:
    """Open one episode of a data set given in any of the usual forms.

    Joints come without videos: a missing one raises when its frames are asked for.

    Args:
        dataset: A :class:`Recording`, LeRobot's own data set or metadata, a local folder, or a repository id.
        episode: The episode's index.

    Raises:
        UsageError: See :func:`open_recording` and :meth:`Recording.episode`.
    """
    return _as_recording(dataset).episode(episode)


def _as_recording(dataset: Recording | LeRobotDataset | LeRobotDatasetMetadata | str | Path) -> Recording:
    if isinstance(dataset, Recording):
        return dataset
    if isinstance(dataset, LeRobotDataset | LeRobotDatasetMetadata):
        meta = dataset.meta if isinstance(dataset, LeRobotDataset) else dataset
        root = Path(meta.root)
        on_hub = root.parent.name == "snapshots" and root.is_relative_to(HF_LEROBOT_HUB_CACHE)
        return Recording(root, meta.info, repo_id=meta.repo_id, on_hub=on_hub, need_videos=False)
    if isinstance(dataset, Path) or Path(dataset).is_dir():
        return open_recording(root=dataset, need_videos=False)
    return open_recording(dataset, need_videos=False)
