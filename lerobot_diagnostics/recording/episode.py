"""One recorded episode: its arrays at once, its pictures on demand."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from PIL import Image

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.recording import tables, video

if TYPE_CHECKING:
    from lerobot_diagnostics.recording.dataset import Recording

ACTION, STATE = "action", "observation.state"
NUMERIC = ("float", "int", "uint", "bool")


class Episode:
    """One episode of a :class:`~lerobot_diagnostics.recording.dataset.Recording`. Made by ``recording.episode(i)``.

    Attributes:
        recording: The data set it belongs to.
        index: Its episode index.
        length: Its number of frames, T.
        row: Its row of ``meta/episodes`` without ``stats/*``.
    """

    def __init__(self, recording: Recording, index: int, row: Mapping[str, Any]) -> None:
        self.recording = recording
        self.index = index
        self.row = row
        self.length = int(row["length"])

    def __repr__(self) -> str:
        return f"Episode({self.recording.label}, {self.index}, {self.length} frames)"

    def __len__(self) -> int:
        return self.length

    # The arrays are read together when the first is asked for: they lie in the same row groups.
    @cached_property
    def _arrays(self) -> dict[str, NDArray[Any]]:
        features = self.recording.features
        keys = [key for key, feature in features.items() if str(feature["dtype"]).startswith(NUMERIC)]
        parts = list(tables.iter_rows(self.data_path, self.index, keys))
        rows = sum(len(part) for part in parts)
        if rows != self.length:
            raise UsageError(
                f"{self.data_path} holds {rows} of the {self.length} rows of episode {self.index}.",
                "The data set is inconsistent: restore it, or check --dataset.root.",
            )
        table = pa.concat_tables(parts)
        arrays = {}
        for key in keys:
            try:
                arrays[key] = tables.to_array(table[key], features[key]["shape"])
            except ValueError as error:
                raise UsageError(f"{self.data_path}: the column {key} {error}.", "Check --dataset.root.") from None
        return arrays

    def column(self, key: str) -> NDArray[Any]:
        """A numeric feature of the data set, ``[T, *shape]`` or ``[T]`` for scalars, in the stored dtype.

        Raises:
            KeyError: If the data set has no such numeric feature; the message lists them.
        """
        if key not in self._arrays:
            raise KeyError(f"no numeric feature {key!r}; there are: {', '.join(sorted(self._arrays))}")
        return self._arrays[key]

    def _vectors(self, key: str) -> NDArray[Any]:
        if key not in self.recording.features:
            return np.zeros((self.length, 0), dtype=np.float32)
        return self.column(key).reshape(self.length, -1)

    @property
    def states(self) -> NDArray[Any]:
        """``observation.state``, ``[T, J]``, in the data set's units; ``[T, 0]`` where it was not recorded."""
        return self._vectors(STATE)

    @property
    def actions(self) -> NDArray[Any]:
        """``action``, ``[T, J]``, in the data set's units; ``[T, 0]`` where it was not recorded."""
        return self._vectors(ACTION)

    @property
    def timestamps(self) -> NDArray[Any]:
        """Seconds since the episode's start, ``[T]`` float64."""
        return self.column("timestamp").reshape(self.length).astype(np.float64)

    @property
    def names(self) -> tuple[str, ...]:
        """The joint names of ``actions``; see :attr:`Recording.action_names`."""
        return self.recording.action_names

    @property
    def state_names(self) -> tuple[str, ...]:
        """The joint names of ``states``; see :attr:`Recording.state_names`."""
        return self.recording.state_names

    @property
    def fps(self) -> float:
        """Frames per second of the data set."""
        return self.recording.fps

    @property
    def task(self) -> str:
        """The task at the episode's first frame, as LeRobot's data loader gives it; empty where there is none."""
        return self.tasks[0] if self.length and self.tasks else ""

    @cached_property
    def tasks(self) -> list[str]:
        """The task of each frame; empty where the data set has none."""
        known = self.recording.tasks
        if not known or "task_index" not in self.recording.features:
            return []
        indices = self.column("task_index").reshape(-1)
        if indices.max(initial=0) >= len(known) or indices.min(initial=0) < 0:
            raise UsageError(
                f"Episode {self.index} has task {indices.max()} and meta/tasks.parquet lists {len(known)}.",
                "The data set is inconsistent: restore it, or check --dataset.root.",
            )
        return [known[int(i)] for i in indices]

    @cached_property
    def data_path(self) -> Path:
        """The parquet file that holds the episode's rows, fetched first if the data set is on the Hub."""
        return self.recording.file(self._format(self.recording.info.data_path, "data"))

    def video_path(self, camera: str) -> Path:
        """The mp4 that holds the camera's frames, fetched first if the data set is on the Hub.

        Raises:
            UsageError: If ``meta/episodes`` does not say which, or the file is missing.
        """
        return self.recording.file(self._video_name(camera))

    def has_videos(self, camera: str) -> bool:
        """Whether the camera's pictures are here, without fetching them: its mp4, or images in the rows."""
        self._check_camera(camera)
        return camera in self.recording.image_cameras or (self.recording.root / self._video_name(camera)).is_file()

    def _video_name(self, camera: str) -> str:
        template = self.recording.info.video_path
        if template is None:
            raise UsageError(f"{self.recording.label} names no video_path in meta/info.json.", "Check --dataset.root.")
        return self._format(template, f"videos/{camera}", video_key=camera)

    def _format(self, template: str, prefix: str, **extra: str) -> str:
        chunk, file = (self.row.get(f"{prefix}/{part}_index") for part in ("chunk", "file"))
        if chunk is None or file is None:
            raise UsageError(
                f"meta/episodes of {self.recording.label} does not say which file holds {prefix} of episode "
                f"{self.index}.",
                "The data set is inconsistent: restore it, or check --dataset.root.",
            )
        try:
            return template.format(chunk_index=int(chunk), file_index=int(file), **extra)
        except (KeyError, ValueError, IndexError):
            raise UsageError(
                f"meta/info.json of {self.recording.label} has {template!r} as a path, which is not v3.0.",
                "Check --dataset.root.",
            ) from None

    def _check_camera(self, camera: str) -> None:
        if camera not in self.recording.cameras:
            there = ", ".join(self.recording.cameras) or "none"
            raise UsageError(f"{self.recording.label} has no camera {camera!r}; there are: {there}.")

    def _video_times(self, camera: str, indices: NDArray[Any]) -> NDArray[Any]:
        start = self.row.get(f"videos/{camera}/from_timestamp")
        if start is None:
            raise UsageError(
                f"meta/episodes of {self.recording.label} does not say where episode {self.index} begins in {camera}.",
                "The data set is inconsistent: restore it, or check --dataset.root.",
            )
        times: NDArray[Any] = float(start) + self.timestamps[indices]
        return times

    def frame_offsets(self, camera: str) -> NDArray[Any]:
        """How far each frame's picture lies from its time stamp, ``[T]`` seconds; nothing is decoded.

        Positive when the picture is shown later. Zero for images stored in the parquet rows. Where a value reaches
        ``recording.tolerance_s``, the video does not fit the rows and :meth:`frames` refuses.

        Raises:
            UsageError: If the camera does not exist, or the video is missing or damaged.
        """
        self._check_camera(camera)
        if camera in self.recording.image_cameras:
            return np.zeros(self.length)
        return video.frame_offsets(self.video_path(camera), self._video_times(camera, np.arange(self.length)))

    def frames(self, camera: str, indices: Sequence[int] | NDArray[Any] | None = None) -> Iterator[NDArray[np.uint8]]:
        """Yield the camera's pictures, ``[H, W, 3]`` uint8 RGB, one for each index, in the order asked for.

        Ascending indices are one pass over the file in which only what they need is decoded, each frame once; a
        descending step starts another pass. One picture is in memory at a time.

        Args:
            camera: The feature's key, e.g. ``observation.images.front``.
            indices: Frames of the episode, 0 to T−1; all by default.

        Raises:
            IndexError: If an index is not in the episode.
            UsageError: If the camera does not exist, its file is missing or damaged, or the video has no frame within
                ``recording.tolerance_s`` of a time stamp.
        """
        self._check_camera(camera)
        wanted = np.arange(self.length) if indices is None else np.asarray(indices, dtype=np.int64).reshape(-1)
        if wanted.size and (wanted.min() < 0 or wanted.max() >= self.length):
            raise IndexError(f"frames {wanted.min()} to {wanted.max()} asked of an episode of {self.length}")
        falls = np.flatnonzero(np.diff(wanted) < 0) + 1
        if camera in self.recording.image_cameras:
            return (picture for run in np.split(wanted, falls) for picture in self._images(camera, run))
        path, tolerance_s = self.video_path(camera), self.recording.tolerance_s
        times = np.split(self._video_times(camera, wanted), falls)
        return (picture for run in times for picture in video.decode(path, run, tolerance_s=tolerance_s))

    def _images(self, camera: str, wanted: NDArray[Any]) -> Iterator[NDArray[np.uint8]]:
        """Pictures of ascending indices out of the parquet rows."""
        start = 0
        # 16 pictures at a time: 16 raw 640×480 PNG cells stay below 16 MB
        for table in tables.iter_rows(self.data_path, self.index, [camera], batch_size=16):
            cells = table[camera].combine_chunks()
            for index in wanted[(wanted >= start) & (wanted < start + len(table))]:
                cell = cells[int(index) - start].as_py() or {}
                try:
                    with Image.open(io.BytesIO(cell.get("bytes") or b"")) as picture:
                        array = np.array(picture.convert("RGB"))
                except OSError:
                    raise UsageError(
                        f"{self.data_path} holds no readable picture of {camera} at frame {index} of episode "
                        f"{self.index}.",
                        "Restore the file, or leave the episode out of --dataset.episodes.",
                    ) from None
                yield array
            start += len(table)
            if not wanted.size or start > wanted[-1]:
                return
