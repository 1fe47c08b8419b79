"""Figures of an evaluation: by checkpoint and by what training saw of the episodes, beside baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from lerobot_diagnostics.openloop.evaluate import EpisodeResult, Evaluation
from lerobot_diagnostics.openloop.metrics import (
    GripperScore,
    JointScore,
    MeanTrajectory,
    hold_state,
    score_gripper,
    score_joints,
)
from lerobot_diagnostics.recording import Recording
from lerobot_diagnostics.recording.names import is_gripper, match
from lerobot_diagnostics.recording.units import Unit, infer_joint_units

Floats = npt.NDArray[np.float64]

HOLD, TRAIN_MEAN, MEAN_TRAJECTORY = "hold_state", "train_mean", "mean_trajectory"

BASELINE_EPISODES = 50
"""Training episodes read for the mean and the mean trajectory, evenly spread: their standard error is then a seventh of
the spread between episodes, and a data set of any size costs the same."""

SYMBOLS: Mapping[Unit, str] = {
    Unit.DEGREES: "°",
    Unit.RANGE_M100_100: "±100",
    Unit.RADIANS: "rad",
    Unit.TICKS: "ticks",
    Unit.UNKNOWN: "",
}


def joint_units(values: npt.ArrayLike, names: Sequence[str]) -> list[str]:
    """A unit symbol for each column of ``values`` ``[T, J]``, told by its quantum; empty where that does not tell.

    A joint that does not tell takes the unit of those that do, when these agree. Grippers are 0–100 wherever the joints
    are in degrees or ±100 (LeRobot's convention), else in the joints' unit.
    """
    guesses = infer_joint_units(np.asarray(values), names)
    told = {guess.unit for guess in guesses.values()} - {Unit.UNKNOWN}
    common = told.pop() if len(told) == 1 else Unit.UNKNOWN
    gripper = "0–100" if common in {Unit.DEGREES, Unit.RANGE_M100_100} else SYMBOLS[common]
    units = []
    for name in names:
        own = guesses[name].unit if name in guesses else None
        units.append(gripper if own is None else SYMBOLS[own if own is not Unit.UNKNOWN else common])
    return units


def states_as_actions(recording: Recording) -> list[int] | None:
    """For each action dimension the state dimension of the same joint, ``None`` where they do not correspond."""
    actions, states = recording.action_names, recording.state_names
    found = match(actions, states)
    positions = [states.index(name) for name in found.values() if name is not None]
    return positions if len(positions) == len(actions) else None


@dataclass(frozen=True)
class Baselines:
    """What needs no policy.

    Args:
        train_mean: [J] mean action of the training episodes.
        train_std: [J] standard deviation.
        trajectory: Mean trajectory over relative time.
        episodes: The episodes they were read from.
        source: Which episodes these are, in words.
    """

    train_mean: Floats
    train_std: Floats
    trajectory: MeanTrajectory
    episodes: tuple[int, ...]
    source: str


def read_baselines(recording: Recording, train: Sequence[int], evaluated: Sequence[int]) -> Baselines:
    """Read the actions of the training episodes (of the evaluated ones where training's are unknown)."""
    pool, source = (train, "training episodes") if train else (evaluated, "evaluated episodes")
    chosen = spread(pool, BASELINE_EPISODES)
    actions = {index: recording.episode(index).actions.astype(np.float64) for index in chosen}
    everything = np.concatenate(list(actions.values()))
    return Baselines(
        np.nanmean(everything, axis=0),
        np.nanstd(everything, axis=0),
        MeanTrajectory(actions),
        tuple(chosen),
        f"{len(chosen)} {source}",
    )


def spread[Item](items: Sequence[Item], count: int) -> list[Item]:
    """At most ``count`` of ``items``, evenly spread, in order."""
    if len(items) <= count:
        return list(items)
    return [items[i] for i in np.linspace(0, len(items) - 1, count).round().astype(int)]


class Side:
    """The evaluated episodes of one side for one checkpoint, stacked: T frames of all of them, J joints.

    Only episodes that were predicted to the end count, so that an interrupted run does not compare unlike things.
    """

    def __init__(self, name: str, label: str, results: Sequence[EpisodeResult], baselines: Baselines) -> None:
        self.name = name
        self.label = label
        self.results = [r for r in results if r.done.get(label)]
        self._baselines = baselines

    def __len__(self) -> int:
        return len(self.results)

    @cached_property
    def recorded(self) -> Floats:
        """[T, J] recorded actions."""
        return np.concatenate([r.episode.actions for r in self.results], dtype=np.float64)

    @cached_property
    def predicted(self) -> Floats:
        """[T, J] predicted actions."""
        return np.concatenate([r.predicted[self.label] for r in self.results], dtype=np.float64)

    @cached_property
    def episode_index(self) -> npt.NDArray[np.int64]:
        """[T] episode of each frame."""
        return np.concatenate([np.full(len(r.episode), r.episode.index) for r in self.results])

    @cached_property
    def chunk_starts(self) -> npt.NDArray[np.int64]:
        """Rows at which the policy was asked."""
        starts, offset = [], 0
        for result in self.results:
            starts += [offset + look for look in result.looks[self.label]]
            offset += len(result.episode)
        return np.array(starts, dtype=np.int64)

    @cached_property
    def states(self) -> Floats | None:
        """[T, J] states in the actions' order, ``None`` where they do not correspond."""
        positions = states_as_actions(self.results[0].episode.recording)
        if positions is None:
            return None
        return np.concatenate([r.episode.states[:, positions] for r in self.results], dtype=np.float64)

    @cached_property
    def hold(self) -> Floats | None:
        """[T, J] the state at the last look."""
        return None if self.states is None else hold_state(self.states, self.chunk_starts, self.episode_index)

    @cached_property
    def mean_trajectory(self) -> Floats | None:
        """[T, J] the other training episodes' mean at the same relative time, ``None`` without another one."""
        parts = [self._baselines.trajectory.at(r.episode.index, len(r.episode)) for r in self.results]
        whole = [part for part in parts if part is not None]
        return np.concatenate(whole) if len(whole) == len(parts) else None

    def scores(self, names: Sequence[str], units: Sequence[str], fps: float) -> list[JointScore]:
        """Score of every joint with all baselines there are."""
        baselines = {HOLD: self.hold, TRAIN_MEAN: self._baselines.train_mean, MEAN_TRAJECTORY: self.mean_trajectory}
        return score_joints(
            self.recorded,
            self.predicted,
            names=names,
            fps=fps,
            units=units,
            episode_index=self.episode_index,
            baselines={key: value for key, value in baselines.items() if value is not None},
        )

    def grippers(self, names: Sequence[str], fps: float) -> list[GripperScore]:
        """Gripper events of every joint that is a gripper by its name."""
        return [
            score_gripper(
                self.recorded[:, j], self.predicted[:, j], name=name, fps=fps, episode_index=self.episode_index
            )
            for j, name in enumerate(names)
            if is_gripper(name)
        ]


def sides(evaluation: Evaluation, label: str, baselines: Baselines) -> dict[str, Side]:
    """The non-empty sides of one checkpoint, in the order the episodes name them."""
    names = dict.fromkeys(result.side for result in evaluation.episodes)
    made = {name: Side(name, label, [r for r in evaluation.episodes if r.side == name], baselines) for name in names}
    return {name: side for name, side in made.items() if len(side)}


def mean_error_over_range(scores: Sequence[JointScore], span: Floats, baseline: str | None = None) -> float:
    """Mean over the joints that move of rmse / ``span``: one figure for joints of different units.

    Args:
        scores: J scores.
        span: [J] range of motion over *all* evaluated episodes: a joint that rests in two held-out episodes and works
            in the training ones must not be measured by its rest.
        baseline: Take this baseline's errors instead; NaN where it is not there.
    """
    errors = [score if baseline is None else score.baselines.get(baseline) for score in scores]
    values = [e.rmse / s for e, s in zip(errors, span, strict=True) if e is not None and s > 0 and np.isfinite(e.rmse)]
    return float(np.mean(values)) if values else float("nan")
