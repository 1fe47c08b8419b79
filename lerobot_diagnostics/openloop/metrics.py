"""How far predicted actions are from recorded ones: per joint, in the joint's own unit, beside baselines.

All arrays are ``[T, J]``: T frames (episodes one after the other), J joints. ``episode_index`` (``[T]``) tells where
one episode ends and the next begins; nothing is ever compared across that border. Frames where either side is not
finite are left out of the figures of that joint alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from scipy.ndimage import median_filter
from scipy.optimize import linear_sum_assignment

type Floats = npt.NDArray[np.float64]

MAX_LAG_S = 1.0
"""A delay longer than this is not a delay any more but another motion."""

GRIPPER_CLOSED, GRIPPER_OPEN = 1 / 3, 2 / 3
"""Hysteresis on the opening relative to the recorded range. A third apart: noise with a standard deviation of 10 % of
the range, after the median filter (about 5 %), is six of its own standard deviations away from making an event."""

GRIPPER_SMOOTHING_S = 1 / 6
"""Median filter before events are looked for: five frames at 30 fps, shorter than a hand can close and open."""

GRIPPER_TOLERANCE_S = 1.0
"""A predicted event farther than this from the recorded one is another event."""


@dataclass(frozen=True)
class Errors:
    """Mean absolute and root mean square error, in the joint's unit."""

    mae: float
    rmse: float


@dataclass(frozen=True)
class JointScore:
    """How well one joint is predicted.

    Args:
        name: The joint.
        unit: Unit of every figure that is not relative; empty where not known.
        frames: Frames scored (both sides finite).
        not_finite: Frames left out because the prediction or the recording is not finite.
        mae, rmse: Mean absolute and root mean square error.
        bias: Mean of predicted − recorded.
        spread: Standard deviation of predicted − recorded, so that rmse² = bias² + spread².
        range_of_motion: Largest − smallest recorded value.
        error_over_range: rmse / range_of_motion; NaN where the joint does not move.
        correlation: Pearson's, recorded against predicted; NaN where either is constant.
        lag_frames: Delay of the prediction that correlates best, positive when it comes late; NaN as ``correlation``.
        baselines: The same errors for something that needs no policy, by name: ``hold_state`` (stay where the arm is
            when the policy is asked), ``train_mean``, ``mean_trajectory``.
    """

    name: str
    unit: str
    frames: int
    not_finite: int
    mae: float
    rmse: float
    bias: float
    spread: float
    range_of_motion: float
    error_over_range: float
    correlation: float
    lag_frames: float
    baselines: Mapping[str, Errors] = field(default_factory=dict)


@dataclass(frozen=True)
class GripperEvent:
    """The gripper passes from open to closed (``"close"``) or back (``"open"``) at ``frame``. Low values are closed."""

    frame: int
    kind: str


@dataclass(frozen=True)
class GripperScore:
    """Gripper events, recorded against predicted.

    Args:
        name: The gripper joint.
        recorded, predicted: The events found on each side.
        matched: Pairs of (recorded frame, predicted frame) of the same kind, in one episode.
        fps: Frames a second, for times.
    """

    name: str
    recorded: Sequence[GripperEvent]
    predicted: Sequence[GripperEvent]
    matched: Sequence[tuple[int, int]]
    fps: float

    @property
    def missed(self) -> int:
        """Recorded events without a predicted one."""
        return len(self.recorded) - len(self.matched)

    @property
    def extra(self) -> int:
        """Predicted events without a recorded one."""
        return len(self.predicted) - len(self.matched)

    @property
    def timing_error_frames(self) -> float:
        """Mean of predicted − recorded over the matched events (positive: late); NaN without any."""
        return float(np.mean([p - r for r, p in self.matched])) if self.matched else float("nan")

    @property
    def timing_error_ms(self) -> float:
        """:attr:`timing_error_frames` in milliseconds."""
        return self.timing_error_frames / self.fps * 1000

    @property
    def timing_spread_ms(self) -> float:
        """Mean absolute timing error of the matched events in milliseconds; NaN without any."""
        return float(np.mean([abs(p - r) for r, p in self.matched])) / self.fps * 1000 if self.matched else float("nan")


def episode_slices(frames: int, episode_index: npt.ArrayLike | None = None) -> list[slice]:
    """Slices of the runs of equal ``episode_index`` (``[frames]``); one slice over everything without it."""
    if frames == 0:
        return []
    if episode_index is None:
        return [slice(0, frames)]
    index = np.asarray(episode_index)
    if index.shape != (frames,):
        raise ValueError(f"episode_index has shape {index.shape}, expected ({frames},)")
    starts = [0, *(np.flatnonzero(index[1:] != index[:-1]) + 1).tolist(), frames]
    return [slice(a, b) for a, b in pairwise(starts)]


