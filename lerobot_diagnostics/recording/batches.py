"""Pictures of many episodes in batches, decoded in the background while the caller computes."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lerobot_diagnostics.recording.episode import Episode


class FrameBatch(NamedTuple):
    """Up to ``batch_size`` moments, in the order asked for. A batch may span episodes.

    Attributes:
        episodes: The episode of each moment, B long.
        indices: The frame of each moment in its episode, ``[B]`` int.
        images: For each camera ``[B, H, W, 3]`` uint8 RGB.
    """

    episodes: list[Episode]
    indices: NDArray[Any]
    images: dict[str, NDArray[np.uint8]]


def frame_batches(
    requests: Iterable[tuple[Episode, Sequence[int] | NDArray[Any]]],
    cameras: Sequence[str],
    *,
    batch_size: int,
    prefetch: int = 2,
) -> Iterator[FrameBatch]:
    """Yield the pictures of all cameras at the asked frames, decoding ahead in background threads.

    One thread a camera; the decoder and the colour conversion run outside the interpreter lock. At most
    ``prefetch`` + 2 batches are in memory (waiting, being decoded, with the caller), whatever the number of episodes;
    ``requests`` is drawn lazily. Closing the generator ends the threads.

    Args:
        requests: Pairs of an episode and the frames wanted of it, ascending for one decoding pass each.
        cameras: Keys of the cameras; none yields empty ``images``.
        batch_size: Moments in a batch; the last may be smaller.
        prefetch: Batches that may wait decoded.

    Raises:
        UsageError, IndexError: See :meth:`Episode.frames`; raised where the batch would have come.
    """
    done = object()
    ready: queue.Queue[object] = queue.Queue(maxsize=prefetch)
    stop = threading.Event()

    def put(item: object) -> bool:
        while not stop.is_set():
            try:
                ready.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def produce() -> None:
        try:
            for batch in _decode(requests, cameras, batch_size):
                if not put(batch):
                    return
            put(done)
        except BaseException as error:  # handed to the caller's thread, whatever it is
            put(error)

    thread = threading.Thread(target=produce, name="frame_batches", daemon=True)
    thread.start()
    try:
        while (item := ready.get()) is not done:
            if isinstance(item, BaseException):
                raise item
            assert isinstance(item, FrameBatch)
            yield item
    finally:
        stop.set()
        thread.join()


def _decode(
    requests: Iterable[tuple[Episode, Sequence[int] | NDArray[Any]]], cameras: Sequence[str], batch_size: int
) -> Iterator[FrameBatch]:
    episodes: list[Episode] = []
    indices: list[int] = []
    images: dict[str, list[NDArray[np.uint8]]] = {camera: [] for camera in cameras}

    def batch() -> FrameBatch:
        pictures = {camera: np.stack(frames) for camera, frames in images.items()}
        full = FrameBatch(list(episodes), np.array(indices, dtype=np.int64), pictures)
        episodes.clear()
        indices.clear()
        for frames in images.values():
            frames.clear()
        return full

    with ThreadPoolExecutor(max_workers=max(len(cameras), 1)) as pool:
        for episode, wanted in requests:
            streams = {camera: episode.frames(camera, wanted) for camera in cameras}
            left = [int(index) for index in wanted]
            while left:
                now, left = left[: batch_size - len(indices)], left[batch_size - len(indices) :]
                work = {camera: pool.submit(list, islice(stream, len(now))) for camera, stream in streams.items()}
                for camera, frames in work.items():
                    images[camera] += frames.result()
                episodes += [episode] * len(now)
                indices += now
                if len(indices) == batch_size:
                    yield batch()
    if indices:
        yield batch()
