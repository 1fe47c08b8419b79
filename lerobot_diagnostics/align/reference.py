"""What a rollout is to look like at its start: the recorded pictures and joints of an episode, frozen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lerobot_diagnostics.camera_names import IMAGES, camera_name
from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.recording.names import match
from lerobot_diagnostics.vision.images import Picture
from lerobot_diagnostics.vision.references import ReferenceViews, nearest_states
from lerobot_diagnostics.vision.views import Comparer
from lerobot_diagnostics.vision.workspace import Background, background_of

if TYPE_CHECKING:
    from lerobot_diagnostics.recording import Recording

BACKGROUND_FRAMES = 15
"""Spread over the episode; ``background_of`` asks for ten or more."""
EPISODES, FRAMES_EACH = 6, 4
"""Of the recording, for what needs several: which camera is which, which cameras stand still, what is the arm."""
OTHERS = 3
"""Pictures of other episodes at the same pose: what is in two thirds of them is the arm."""
SAME_POSE = 0.1
"""Distance (:func:`nearest_states`, in ranges of motion) up to which another episode shows the same pose."""


@dataclass(frozen=True)
class Reference:
    """One recorded moment.

    Args:
        episode: Where it comes from.
        pictures: By camera (the robot's name of it), [H, W, 3] uint8 RGB.
        state: Joint positions by the robot's own key, e.g. ``shoulder_pan.pos``; empty when not recorded by name.
        others: By camera, pictures of other episodes with the arm at the same pose, nearest first.
    """

    episode: int
    pictures: Mapping[str, Picture]
    state: Mapping[str, float] = field(default_factory=dict)
    others: Mapping[str, Sequence[Picture]] = field(default_factory=dict)


class StartViews:
    """The recorded start of every episode, read when asked for, and what the whole recording shows.

    Args:
        recording: The data set; its videos are needed.
        cameras: Data set key by the robot's camera name, see :func:`pair_cameras`.
        joints: The robot's own joint keys.
        frame: Which frame of an episode is its reference.
    """

    def __init__(
        self, recording: Recording, cameras: Mapping[str, str], joints: Iterable[str], *, frame: int = 0
    ) -> None:
        self.recording, self.cameras, self.frame = recording, dict(cameras), frame
        self.joints = tuple(joints)
        self._some = tuple(
            int(e)
            for e in np.unique(np.linspace(0, recording.total_episodes - 1, EPISODES).round())  # evenly spread
        )

    def load(self, episode: int) -> Reference:
        """One episode's reference: decodes one picture a camera, and one of a few other episodes.

        Raises:
            UsageError: No such episode or frame, or its pictures are missing.
        """
        source = self.recording.episode(episode)
        if not 0 <= self.frame < source.length:
            raise UsageError(
                f"episode {episode} of {self.recording.label} has no frame {self.frame}; it has {source.length}.",
                "Choose with --strategy.reference.frame.",
            )
        pictures = {name: next(source.frames(key, [self.frame])) for name, key in self.cameras.items()}
        names = match(source.state_names, self.joints) if source.states.shape[1] else {}
        values = dict(zip(source.state_names, source.states[self.frame], strict=True)) if names else {}
        state = {live: float(values[recorded]) for recorded, live in names.items() if live is not None}
        return Reference(episode, pictures, state, self._others(episode, source.states[self.frame]))

    def _others(self, episode: int, state: NDArray[Any]) -> dict[str, list[Picture]]:
        """First frames of other episodes at the same pose."""
        episodes = [self.recording.episode(e) for e in self._some if e != episode]
        if not episodes or not len(state):
            return {}
        states = np.stack([e.states[0] for e in episodes])
        spread = np.concatenate([e.states for e in episodes])  # what the joints' ranges are measured on
        order, distance = nearest_states(np.concatenate([states, spread]), state, len(states) + len(spread))
        near = [int(k) for k, d in zip(order, distance, strict=True) if k < len(states) and d <= SAME_POSE][:OTHERS]
        return {name: [next(episodes[k].frames(key, [0])) for k in near] for name, key in self.cameras.items()}

    def step(self, episode: int, by: int) -> int:
        """The next or previous episode, round and round."""
        return (episode + by) % self.recording.total_episodes

    def backgrounds(self, episode: int) -> dict[str, Background]:
        """What stands still over an episode, by camera."""
        source = self.recording.episode(episode)
        indices = np.unique(np.linspace(0, source.length - 1, BACKGROUND_FRAMES).round()).astype(int)
        if len(indices) < 3:
            return {}
        return {name: background_of(list(source.frames(key, indices))) for name, key in self.cameras.items()}

    def comparer(self) -> Comparer:
        """The recorded views of all cameras over a few episodes: which camera is which, and which stand still."""
        episodes = [self.recording.episode(e) for e in self._some]
        rows = [np.unique(np.linspace(0, e.length - 1, FRAMES_EACH).round()).astype(int) for e in episodes]
        frames = {
            name: [picture for e, row in zip(episodes, rows, strict=True) for picture in e.frames(key, row)]
            for name, key in self.cameras.items()
        }
        states = np.concatenate([e.states[row] for e, row in zip(episodes, rows, strict=True)])
        numbers = [e.index for e, row in zip(episodes, rows, strict=True) for _ in row]
        return Comparer(ReferenceViews.build(frames, states=states, episodes=numbers))


def pair_cameras(
    recording: Recording, live: Mapping[str, tuple[int, int]], rename_map: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The data set's key of every live camera, by name or through the rename map that rollout is given.

    Args:
        recording: The data set.
        live: Height and width of the robot's pictures by camera name.
        rename_map: ``--rename_map``: observation key → policy key.

    Raises:
        UsageError: The data set has no pictures, none of these cameras, other ones beside them, or another shape.
    """
    if not recording.cameras:
        raise UsageError(
            f"{recording.label} has no pictures: there is nothing to align with.", "Name one that was recorded with."
        )
    renamed = {name: (rename_map or {}).get(IMAGES + name, IMAGES + name) for name in live}
    pairs = {
        name: next(key for key in (IMAGES + name, new) if key in recording.cameras)
        for name, new in renamed.items()
        if IMAGES + name in recording.cameras or new in recording.cameras
    }
    missing = [camera_name(key) for key in recording.cameras if key not in pairs.values()]
    unknown = [name for name in live if name not in pairs]
    if not pairs or (missing and unknown):
        have, want = ", ".join(live) or "none", ", ".join(camera_name(k) for k in recording.cameras)
        example = f'{{"{IMAGES}{unknown[0]}": "{IMAGES}{missing[0]}"}}' if missing and unknown else ""
        fix = "Name them alike in --robot.cameras" + (f", or pass --rename_map='{example}'." if example else ".")
        raise UsageError(f"{recording.label} was recorded with cameras {want}; the robot has {have}.", fix)
    for name, key in pairs.items():
        height, width = live[name]
        recorded_height, recorded_width = (int(n) for n in recording.features[key]["shape"][:2])
        if abs(width / height - recorded_width / recorded_height) > 0.02 * recorded_width / recorded_height:
            raise UsageError(
                f"{name} delivers {width}x{height}, recorded was {recorded_width}x{recorded_height}: another shape.",
                f"Set width: {recorded_width}, height: {recorded_height} for {name} in --robot.cameras.",
            )
    return pairs
