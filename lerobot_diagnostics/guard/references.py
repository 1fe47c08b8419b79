"""Reference views out of a recorded data set, by the policy's camera names."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from lerobot_diagnostics.camera_names import camera_name
from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.recording import Recording
from lerobot_diagnostics.vision import ReferenceViews

EPISODES = 32
"""Read at most, evenly spread. The references keep 64 thumbnails a camera: two an episode."""
FRAMES = 64
"""Read a camera, at most 8 an episode."""


def match_cameras(
    recorded: Sequence[str], rename_map: Mapping[str, str], wanted: Collection[str] | None = None
) -> dict[str, str]:
    """``{camera name of the policy: data set key}``.

    Args:
        recorded: The data set's picture keys.
        rename_map: Data set key → policy key.
        wanted: The policy's picture keys; all by default.

    Raises:
        UsageError: When none of the policy's keys was recorded.
    """
    renamed = {rename_map.get(key, key): key for key in recorded}
    chosen = {camera_name(key): old for key, old in renamed.items() if wanted is None or key in wanted}
    if not chosen:
        raise UsageError(
            f"the data set has {', '.join(recorded) or 'no pictures'}; the policy takes {', '.join(wanted or ())}.",
            'Pass --rename_map=\'{"<data set key>": "<policy key>"}\'.',
        )
    return chosen


def build_references(
    recording: Recording, cameras: Mapping[str, str], episodes: Sequence[int] | None = None
) -> ReferenceViews:
    """Read frames spread over a recording's episodes, each from its first frame on.

    Args:
        recording: The data set.
        cameras: From :func:`match_cameras`.
        episodes: Which to read; all by default, at most :data:`EPISODES` of them.

    Raises:
        UsageError: When frames cannot be read or a camera is black throughout.
    """
    numbers = list(recording.episode_indices if episodes is None else episodes)
    if not numbers:
        raise UsageError("--dataset.episodes=[] names no episode.", "Leave it out for all.")
    kept = [
        numbers[i] for i in np.unique(np.linspace(0, len(numbers) - 1, min(EPISODES, len(numbers))).round().astype(int))
    ]
    each = max(2, min(8, FRAMES // len(kept)))
    frames: dict[str, list[NDArray[np.uint8]]] = {name: [] for name in cameras}
    states, owners = [], []
    for number in kept:
        episode = recording.episode(number)
        index = np.unique(np.linspace(0, len(episode), each, endpoint=False).astype(int))
        for name, key in cameras.items():
            frames[name] += list(episode.frames(key, index))
        states.append(episode.states[index])
        owners += [number] * len(index)
    return ReferenceViews.build(frames, states=np.concatenate(states), episodes=owners)
