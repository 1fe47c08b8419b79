"""How the recorded states follow the recorded actions: delay, direction, gain, constant offset, jumps.

A teleoperated arm's action is the leader's target, its state what the follower's encoders read. A healthy follower is a
delayed copy; what else it is has a cause. Pure functions over arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Pair(NamedTuple):
    """One episode's actions and states ``[T, J]`` of the same joints, in the same unit."""

    actions: Floats
    states: Floats


class Following(NamedTuple):
    """How the states follow the actions.

    Attributes:
        lag: Frames by which the states trail the actions (negative: lead); None where nothing moves or follows.
        copied: Whether the actions are the states of the next frame (or of the same: lag 0), to the last digit.
        gain: ``[J]`` how far a state moves for a move of 1 of its action (least squares); NaN where it cannot be told.
        correlation: ``[J]`` of these moves; −1 is the other way.
        offset: ``[J]`` median of action − state where both stand still; NaN where they never do.
        spread: ``[J]`` how much that differs between still stretches (half the interquartile range).
        still: ``[J]`` seconds that both stand still.
    """

    lag: int | None
    copied: bool
    gain: Floats
    correlation: Floats
    offset: Floats
    spread: Floats
    still: Floats


LAG_S = 0.8
"""Longest delay looked for. Real recordings trail by 0.13 s (SO-101, 30 Hz) to 0.3 s (G1), a simulated arm by 0.5 s."""

WINDOW_S = 0.5
"""Moves are compared over half a second: the encoder's step and one frame's jitter vanish in it."""

STILL_S, STILL_SHARE = 0.5, 0.01
"""Both stand still where neither moves more than 1 % of the joint's range within half a second."""

STANDS = 0.2
"""A state that covers less than a fifth of its action's range stands still."""

FOLLOWS = 0.5
"""Least share of the joints' motion that the best delay must explain, else the action is no target of the state (delta
actions, velocities)."""


def follow(pairs: Sequence[Pair], fps: float) -> Following:
    """Measure how states follow actions over episodes; see :class:`Following`.

    Args:
        pairs: Episodes with the same J joints; those shorter than a second are left out.
        fps: Frames a second.
    """
    joints = pairs[0].states.shape[1] if pairs else 0
    nothing = np.full(joints, np.nan)
    window = max(1, round(WINDOW_S * fps))
    long = [p for p in pairs if len(p.states) > 2 * window + round(LAG_S * fps)]
    if not long or not joints:
        return Following(None, False, nothing, nothing, nothing, nothing, np.zeros(joints))
    span = np.maximum(_span([p.states for p in long]), 1e-12)
    # a gripper that holds something, or a joint that is held, follows nothing and tells no delay
    free = span > STANDS * np.maximum(_span([p.actions for p in long]), span.max() * 1e-3)
    lag, copied, explained = _lag(long, fps, np.where(free, span, np.inf))
    moves = [_moves(p, lag, window) for p in long]
    da, ds = np.concatenate([m[0] for m in moves]), np.concatenate([m[1] for m in moves])
    with np.errstate(invalid="ignore", divide="ignore"):
        moving = np.sqrt((da**2).mean(axis=0)) > 0.02 * span
        product = (da * ds).sum(axis=0)
        gain = np.where(moving, product / (da**2).sum(axis=0), np.nan)
        correlation = np.where(moving, product / np.sqrt((da**2).sum(axis=0) * (ds**2).sum(axis=0)), np.nan)
    offset, spread, still = _offsets(long, fps, span)
    follows = explained >= FOLLOWS or bool((np.abs(correlation[moving]) > 0.9).any())
    return Following(lag if follows else None, copied, gain, correlation, offset, spread, still)


def _span(arrays: Sequence[Floats]) -> Floats:
    low, high = np.nanpercentile(np.concatenate(arrays), [1, 99], axis=0)
    return np.asarray(high - low)


def _shifted(pair: Pair, lag: int) -> tuple[Floats, Floats]:
    """Actions and the states ``lag`` frames later."""
    T = len(pair.states)
    return pair.actions[max(0, -lag) : T - max(0, lag)], pair.states[max(0, lag) : T - max(0, -lag)]


def _lag(pairs: Sequence[Pair], fps: float, span: Floats) -> tuple[int, bool, float]:
    """The delay that leaves least of the moves unexplained, whether the copy is exact, and the share explained."""
    reach = max(1, round(LAG_S * fps))
    sizes = {}
    for lag in range(-reach // 2, reach + 1):
        left = total = 0.0
        for pair in pairs:
            a, s = _shifted(pair, lag)
            difference = (a - s) / span
            difference -= np.nanmedian(difference, axis=0)  # so that an offset is no delay
            left += float(np.nanmean(np.abs(difference)))
            total += float(np.nanmean(np.abs(a - np.nanmedian(a, axis=0)) / span))
        sizes[lag] = left / total if total else 1.0
    best = min(sizes, key=lambda k: (sizes[k], abs(k)))
    exact = all(np.array_equal(*_shifted(pair, best), equal_nan=True) for pair in pairs)
    return best, exact and best in (0, 1), 1 - sizes[best]


def _moves(pair: Pair, lag: int, window: int) -> tuple[Floats, Floats]:
    a, s = _shifted(pair, lag)
    return a[window:] - a[:-window], s[window:] - s[:-window]


def _offsets(pairs: Sequence[Pair], fps: float, span: Floats) -> tuple[Floats, Floats, Floats]:
    window = max(2, round(STILL_S * fps))
    differences: list[list[Floats]] = [[] for _ in span]
    for pair in pairs:
        quiet = (_range(pair.actions, window) < STILL_SHARE * span) & (_range(pair.states, window) < STILL_SHARE * span)
        ends = slice(window - 1, None)  # the last frame of each quiet window: the follower has arrived
        for j in range(len(span)):
            d = (pair.actions[ends, j] - pair.states[ends, j])[quiet[:, j]]
            differences[j].append(d[np.isfinite(d)])
    joined = [np.concatenate(d) if d else np.zeros(0) for d in differences]
    enough = [len(d) >= window for d in joined]
    offset = np.array([np.median(d) if ok else np.nan for d, ok in zip(joined, enough, strict=True)])
    spread = np.array(
        [np.subtract(*np.percentile(d, [75, 25])) / 2 if ok else np.nan for d, ok in zip(joined, enough, strict=True)]
    )
    return offset, spread, np.array([len(d) / fps for d in joined])


def _range(values: Floats, window: int) -> Floats:
    """``[T − window + 1, J]`` greatest minus least within each window."""
    windows = np.lib.stride_tricks.sliding_window_view(values, window, axis=0)
    return np.asarray(windows.max(axis=-1) - windows.min(axis=-1))
