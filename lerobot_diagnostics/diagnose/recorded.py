"""Recorded pictures: is every camera alive and moving in every episode, and does the video fit the rows?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Cause, Finding, Status
from lerobot_diagnostics.recording import Episode, Recording
from lerobot_diagnostics.recording.dataset import spans
from lerobot_diagnostics.vision import is_dead
from lerobot_diagnostics.vision.images import shrink

Picture = NDArray[np.uint8]

SAMPLES = 5
"""Pictures an episode: first, last and three between."""

SAME = 2
"""Grey levels by which two pictures (64 × 64) may differ and still be one: a codec's rounding. Two moments of a real
camera differ by more through noise alone, those of a simulated one wherever anything moves."""

MOVED = 0.1
"""Share of a joint's range between two pictures in which the arm certainly moved."""


@dataclass(frozen=True)
class Sample:
    """Some moments of one episode.

    Args:
        states: ``[N, J]`` of these moments, over the joints' range.
        pictures: N pictures by camera.
    """

    states: NDArray[np.float64]
    pictures: Mapping[str, Sequence[Picture]]


def sample(episode: Episode, cameras: Sequence[str], span: NDArray[np.float64]) -> Sample:
    """Read :data:`SAMPLES` moments of an episode.

    Args:
        episode: The episode.
        cameras: Cameras whose files are there.
        span: ``[J]`` range of each joint in the data set.

    Raises:
        UsageError: When a picture cannot be read.
    """
    frames = np.unique(np.linspace(0, len(episode) - 1, SAMPLES).round().astype(int))
    pictures = {camera: list(episode.frames(camera, frames)) for camera in cameras}
    return Sample(episode.states[frames].astype(np.float64) / np.maximum(span, 1e-12), pictures)


def judge_pictures(samples: Mapping[int, Sample], used: Sequence[int] | None = None) -> list[Finding]:
    """DEAD and FROZEN: recorded cameras that were black, or showed one picture while the arm moved.

    Args:
        samples: By episode.
        used: Episodes that training was given, where known: a fault elsewhere is only worth knowing.
    """
    cameras = list(next(iter(samples.values())).pictures) if samples else []
    found = []
    for camera in cameras:
        dead = {e: sum(map(is_dead, s.pictures[camera])) for e, s in samples.items()}
        frozen = [e for e, s in samples.items() if not dead[e] and _frozen(s.states, s.pictures[camera])]
        black = [e for e in samples if dead[e] == len(samples[e].pictures[camera])]
        partly = [e for e in samples if dead[e] and e not in black]
        short = camera.rpartition(".")[2]
        for code, episodes, what in (
            ("DEAD", black, "is black"),
            ("DEAD", partly, "is black in part of the pictures"),
            ("FROZEN", frozen, "shows the same picture while the arm moves"),
        ):
            if not episodes:
                continue
            concerned = episodes if used is None else [e for e in episodes if e in used]
            status = Status.FAIL if concerned else Status.WARN
            aside = "" if concerned else " (training was not given them)"
            many = "episode" if len(episodes) == 1 else "episodes"
            summary = f"Recorded camera {short} {what} in {many} {spans(episodes)} of {len(samples)} looked at{aside}."
            fix = f"Leave {many} {spans(episodes)} out of training (--dataset.episodes), or record again."
            evidence = {"episodes": episodes, "looked_at": len(samples), "pictures_an_episode": SAMPLES}
            found.append(Finding(code, status, Cause.DATA, f"recorded {short}", summary, evidence, fix))
    for code, said in (("DEAD", "No recorded camera is black"), ("FROZEN", "No recorded camera stands still")):
        if cameras and not any(f.code == code for f in found):
            summary = f"{said} in {len(samples)} episodes looked at ({SAMPLES} pictures each)."
            found.append(Finding(code, Status.PASS, Cause.DATA, "recorded cameras", summary))
    return found


def _frozen(states: NDArray[np.float64], pictures: Sequence[Picture]) -> bool:
    """Whether all pictures are one although the arm moved between them."""
    small = [shrink(p, 64, 64).astype(np.int16) for p in pictures]
    moved = [np.abs(b - a).max(initial=0.0) > MOVED for a, b in pairwise(states)]
    same = [np.abs(b - a).max() <= SAME for a, b in pairwise(small)]
    return sum(moved) >= 2 and all(s for s, m in zip(same, moved, strict=True) if m)


def judge_alignment(recording: Recording, episodes: Sequence[Episode], cameras: Sequence[str]) -> list[Finding]:
    """MISALIGNED: does every row have a video frame at its time stamp? Reads the video's index, decodes nothing.

    Args:
        recording: Its ``tolerance_s`` is LeRobot's own limit.
        episodes: To look at.
        cameras: Video cameras whose files are there.
    """
    worst: dict[str, tuple[float, int]] = {}
    unread = []
    for episode in episodes:
        for camera in cameras:
            try:
                offset = float(np.abs(episode.frame_offsets(camera)).max(initial=0.0))
            except UsageError as error:
                unread.append((camera, episode.index, error))
                continue
            if offset >= worst.get(camera, (-1.0, 0))[0]:
                worst[camera] = (offset, episode.index)
    found = []
    for camera, index, why in unread[:1]:
        summary = f"Video of {camera}, episode {index}, cannot be read: {why.message}"
        found.append(
            Finding("MISSING_FILES", Status.FAIL, Cause.DATA, camera, summary, {"unreadable": len(unread)}, why.fix)
        )
    limit = recording.tolerance_s
    for camera, (offset, index) in worst.items():
        if offset < limit:
            continue
        summary = (
            f"{camera}: in episode {index} the video is up to {1000 * offset:.0f} ms off the rows' time stamps "
            f"(LeRobot refuses {1000 * limit:g} ms)."
        )
        fix = "Repair from_timestamp in meta/episodes, or the timestamp column; do not raise tolerance_s over it."
        evidence = {"offset_ms": 1000 * offset, "episode": index}
        found.append(Finding("MISALIGNED", Status.FAIL, Cause.DATA, camera, summary, evidence, fix))
    if worst and not any(f.code == "MISALIGNED" for f in found):
        largest = max(offset for offset, _ in worst.values())
        summary = f"Every row has its video frame (worst {1e3 * largest:.2g} ms, {len(episodes)} episodes)."
        found.append(Finding("MISALIGNED", Status.PASS, Cause.DATA, "videos", summary))
    return found
