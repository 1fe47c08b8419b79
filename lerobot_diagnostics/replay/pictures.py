"""Live and recorded pictures of the same instants: which belong together, what they show, and where the view moved."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from lerobot_diagnostics.align.overlay import like, overlay
from lerobot_diagnostics.camera_names import camera_name
from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Cause, Finding, Status, Table
from lerobot_diagnostics.findings import Picture as ReportPicture
from lerobot_diagnostics.recording import Episode, Recording
from lerobot_diagnostics.recording.names import is_gripper
from lerobot_diagnostics.replay.plan import Plan
from lerobot_diagnostics.report.format import hundredths
from lerobot_diagnostics.report.write import atomic_file, file_name
from lerobot_diagnostics.vision import Registrar, background_of, compare_workspace
from lerobot_diagnostics.vision.images import shrink

Image8 = NDArray[np.uint8]

SAMPLES = 12
"""Instants at which pictures are kept and measured: 24 pictures of 640×480 are 22 MB."""
GRIPPER_EVENT = 15.0
"""Change of a gripper (0–100) within half a second that counts as opening or closing."""
EPISODES = 3
"""Episodes whose pictures tell the arm from objects, see :func:`compare_workspace`."""
BACKGROUND_FRAMES = 12


class Cameras(NamedTuple):
    """Which live camera shows which recorded one."""

    pairs: Mapping[str, str]
    findings: Sequence[Finding]


def pair_cameras(live: Sequence[str], recording: Recording, rename_map: Mapping[str, str] | None = None) -> Cameras:
    """Bind the robot's cameras to recorded ones by name.

    Args:
        live: The robot's cameras.
        recording: The data set.
        rename_map: Data set key → robot's key, with or without ``observation.images.``.

    Raises:
        UsageError: If the map names a camera that does not exist.
    """
    short = {camera_name(key): key for key in recording.cameras}
    renamed = {camera_name(key): camera_name(value) for key, value in (rename_map or {}).items()}
    for key, value in renamed.items():
        if key not in short or value not in live:
            raise UsageError(
                f"--rename_map names {key} → {value}.",
                f"The data set has {', '.join(short) or 'none'}, the robot {', '.join(live) or 'none'}.",
            )
    pairs = {renamed.get(name, name): key for name, key in short.items() if renamed.get(name, name) in live}
    findings = []
    for name, key in short.items():
        if key not in pairs.values():
            near = next((camera for camera in live if camera.endswith(f"_{name}") or name.endswith(f"_{camera}")), None)
            fix = (
                f'Pass --rename_map=\'{{"{name}": "{near}"}}\'.' if near else "Add it to --robot.cameras, or leave it."
            )
            text = f"the recorded camera {name} has no live counterpart: it is not compared"
            findings.append(Finding("MISSING_CAMERA", Status.WARN, Cause.CAMERAS, name, text, {}, fix))
    return Cameras(pairs, findings)


def fetch_videos(episodes: Sequence[Episode], pairs: Mapping[str, str]) -> list[Finding]:
    """Have the recorded videos of the paired cameras here, fetched where the data set is on the Hub.

    Returns:
        MISSING_FILES for each camera without: it is left out, the joints are compared all the same.
    """
    findings = []
    for camera, key in pairs.items():
        reason = "are not here"
        for episode in episodes:
            if key in episode.recording.video_cameras:
                try:
                    episode.video_path(key)
                except UsageError as error:
                    reason = f"cannot be fetched ({error.message})"
        lost = [episode.index for episode in episodes if not episode.has_videos(key)]
        if lost:
            text = f"the recorded videos of {camera} {reason}: {camera} is not compared in episodes {lost}"
            fix = "Restore the videos to compare views; joints need none."
            findings.append(Finding("MISSING_FILES", Status.WARN, Cause.DATA, camera, text, {}, fix))
    return findings


class RecordedFrames:
    """The recorded pictures of one episode, asked for in ascending order; a step back starts over.

    Args:
        episode: The recording.
        pairs: ``{live camera: recorded key}``; cameras whose videos are not here are left out.
    """

    def __init__(self, episode: Episode, pairs: Mapping[str, str]) -> None:
        self._episode = episode
        self.pairs = {camera: key for camera, key in pairs.items() if episode.has_videos(key)}
        self._at: dict[str, int] = {}
        self._frames: dict[str, Iterator[Image8]] = {}
        self._last: dict[str, Image8] = {}

    def get(self, camera: str, frame: int) -> Image8:
        """The picture that the camera recorded at a frame, ``[H, W, 3]`` uint8 RGB."""
        if frame < self._at.get(camera, len(self._episode)):
            indices = np.arange(frame, len(self._episode))
            self._frames[camera] = self._episode.frames(self.pairs[camera], indices)
            self._at[camera] = frame - 1
        while self._at[camera] < frame:
            self._last[camera] = next(self._frames[camera])
            self._at[camera] += 1
        return self._last[camera]


def triptych(live: Image8, recorded: Image8, alpha: float) -> Image8:
    """``[H, 3W, 3]``: live | recorded | overlay."""
    return np.hstack([like(live, recorded), recorded, overlay(live, recorded, alpha)])


def key_moments(plan: Plan, height: Callable[[Mapping[str, float]], float] | None = None) -> dict[int, str]:
    """Frames worth a look, with what happens there: the start, gripper events, the lowest points, the end.

    Args:
        plan: The episode.
        height: Tool height of a pose in the plan's own unit, where known.
    """
    moments = {0: "start", len(plan) - 1: "end"}
    half = max(1, round(plan.episode.fps / 2))
    for j, key in enumerate(plan.keys):
        if is_gripper(key) and len(plan) > half:
            change = plan.actions[half:, j] - plan.actions[:-half, j]
            for sign, word in ((-1, "closes"), (1, "opens")):
                at = int(np.argmax(sign * change))
                if sign * change[at] > GRIPPER_EVENT:
                    moments[at + half] = f"{key} {word}"
    if height is not None:
        heights = [height(plan.pose(k)) for k in range(0, len(plan), max(1, half // 4))]
        moments.setdefault(int(np.argmin(heights)) * max(1, half // 4), "lowest point")
    return dict(sorted(moments.items()))


def sampled(plan: Plan, moments: Mapping[int, str]) -> list[int]:
    """Frames whose live pictures are kept: the key moments, and some evenly spread."""
    spread = np.linspace(0, len(plan) - 1, min(SAMPLES, len(plan))).round().astype(int).tolist()
    return sorted({*moments, *spread})


def write_strips(
    folder: Path,
    name: str,
    kept: Mapping[int, Mapping[str, Image8]],
    frames: RecordedFrames,
    moments: Mapping[int, str],
    alpha: float,
) -> list[ReportPicture]:
    """Write live | recorded | overlay of every camera at the key moments, a file a moment."""
    written = []
    for frame, caption in moments.items():
        rows = [
            triptych(kept[frame][camera], frames.get(camera, frame), alpha)
            for camera in frames.pairs
            if camera in kept.get(frame, {})
        ]
        if rows:
            width = max(row.shape[1] for row in rows)
            sheet = np.vstack([shrink(row, width, round(row.shape[0] * width / row.shape[1])) for row in rows])
            path = folder / f"{file_name(name, 'frame', frame)}.jpg"
            with atomic_file(path) as temporary:
                Image.fromarray(sheet).save(temporary, "JPEG", quality=88)
            text = f"{name}, frame {frame}, {caption}: live | recorded | overlay"
            written.append(ReportPicture(path.name, text, "Key moments"))
    return written


def misalignment(kept: Mapping[int, Mapping[str, Image8]], frames: RecordedFrames) -> Table:
    """How far each live view lies from the recorded one at the same instants; NaN where nothing fits."""
    rows = []
    for frame in sorted(kept):
        for camera in frames.pairs:
            if camera in kept[frame]:
                recorded = frames.get(camera, frame)
                motion = Registrar(recorded).fast(like(kept[frame][camera], recorded))
                shift = float(np.hypot(motion.dx_px, motion.dy_px))
                figures = (motion.dx_px, motion.dy_px, shift, motion.rotation_deg, motion.confidence)
                rows.append([camera, frame, *map(hundredths, figures)])
    columns = ["camera", "frame", "right px", "down px", "shift px", "turned °", "confidence"]
    return Table("View against recording at the same instants", columns, sorted(rows, key=lambda row: row[0]))


def workspace_findings(
    first: Mapping[str, Image8], plan: Plan, frames: RecordedFrames, other_episodes: Sequence[Episode]
) -> list[Finding]:
    """MOVED, BASE_MOVED and OBJECT_MOVED from the live pictures taken at the first recorded pose.

    Args:
        first: Live pictures with the arm at the first recorded state.
        plan: The episode.
        frames: Its pictures.
        other_episodes: For the background and to tell the arm from objects.
    """
    live, at_pose, backgrounds = {}, {}, {}
    for camera, key in frames.pairs.items():
        if camera not in first:
            continue
        recorded = frames.get(camera, 0)
        spread = []
        share = max(3, BACKGROUND_FRAMES // (1 + len(other_episodes)))
        for episode in (plan.episode, *other_episodes):
            spread += list(episode.frames(key, np.linspace(0, len(episode) - 1, share).astype(int)))
        live[camera] = like(first[camera], recorded)
        backgrounds[camera] = background_of(spread)
        at_pose[camera] = [recorded, *_same_pose(plan, key, other_episodes)]
    return compare_workspace(live, at_pose, backgrounds) if live else []


def _same_pose(plan: Plan, key: str, others: Sequence[Episode]) -> Iterator[Image8]:
    """Pictures of other episodes with the arm where it starts in this one."""
    start = plan.episode.states[0]
    for episode in others:
        if not episode.states.shape[1]:
            continue
        away = np.abs(episode.states - start).max(axis=1)
        nearest = int(np.argmin(away))
        if away[nearest] <= 3.0:  # degrees: what a start pose repeats to by hand
            yield from episode.frames(key, [nearest])


def others(recording: Recording, index: int, keys: Sequence[str]) -> list[Episode]:
    """Up to :data:`EPISODES` further episodes whose videos are all here, spread over the data set."""
    rest = [i for i in recording.episode_indices if i != index]
    chosen = [rest[i] for i in np.linspace(0, len(rest) - 1, min(EPISODES, len(rest))).astype(int)] if rest else []
    episodes = [recording.episode(i) for i in dict.fromkeys(chosen)]
    return [episode for episode in episodes if all(episode.has_videos(key) for key in keys)]
