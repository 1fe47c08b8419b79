"""Frames out of an mp4: in order, each decoded once, nothing decoded that nobody asked for.

PyAV (the FFmpeg in its wheel decodes AV1, which OpenCV's does not) is used directly. The file's packets are first
listed without decoding (6–8 µs a packet), which gives the decoding order, the keyframes and the exact times; then
only the packets between the keyframe before a wanted frame and that frame go through the decoder.

One thread a camera: on two cores a second decoder thread made 640×480 AV1 not faster (1.75 ms a frame alone, 1.74–1.92
threaded) and cost 1.7 times the CPU time that the forward passes need; 256×256 h264 0.21 alone, 0.19–0.21 threaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import av
import numpy as np
from numpy.typing import NDArray

from lerobot_diagnostics.errors import UsageError


@dataclass(frozen=True)
class Packets:
    """The packets of a stretch of video in decoding order.

    ``dts`` ascends; ``pts`` is when the frame is shown; both in ticks of ``time_base`` seconds. ``pts`` of packets that
    the container says not to show are ``-1 << 62``.
    """

    pts: NDArray[Any]
    dts: NDArray[Any]
    keyframe: NDArray[Any]
    time_base: float

    def nearest(self, times_s: Sequence[float] | NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """For each time the packet whose frame is shown nearest to it, and how many seconds later it is shown."""
        times = np.asarray(times_s, dtype=np.float64)
        order = np.argsort(self.pts, kind="stable")
        shown = self.pts[order] * self.time_base
        right = np.clip(np.searchsorted(shown, times), 1, max(len(shown) - 1, 1))
        left = right - 1
        right = np.minimum(right, len(shown) - 1)
        pick = np.where(np.abs(shown[left] - times) <= np.abs(shown[right] - times), left, right)
        return order[pick], shown[pick] - times


class Run(NamedTuple):
    """Packets ``first`` to ``last`` (inclusive, ``first`` a keyframe) are decoded to get the frames of ``wanted``."""

    first: int
    last: int
    wanted: list[int]


def plan(packets: Packets, wanted: Sequence[int]) -> list[Run]:
    """The least decoding that yields the wanted frames in order.

    A run goes on while the next wanted frame's keyframe is in it or directly behind it; else the next run begins at
    that keyframe.

    Args:
        packets: The packets of the video.
        wanted: Positions in ``packets``, ascending in ``pts``.

    Raises:
        ValueError: If no keyframe precedes a wanted frame.
    """
    keys = np.flatnonzero(packets.keyframe)
    runs: list[Run] = []
    for position in wanted:
        # A frame behind a keyframe in decoding order but shown before it leans on the group before (open GOP).
        before = keys[(keys <= position) & (packets.pts[keys] <= packets.pts[position])]
        if not len(before):
            raise ValueError("no keyframe before the frame")
        key = int(before[-1])
        if runs and key <= runs[-1].last + 1:
            first, last, inside = runs[-1]
            runs[-1] = Run(first, max(last, position), [*inside, position] if inside[-1] != position else inside)
        else:
            runs.append(Run(key, position, [position]))
    return runs


@contextmanager
def _open(path: Path) -> Iterator[tuple[Any, Any]]:
    """The container and its video stream, with libav's errors turned into one line."""
    try:
        with av.open(str(path)) as container:
            if not container.streams.video:
                raise UsageError(f"{path} holds no video.", "Restore the file, or check --dataset.root.")
            stream = container.streams.video[0]
            stream.thread_type = "NONE"
            stream.codec_context.thread_count = 1
            yield container, stream
    except FileNotFoundError:
        raise UsageError(
            f"The data set lacks the video {path}.", "Restore the file, or check --dataset.root."
        ) from None
    except av.FFmpegError as error:
        raise UsageError(
            f"The video {path} is damaged: {error.strerror}.",
            "Restore the file, or leave its episodes out of --dataset.episodes.",
        ) from error


def _list_packets(container: Any, stream: Any, start_s: float, stop_s: float) -> Packets:
    """The packets from the keyframe before ``start_s`` to the frame at ``stop_s``, without decoding."""
    tick = float(stream.time_base)
    back_s = 0.0
    while True:
        container.seek(max(round((start_s - back_s) / tick), 0), stream=stream, backward=True)
        rows: list[tuple[int, int, bool]] = []
        for packet in container.demux(stream):
            if packet.dts is None or packet.pts is None:
                continue
            # pts ≥ dts, so nothing shown by stop_s comes behind this one
            if packet.dts * tick > stop_s + 0.5 * tick and rows:
                break
            rows.append((packet.pts if not packet.is_discard else -1 << 62, packet.dts, packet.is_keyframe))
            # Seeking goes by decoding time: with reordered frames it may land behind the frame shown at start_s.
            if len(rows) == 1 and packet.pts * tick > start_s + 0.5 * tick and back_s <= start_s:
                break
        if not rows or rows[0][0] * tick <= start_s + 0.5 * tick or back_s > start_s:
            break
        back_s = max(2 * back_s, 0.5)
    array = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return Packets(array[:, 0], array[:, 1], array[:, 2].astype(bool), tick)


