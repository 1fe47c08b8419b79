"""Which episodes and moments of an evaluation to show, and drawing them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lerobot_diagnostics.camera_names import camera_name
from lerobot_diagnostics.findings import Picture
from lerobot_diagnostics.openloop.evaluate import EpisodeResult
from lerobot_diagnostics.openloop.scores import Side
from lerobot_diagnostics.report.plots import Moment, joint_curves, worst_moments
from lerobot_diagnostics.report.write import file_name

CURVES = "Recorded and predicted"
WORST = "Worst moments"
APART_S = 1.0
"""Worst moments of one episode lie at least this far apart: neighbouring frames are one and the same miss."""


class WorstMoment(NamedTuple):
    """A frame where the prediction is farthest off: the joint farthest off in terms of its range of motion."""

    result: EpisodeResult
    frame: int
    look: int
    joint: int
    error: float
    relative: float


def relative_error(side: Side) -> npt.NDArray[np.float64]:
    """|predicted − recorded| over each joint's range of motion on this side, [T, J]; 0 for joints that do not move."""
    span = np.ptp(side.recorded, axis=0)
    scale = np.divide(1.0, span, out=np.zeros_like(span), where=span > 0)
    return np.asarray(np.nan_to_num(np.abs(side.predicted - side.recorded)) * scale)


def by_error(side: Side) -> list[EpisodeResult]:
    """The side's episodes, largest mean relative error first."""
    error = relative_error(side).mean(axis=1)
    means = [float(error[side.episode_index == r.episode.index].mean()) for r in side.results]
    return [side.results[i] for i in np.argsort(means)[::-1]]


def find_worst_moments(sides: Sequence[Side], count: int, fps: float) -> list[WorstMoment]:
    """The frames with the largest mean relative error over the joints, :data:`APART_S` apart within an episode."""
    moments: list[WorstMoment] = []
    for side in sides:
        relative = relative_error(side)
        offset = 0
        for result in side.results:
            length = len(result.episode)
            own = relative[offset : offset + length]
            signed = (side.predicted - side.recorded)[offset : offset + length]
            offset += length
            total = own.mean(axis=1)
            for _ in range(count):
                frame = int(total.argmax())
                if total[frame] <= 0:
                    break
                joint = int(own[frame].argmax())
                look = max(at for at in result.looks[side.label] if at <= frame)
                moments.append(
                    WorstMoment(result, frame, look, joint, float(signed[frame, joint]), float(total[frame]))
                )
                reach = round(APART_S * fps)
                total[max(frame - reach, 0) : frame + reach + 1] = 0
    return sorted(moments, key=lambda m: m.relative, reverse=True)[:count]


def draw(
    folder: Path, sides: Sequence[Side], names: Sequence[str], units: Sequence[str], fps: float, cameras: Sequence[str]
) -> Iterator[Picture]:
    """Draw the curves of the worst and the median episode of each side, and the worst moments; yield each when done."""
    for side in sides:
        ranked = by_error(side)
        for word, result in {"worst": ranked[0], "median": ranked[len(ranked) // 2]}.items():
            if word == "median" and result is ranked[0]:
                continue
            rows = side.episode_index == result.episode.index
            title = f"Episode {result.episode.index} ({side.name}, {side.label}): the {word} of {len(ranked)}"
            name = file_name("episode", result.episode.index, side.name) + ".png"
            joint_curves(
                folder / name,
                names=names,
                units=units,
                timestamps=result.episode.timestamps,
                recorded=side.recorded[rows],
                predicted=side.predicted[rows],
                chunk_starts=result.looks[side.label] if len(result.looks[side.label]) < len(result.episode) else (),
                held=None if side.hold is None else side.hold[rows],
                title=title,
            )
            yield Picture(name, title, CURVES)
    moments = find_worst_moments(sides, 4, fps)
    shown = []
    for moment in moments:
        frames = {
            camera_name(camera): next(iter(moment.result.episode.frames(camera, [moment.frame]))) for camera in cameras
        }
        after = (
            f"{moment.frame - moment.look} frames after the policy looked" if moment.frame > moment.look else "looking"
        )
        error = f"{moment.error:+.3g} {units[moment.joint]}".rstrip()
        shown.append(
            Moment(
                f"episode {moment.result.episode.index} ({moment.result.side}), frame {moment.frame} "
                f"({moment.frame / fps:.1f} s): {names[moment.joint]} {error}, {after}",
                frames,
            )
        )
    if shown and cameras:
        worst_moments(
            folder / "worst_moments.jpg", shown, title="What the cameras saw where the prediction is farthest off"
        )
        yield Picture("worst_moments.jpg", "The camera frames where the prediction is farthest off.", WORST)
