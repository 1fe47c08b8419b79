"""Reference views: what each camera saw in a recording, small enough to travel inside a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.vision.identity import SIDE
from lerobot_diagnostics.vision.images import Picture, checked, shrink

THUMBS = 64
"""Thumbnails a camera, for identity and light. With 24 the worst margin between the cloth twins falls below zero."""
VIEWS = 24
"""Larger views a camera, for geometry: two an episode, so that they also show whether the camera moves within one."""
VIEW_WIDTH = 320
"""Pixels; the fast registration works at this width anyway."""


@dataclass(frozen=True)
class CameraViews:
    """One camera's references.

    Args:
        size: (width, height) of the recorded pictures.
        thumbs: 64 × 64 pictures.
        thumb_episodes: The episode of each thumb.
        views: Larger pictures, at most 320 wide, of the recorded aspect ratio.
        view_episodes: The episode of each view.
        view_states: [V, D] float32 arm state of each view; D = 0 when none was given.
    """

    size: tuple[int, int]
    thumbs: tuple[Picture, ...]
    thumb_episodes: tuple[int, ...]
    views: tuple[Picture, ...]
    view_episodes: tuple[int, ...]
    view_states: NDArray[np.float32]


def is_dead(picture: Picture) -> bool:
    """Black or without any picture: less than 6 grey levels between the 2nd and 98th percentile, or nothing above 12.

    Measured: the darkest of all healthy frames of five data sets, halved in brightness, spans more than 40 levels; the
    black frames of a disconnected camera, decoded from video, span 0.
    """
    small = shrink(picture, SIDE, SIDE).astype(np.float32).mean(axis=2)
    low, high = np.percentile(small, [2, 98])
    return bool(high - low < 6.0 or high < 12.0)


def nearest_states(
    recorded: NDArray[np.floating], live: NDArray[np.floating], count: int = 1
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """The recorded frames whose arm state is nearest to the live one, over all episodes given.

    Args:
        recorded: [N, D] states.
        live: [D] state in the same units and order.
        count: How many frames to return.

    Returns:
        Their indices, nearest first, and distances: root mean square over the joints of the difference divided by
        the joint's recorded range (5th to 95th percentile); a joint that did not move counts by its raw difference.

    Raises:
        UsageError: On shapes that do not fit.
    """
    recorded = np.asarray(recorded, float)
    live = np.asarray(live, float)
    if recorded.ndim != 2 or live.shape != recorded.shape[1:] or not len(recorded):
        raise UsageError(f"states do not fit: recorded {recorded.shape}, live {live.shape}; expected [N, D] and [D].")
    low, high = np.percentile(recorded, [5, 95], axis=0)
    span = np.where(high - low > 1e-6, high - low, 1.0)
    distances = np.sqrt(np.square((recorded - live) / span).mean(axis=1))
    order = np.argsort(distances, kind="stable")[:count]
    return order, distances[order]


def _chosen(episodes: NDArray[np.int64], count: int) -> NDArray[np.intp]:
    """At most ``count`` frames: every episode gets its share, its first frame (where a rollout starts) before
    others."""
    if len(episodes) <= count:
        return np.arange(len(episodes))
    order: list[tuple[float, int]] = []
    for number in np.unique(episodes):
        frames = np.flatnonzero(episodes == number)
        # Van der Corput sequence: the first frame, the middle, the quarters, …: any prefix covers the episode evenly.
        ranked = sorted((_bit_reversed_rank(k, len(frames)), int(frame)) for k, frame in enumerate(frames))
        order += [(place, frame) for place, (_, frame) in enumerate(ranked)]
    return np.sort(np.array([frame for _, frame in sorted(order)[:count]], dtype=np.intp))


def _bit_reversed_rank(k: int, n: int) -> int:
    """Position of frame k of n in the van der Corput order: 0, n/2, n/4, 3n/4, …"""
    bits = max(1, (n - 1).bit_length())
    scaled = k * (1 << bits) // n
    return int(format(scaled, f"0{bits}b")[::-1], 2)


@dataclass(frozen=True)
class ReferenceViews:
    """What every camera saw. Build it from frames, or load it from :meth:`arrays`."""

    cameras: Mapping[str, CameraViews]

    @classmethod
    def build(
        cls,
        frames: Mapping[str, Sequence[Picture]],
        *,
        states: NDArray[np.floating] | None = None,
        episodes: Sequence[int] | None = None,
    ) -> ReferenceViews:
        """Choose and shrink references.

        Args:
            frames: {camera: N pictures [H, W, 3] uint8 RGB}. A few dozen, spread over the episodes and containing each
                episode's first frame, are enough. Dead pictures are left out.
            states: [N, D] arm states of the frames (every camera then has the same N).
            episodes: [N] episode of each frame; without it all count as one, and the self-test cannot run.

        Raises:
            UsageError: On no cameras, a camera without a usable frame, or lengths that differ.
        """
        if not frames:
            raise UsageError("no reference cameras given.", "Choose a data set with videos or images.")
        return cls({name: _camera_views(name, pictures, states, episodes) for name, pictures in frames.items()})

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Plain arrays under ``"<camera>/<field>"`` keys, for safetensors or npz; pictures as JPEG bytes, < 1 MB a
        camera."""
        result: dict[str, NDArray[np.generic]] = {}
        for name, views in self.cameras.items():
            thumb_bytes, thumb_lengths = _packed(views.thumbs)
            view_bytes, view_lengths = _packed(views.views)
            result |= {
                f"{name}/size": np.array(views.size, np.int32),
                f"{name}/thumb_jpeg": thumb_bytes,
                f"{name}/thumb_lengths": thumb_lengths,
                f"{name}/thumb_episodes": np.array(views.thumb_episodes, np.int32),
                f"{name}/view_jpeg": view_bytes,
                f"{name}/view_lengths": view_lengths,
                f"{name}/view_episodes": np.array(views.view_episodes, np.int32),
                f"{name}/view_states": views.view_states,
            }
        return result

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[np.generic]]) -> ReferenceViews:
        """Inverse of :meth:`arrays`.

        Raises:
            UsageError: When fields are missing.
        """
        names = [key.removesuffix("/size") for key in arrays if key.endswith("/size")]
        try:
            cameras = {
                name: CameraViews(
                    size=(int(arrays[f"{name}/size"][0]), int(arrays[f"{name}/size"][1])),
                    thumbs=_unpacked(arrays[f"{name}/thumb_jpeg"], arrays[f"{name}/thumb_lengths"]),
                    thumb_episodes=tuple(int(e) for e in arrays[f"{name}/thumb_episodes"]),
                    views=_unpacked(arrays[f"{name}/view_jpeg"], arrays[f"{name}/view_lengths"]),
                    view_episodes=tuple(int(e) for e in arrays[f"{name}/view_episodes"]),
                    view_states=np.asarray(arrays[f"{name}/view_states"], np.float32),
                )
                for name in names
            }
        except KeyError as error:
            raise UsageError(f"stored reference views lack {error}.", "Build them again from the data set.") from None
        if not cameras:
            raise UsageError("stored reference views hold no camera.", "Build them again from the data set.")
        return cls(cameras)