def delayed(values: Floats, lag: int, episodes: Sequence[slice]) -> Floats:
    """``values[t − lag]`` within each episode, NaN where that lies outside it. ``values``: ``[T]`` or ``[T, J]``."""
    out = np.full(values.shape, np.nan)
    for episode in episodes:
        length = episode.stop - episode.start
        if abs(lag) < length:
            source = slice(episode.start + max(0, -lag), episode.stop - max(0, lag))
            target = slice(episode.start + max(0, lag), episode.stop + min(0, lag))
            out[target] = values[source]
    return out


def correlation(a: Floats, b: Floats) -> float:
    """Pearson's correlation over the frames where both (``[T]``) are finite; NaN where either is constant."""
    both = np.isfinite(a) & np.isfinite(b)
    if both.sum() < 3:
        return float("nan")
    x, y = a[both] - a[both].mean(), b[both] - b[both].mean()
    scale = np.sqrt((x @ x) * (y @ y))
    # A constant leaves rounding noise behind: compare with the size of the values themselves.
    tiny = 1e-12 * both.sum() * np.abs(a[both]).max() * np.abs(b[both]).max()
    return float(x @ y / scale) if scale > tiny else float("nan")


def lag_limit(fps: float, episodes: Sequence[slice]) -> int:
    """Largest lag looked for, in frames: :data:`MAX_LAG_S`, and a quarter of the median episode."""
    lengths = [e.stop - e.start for e in episodes]
    return int(min(MAX_LAG_S * fps, np.median(lengths) / 4)) if lengths else 0


def best_lag(recorded: Floats, predicted: Floats, episodes: Sequence[slice], limit: int) -> float:
    """The lag in frames (``predicted[t] ≈ recorded[t − lag]``) with the highest correlation.

    Correlation, not error, so that a constant offset or a wrong scale does not look like a delay. Of equal lags the
    smallest is taken. NaN where either (``[T]``) is constant.
    """
    best, best_value = float("nan"), -np.inf
    for lag in sorted(range(-limit, limit + 1), key=abs):
        value = correlation(delayed(recorded, lag, episodes), predicted)
        if value > best_value + 1e-9:
            best, best_value = float(lag), value
    return best


def hold_state(
    states: npt.ArrayLike, chunk_starts: npt.ArrayLike, episode_index: npt.ArrayLike | None = None
) -> Floats:
    """Baseline: stay at the state measured when the policy was last asked.

    Args:
        states: ``[T, J]``, in the actions' units and order.
        chunk_starts: Frames (row numbers) at which the policy is asked.
        episode_index: ``[T]``.

    Returns:
        ``[T, J]``; NaN before the first prediction of an episode.
    """
    values = np.asarray(states, dtype=np.float64)
    starts = np.unique(np.asarray(chunk_starts, dtype=np.int64))
    out = np.full(values.shape, np.nan)
    for episode in episode_slices(len(values), episode_index):
        inside = starts[(starts >= episode.start) & (starts < episode.stop)]
        for a, b in zip(inside, [*inside[1:], episode.stop], strict=True):
            out[a:b] = values[a]
    return out


def resampled(trajectory: npt.ArrayLike, frames: int) -> Floats:
    """``trajectory`` (``[N, J]``) over relative time (0 at the first frame, 1 at the last) as ``[frames, J]``."""
    values = np.asarray(trajectory, dtype=np.float64)
    at = np.linspace(0, len(values) - 1, frames)
    low = np.floor(at).astype(np.int64)
    high = np.minimum(low + 1, len(values) - 1)
    weight = (at - low)[:, None]
    return np.asarray(values[low] * (1 - weight) + values[high] * weight)


class MeanTrajectory:
    """Baseline: the mean over the training episodes at the same relative time.

    An episode that was itself in the training set is left out of its own mean, or with few episodes the baseline would
    know the answer.

    Args:
        episodes: Training episodes by number, each ``[N, J]`` of actions.
        grid: Points of relative time kept.
    """

    def __init__(self, episodes: Mapping[int, npt.ArrayLike], grid: int = 500) -> None:
        self._curves = {number: resampled(values, grid) for number, values in episodes.items()}
        self._sum = np.sum(list(self._curves.values()), axis=0) if self._curves else None

    def at(self, episode: int, frames: int) -> Floats | None:
        """``[frames, J]`` for this episode; None when no other training episode is left."""
        own = self._curves.get(episode)
        others = len(self._curves) - (own is not None)
        if self._sum is None or others == 0:
            return None
        return resampled((self._sum - (own if own is not None else 0)) / others, frames)