def frame_offsets(path: Path, times_s: Sequence[float] | NDArray[Any]) -> NDArray[Any]:
    """How far the nearest frame of the video lies from each time, in seconds, positive when it is shown later.

    Nothing is decoded. A data set whose video fits its rows has offsets below LeRobot's tolerance of 1e-4 s.

    Raises:
        UsageError: If the video is missing, damaged or empty.
    """
    if not len(times_s):
        return np.zeros(0)
    with _open(path) as (container, stream):
        margin = 1.0  # so that a frame just outside the stretch is seen as the nearest one
        packets = _list_packets(
            container, stream, max(float(np.min(times_s)) - margin, 0), float(np.max(times_s)) + margin
        )
    if not len(packets.pts):
        raise UsageError(f"The video {path} has no frames.", "Restore the file, or check --dataset.root.")
    return packets.nearest(times_s)[1]


def decode(
    path: Path, times_s: Sequence[float] | NDArray[Any], *, tolerance_s: float = 1e-4
) -> Iterator[NDArray[np.uint8]]:
    """Yield the frame shown at each time, ``[H, W, 3]`` uint8 RGB, the pixels of LeRobot's own PyAV reader.

    Args:
        path: The video file.
        times_s: Times in the file, in seconds, ascending; equal ones yield the same array.
        tolerance_s: How far a frame may lie from its time (LeRobot's default).

    Raises:
        UsageError: If the video is missing or damaged, or has no frame within ``tolerance_s`` of a time.
    """
    times = np.asarray(times_s, dtype=np.float64)
    if not len(times):
        return
    with _open(path) as (container, stream):
        packets = _list_packets(container, stream, max(times[0] - tolerance_s, 0), times[-1] + tolerance_s)
        positions, offsets = (
            packets.nearest(times) if len(packets.pts) else (np.zeros(0, int), np.full(len(times), np.inf))
        )
        if (bad := np.flatnonzero(np.abs(offsets) >= tolerance_s)).size:
            at = int(bad[0])
            gap = f"the nearest is {abs(offsets[at]):.4f} s off" if np.isfinite(offsets[at]) else "it ends before"
            raise UsageError(
                f"The video {path} has no frame at {times[at]:.4f} s ({gap}; {bad.size} of {len(times)} frames).",
                "Its time stamps do not fit the data set's rows: restore the video, or record the episode again.",
            )
        try:
            runs = plan(packets, positions.tolist())
        except ValueError as error:
            raise UsageError(f"The video {path} is damaged: {error}.", "Restore the file.") from None
        frames = _decode_runs(container, stream, packets, runs)
        previous, picture = -1, np.empty(0, dtype=np.uint8)
        for position in positions.tolist():
            if position != previous:
                frame = next(frames, None)
                if frame is None or frame.pts != packets.pts[position]:
                    at_s = packets.pts[position] * packets.time_base
                    raise UsageError(
                        f"The video {path} is damaged: its frame at {at_s:.4f} s does not decode.",
                        "Restore the file, or leave its episodes out of --dataset.episodes.",
                    )
                previous, picture = position, frame.to_ndarray(format="rgb24")
            yield picture


def _decode_runs(container: Any, stream: Any, packets: Packets, runs: Sequence[Run]) -> Iterator[Any]:
    """The wanted frames of each run, in the order in which they are shown."""
    context = stream.codec_context
    for run in runs:
        wanted = {int(packets.pts[position]) for position in run.wanted}
        exact = {int(packets.dts[position]) for position in run.wanted}
        first, last = int(packets.dts[run.first]), int(packets.dts[run.last])
        container.seek(first, stream=stream, backward=True)  # flushes the decoder too
        for packet in container.demux(stream):
            if packet.dts is None or packet.dts > last:
                break
            if packet.dts < first:
                continue
            # Nothing leans on these: a frame that nobody wants and that is no reference need not be decoded.
            context.skip_frame = "DEFAULT" if packet.dts in exact else "NONREF"
            yield from (frame for frame in packet.decode() if frame.pts in wanted)
            if packet.dts == last:
                break
        yield from (frame for frame in context.decode(None) if frame.pts in wanted)