def _camera_views(
    name: str,
    pictures: Sequence[Picture],
    states: NDArray[np.floating] | None,
    episodes: Sequence[int] | None,
) -> CameraViews:
    count = len(pictures)
    numbers = np.zeros(count, np.int64) if episodes is None else np.asarray(episodes, np.int64)
    poses = np.zeros((count, 0), np.float32) if states is None else np.asarray(states, np.float32)
    if len(numbers) != count or len(poses) != count:
        raise UsageError(
            f"camera {name}: {count} frames, {len(numbers)} episodes, {len(poses)} states: lengths differ."
        )
    alive = np.array(
        [k for k in range(count) if not is_dead(checked(pictures[k], f"reference of {name}"))], dtype=np.intp
    )
    if not len(alive):
        raise UsageError(f"camera {name}: every reference picture is black.", "Choose episodes in which it works.")
    numbers, poses = numbers[alive], poses[alive]
    height, width = pictures[alive[0]].shape[:2]
    if any(pictures[k].shape[:2] != (height, width) for k in alive):
        raise UsageError(f"camera {name}: the reference pictures differ in size.")
    view_width = min(VIEW_WIDTH, width)
    view_height = max(1, round(height * view_width / width))
    distinct = np.unique(numbers)
    kept = distinct[np.linspace(0, len(distinct) - 1, min(len(distinct), VIEWS // 2)).round().astype(int)]
    among = np.flatnonzero(np.isin(numbers, kept))
    thumbs, views = _chosen(numbers, THUMBS), among[_chosen(numbers[among], VIEWS)]
    return CameraViews(
        size=(width, height),
        thumbs=tuple(shrink(pictures[alive[k]], SIDE, SIDE) for k in thumbs),
        thumb_episodes=tuple(numbers[thumbs].tolist()),
        views=tuple(shrink(pictures[alive[k]], view_width, view_height) for k in views),
        view_episodes=tuple(numbers[views].tolist()),
        view_states=poses[views],
    )


def _packed(pictures: Sequence[Picture]) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    parts = [
        cv2.imencode(".jpg", picture[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 92])[1].reshape(-1) for picture in pictures
    ]
    return np.concatenate(parts), np.array([len(p) for p in parts], np.int32)


def _unpacked(data: NDArray[np.generic], lengths: NDArray[np.generic]) -> tuple[Picture, ...]:
    parts = np.split(np.asarray(data, np.uint8), np.cumsum(np.asarray(lengths, np.int64))[:-1])
    decoded = [cv2.imdecode(part, cv2.IMREAD_COLOR) for part in parts]
    if any(picture is None for picture in decoded):
        raise UsageError("stored reference views are damaged.", "Build them again from the data set.")
    return tuple(np.ascontiguousarray(np.asarray(picture, np.uint8)[..., ::-1]) for picture in decoded)