def score_joints(
    recorded: npt.ArrayLike,
    predicted: npt.ArrayLike,
    *,
    names: Sequence[str],
    fps: float,
    units: Sequence[str] | None = None,
    episode_index: npt.ArrayLike | None = None,
    baselines: Mapping[str, npt.ArrayLike] | None = None,
) -> list[JointScore]:
    """Score every joint.

    Args:
        recorded: ``[T, J]`` recorded actions.
        predicted: ``[T, J]`` predicted actions for the same frames.
        names: J joint names.
        fps: Frames a second.
        units: J units; empty, the default, where not known.
        episode_index: ``[T]``.
        baselines: What the same frames would be without a policy, by name: ``[T, J]`` (:func:`hold_state`, a mean
            trajectory) or ``[J]`` (the training mean).
    """
    truth, guess = np.asarray(recorded, dtype=np.float64), np.asarray(predicted, dtype=np.float64)
    episodes = episode_slices(len(truth), episode_index)
    limit = lag_limit(fps, episodes)
    units = units or [""] * len(names)
    scores = []
    for j, name in enumerate(names):
        y, p = truth[:, j], guess[:, j]
        finite = np.isfinite(y) & np.isfinite(p)
        error = (p - y)[finite]
        overall = errors(error)
        motion = float(np.ptp(y[np.isfinite(y)])) if np.isfinite(y).any() else float("nan")
        score = JointScore(
            name=name,
            unit=units[j],
            frames=int(finite.sum()),
            not_finite=int((~finite).sum()),
            mae=overall.mae,
            rmse=overall.rmse,
            bias=float(error.mean()) if error.size else float("nan"),
            spread=float(error.std()) if error.size else float("nan"),
            range_of_motion=motion,
            error_over_range=overall.rmse / motion if motion > 0 else float("nan"),
            correlation=correlation(y, p),
            lag_frames=best_lag(y, p, episodes, limit),
            baselines={
                key: errors((np.broadcast_to(np.asarray(values, dtype=np.float64), truth.shape)[:, j] - y)[finite])
                for key, values in (baselines or {}).items()
            },
        )
        scores.append(score)
    return scores


def errors(error: Floats) -> Errors:
    """:class:`Errors` of the finite values of ``error``; NaN without any."""
    error = error[np.isfinite(error)]
    if not error.size:
        return Errors(float("nan"), float("nan"))
    return Errors(float(np.abs(error).mean()), float(np.sqrt(np.mean(error**2))))


def gripper_events(
    values: npt.ArrayLike, *, closed: float, opened: float, fps: float, episode_index: npt.ArrayLike | None = None
) -> list[GripperEvent]:
    """Where the gripper closes (falls to ``closed`` after being open) and opens (rises to ``opened``).

    Args:
        values: ``[T]`` gripper values, low is closed. Values that are not finite are bridged linearly.
        closed, opened: Thresholds in the gripper's unit; between them nothing changes (hysteresis).
        fps: Frames a second, for the median filter of :data:`GRIPPER_SMOOTHING_S`.
        episode_index: ``[T]``. Each episode starts anew: a jump at its border is no event.
    """
    series = np.asarray(values, dtype=np.float64)
    events = []
    width = 2 * round(GRIPPER_SMOOTHING_S * fps / 2) + 1
    for episode in episode_slices(len(series), episode_index):
        part = series[episode]
        finite = np.isfinite(part)
        if not finite.any():
            continue
        part = np.interp(np.arange(len(part)), np.flatnonzero(finite), part[finite])
        part = median_filter(part, size=min(width, len(part)), mode="nearest")
        is_open = bool(part[0] >= (closed + opened) / 2)
        for t, value in enumerate(part):
            if value <= closed and is_open:
                events.append(GripperEvent(episode.start + t, "close"))
                is_open = False
            elif value >= opened and not is_open:
                events.append(GripperEvent(episode.start + t, "open"))
                is_open = True
    return events


def score_gripper(
    recorded: npt.ArrayLike,
    predicted: npt.ArrayLike,
    *,
    name: str,
    fps: float,
    episode_index: npt.ArrayLike | None = None,
) -> GripperScore:
    """Find and pair the gripper events of both sides (``[T]`` each), thresholds relative to the recorded range.

    Events of one kind in one episode are paired so that the summed time between them is least, none farther apart
    than :data:`GRIPPER_TOLERANCE_S`.
    """
    truth, guess = np.asarray(recorded, dtype=np.float64), np.asarray(predicted, dtype=np.float64)
    finite = truth[np.isfinite(truth)]
    if not finite.size or np.ptp(finite) == 0:
        return GripperScore(name, (), (), (), fps)
    closed, opened = finite.min() + np.ptp(finite) * np.array([GRIPPER_CLOSED, GRIPPER_OPEN])
    sides = [
        gripper_events(side, closed=closed, opened=opened, fps=fps, episode_index=episode_index)
        for side in (truth, guess)
    ]
    matched: list[tuple[int, int]] = []
    for episode in episode_slices(len(truth), episode_index):
        for kind in ("close", "open"):
            r, p = (
                np.array([e.frame for e in side if e.kind == kind and episode.start <= e.frame < episode.stop])
                for side in sides
            )
            if r.size and p.size:
                apart = np.abs(r[:, None] - p[None, :]).astype(np.float64)
                tolerance = GRIPPER_TOLERANCE_S * fps
                # Beyond the tolerance all pairs cost the same and more than any set of real pairs.
                cost = np.where(apart <= tolerance, apart, (tolerance + 1) * (len(r) + len(p)))
                pairs = zip(*linear_sum_assignment(cost), strict=True)
                matched += [(int(r[a]), int(p[b])) for a, b in pairs if apart[a, b] <= tolerance]
    return GripperScore(name, sides[0], sides[1], sorted(matched), fps)
