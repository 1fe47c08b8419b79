"""Live views against recorded ones, at the arm's present pose: which camera, how far moved, light, workspace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from lerobot_diagnostics.camera_names import camera_name
from lerobot_diagnostics.diagnose.ladder import Outcome
from lerobot_diagnostics.findings import Cause, Finding, Status
from lerobot_diagnostics.findings import Picture as Shown
from lerobot_diagnostics.openloop.scores import spread
from lerobot_diagnostics.recording import Recording
from lerobot_diagnostics.recording.names import match
from lerobot_diagnostics.report.write import file_name
from lerobot_diagnostics.vision import (
    Comparer,
    ReferenceViews,
    background_of,
    compare_workspace,
    is_dead,
    nearest_states,
)

Picture = NDArray[np.uint8]

EPISODES, FRAMES = 12, 8
"""Reference episodes, and frames of each: identity needs 64 pictures a camera (``vision.references``). The workspace is
compared at the moment of each that is nearest to the live pose: objects stand elsewhere in each."""

BACKGROUND = 36
"""Pictures that the background is told from, of all that were read: a third of them, in a third of the time."""

SAME_POSE = 0.05
"""Distance to the nearest recorded state, over each joint's range, up to which pictures are taken at one pose: beyond
it the arm itself is what differs. STS3215 servos stand 2–3° off a range of 100°."""


class References(NamedTuple):
    """What was recorded, as far as it is compared.

    Attributes:
        views: For :class:`~lerobot_diagnostics.vision.Comparer`.
        at_pose: ``{camera: pictures}`` at the recorded states nearest to the live one, nearest first.
        spread: ``{camera: pictures}`` over the whole recording, for the background.
        distance: Of the nearest recorded state; NaN without states.
        episode, frame: Where it is.
    """

    views: ReferenceViews
    at_pose: Mapping[str, Sequence[Picture]]
    spread: Mapping[str, Sequence[Picture]]
    distance: float
    episode: int
    frame: int


def live_state(recording: Recording, joints: Mapping[str, float]) -> NDArray[np.float64] | None:
    """The live joint values in the order of the recorded states; None where a joint is missing on either side."""
    found = match(recording.state_names, list(joints))
    values = [joints[name] for name in found.values() if name is not None]
    return np.array(values) if values and len(values) == len(recording.state_names) else None


def read_references(
    recording: Recording, episodes: Sequence[int], cameras: Sequence[str], state: NDArray[np.float64] | None
) -> References:
    """Read reference pictures spread over the recording, and those at the states nearest to ``state``.

    Args:
        recording: The data set.
        episodes: That may be used.
        cameras: Keys of the recorded cameras.
        state: ``[J]`` live state in the recorded units; None where it cannot be compared.
    """
    chosen = [recording.episode(index) for index in spread(list(episodes), EPISODES)]
    short = {camera: camera_name(camera) for camera in cameras}
    pictures: dict[str, list[Picture]] = {name: [] for name in short.values()}
    states, numbers = [], []
    for episode in chosen:
        frames = np.unique(np.linspace(0, len(episode) - 1, FRAMES).astype(int))
        for camera in cameras:
            pictures[short[camera]] += list(episode.frames(camera, frames))
        states.append(episode.states[frames])
        numbers += [episode.index] * len(frames)
    everything = np.concatenate(states)
    at_pose: dict[str, list[Picture]] = {name: [] for name in short.values()}
    distance, where = float("nan"), (chosen[0].index, 0)
    if state is not None and everything.shape[1] == len(state):
        rows = np.concatenate([e.states for e in chosen])
        owner = np.concatenate([[i] * len(e) for i, e in enumerate(chosen)])
        offset = np.concatenate([np.arange(len(e)) for e in chosen])
        order, distances = nearest_states(rows, state, len(rows))
        best = np.sort(np.unique(owner[order], return_index=True)[1])  # the nearest moment of each episode
        distance = float(distances[0])
        best = best[distances[best] <= max(distance, SAME_POSE)]
        where = (chosen[owner[order[0]]].index, int(offset[order[0]]))
        for row in order[best]:
            for camera in cameras:
                at_pose[short[camera]] += list(chosen[owner[row]].frames(camera, [int(offset[row])]))
            numbers.append(chosen[owner[row]].index)
        for name in short.values():
            pictures[name] += at_pose[name]
        everything = np.concatenate([everything, rows[order[best]]])
    alive = {c: p for c, p in pictures.items() if not all(map(is_dead, p))}
    views = ReferenceViews.build(alive, states=everything, episodes=numbers)
    return References(views, at_pose, pictures, distance, *where)


def judge_views(
    live: Mapping[str, Picture | Sequence[Picture]],
    references: References,
    state: NDArray[np.float64] | None,
    output_dir: Path | None = None,
) -> Outcome:
    """Compare live pictures with recorded ones.

    Args:
        live: By the recorded camera's name; one picture or several, oldest first.
        references: From :func:`read_references`.
        state: Live state, where it is in the recorded units.
        output_dir: Where to draw live, recorded and both over each other; nowhere without.
    """
    comparer = Comparer(references.views)
    findings = comparer.compare(live, state=state, moving=False)
    last = {name: p if isinstance(p, np.ndarray) else p[-1] for name, p in live.items()}
    wrong = {f.subject for f in findings if f.status is Status.FAIL or f.code == "UNDECIDED"}
    right = [name for name in references.views.cameras if name in last and name not in wrong]
    near = references.distance <= SAME_POSE
    if near and right:
        backgrounds = {name: background_of(spread(references.spread[name], BACKGROUND)) for name in right}
        said = compare_workspace(
            {name: last[name] for name in right}, {name: references.at_pose[name] for name in right}, backgrounds
        )
        findings += [f for f in said if f.code != "MOVED"]  # the views have said that
    elif right:
        summary = (
            "Whether objects or base were moved shows only at a recorded pose; the nearest is "
            f"{100 * references.distance:.0f} % of the joints' range away."
            if np.isfinite(references.distance)
            else "Whether objects or base were moved shows only at a recorded pose, and the arm's is not known."
        )
        fix = f"Bring the arm to where episode {references.episode} starts (lerobot-rollout --strategy.type=align)."
        findings.append(Finding("OBJECT_MOVED", Status.UNKNOWN, Cause.WORKSPACE, "workspace", summary, {}, fix))
    shown = []
    if output_dir is not None:
        for name, picture in last.items():
            recorded = [*references.at_pose.get(name, ()), *references.spread.get(name, ())]
            if recorded:
                shown.append(_draw(output_dir, name, picture, recorded[0], references))
    results: dict[str, Any] = {
        "pose_distance_over_range": references.distance, "episode": references.episode, "frame": references.frame,
    }  # fmt: skip
    return Outcome(findings, pictures=shown, results=results)


def _draw(folder: Path, name: str, live: Picture, recorded: Picture, references: References) -> Shown:
    """Live, recorded and both over each other, side by side."""
    height, width = recorded.shape[:2]
    small = np.asarray(Image.fromarray(live).resize((width, height)))
    both = (small.astype(np.uint16) + recorded) // 2
    path = f"view_{file_name(name)}.png"
    Image.fromarray(np.concatenate([small, recorded, both.astype(np.uint8)], axis=1)).save(folder / path)
    caption = f"{name}: live, recorded (episode {references.episode}, frame {references.frame}), both"
    return Shown(path, caption, "Views")
