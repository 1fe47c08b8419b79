"""The arrays that are judged, what counts as motion in them, and the words that all verdicts share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Cause, Finding, Status
from lerobot_diagnostics.openloop.checks import quantity
from lerobot_diagnostics.openloop.explanations import Choice
from lerobot_diagnostics.openloop.metrics import (
    Floats,
    episode_slices,
)

MIN_FRAMES = 20
"""Fewer scored frames decide nothing about a joint."""

NEAR_CONSTANT = 0.04
"""A joint that moves less than this part of what the more mobile joints of its unit move hardly moves. In six real
recordings the least mobile joint reaches 0.12 to 0.87; joints that rest during one episode 0.00 to 0.024."""

SMALL_MOTION, JITTER = 0.15, 0.5
"""Below this part a joint also hardly moves when its values jump like noise rather than move: the von Neumann ratio,
halved, is 1 for white noise; all joints of five real recordings are below 0.016, delta actions at 5 Hz below 0.45."""

LEAST_SCALE = 0.4
"""No joint's errors are weighed against less than this part of what the more mobile joints of its unit move: 1° is
nothing on an arm that moves 60°, even on the joint that moves 10°."""

FLAT = 0.1
"""A prediction that spreads less than this part of the recording does not follow it, unless it correlates above
``joints.FLAT_CORRELATION`` (then it is a wrong scale)."""

TIED = 1.5


@dataclass(frozen=True)
class Arrays:
    """The checked input of :func:`judge`; see there."""

    y: Floats
    p: Floats
    names: tuple[str, ...]
    units: tuple[str, ...]
    fps: float
    episodes: tuple[slice, ...]
    episode_index: npt.NDArray[Any] | None
    grippers: tuple[int, ...]
    states: Floats | None
    hold: Floats | None
    train_mean: Floats | None
    train_std: Floats | None
    mean_trajectory: Floats | None
    trained_on: bool

    @cached_property
    def motion(self) -> Floats:
        """[J] recorded range of motion."""
        return np.array([np.ptp(c[np.isfinite(c)]) if np.isfinite(c).any() else 0.0 for c in self.y.T])

    @cached_property
    def _group(self) -> Floats:
        """[J] upper quartile of the motion of the joints of the same unit."""
        units = np.array(self.units)
        return np.array([np.quantile(self.motion[units == unit], 0.75) for unit in self.units])

    @cached_property
    def scale(self) -> Floats:
        """[J] what counts as a large motion of the joint."""
        return np.asarray(np.maximum(np.maximum(self.motion, LEAST_SCALE * self._group), 1e-12))

    @cached_property
    def moving(self) -> list[int]:
        """Joints that move enough for shapes to mean something, with enough frames to judge."""
        return [j for j in self.scored if not self.near_constant(j)]

    @cached_property
    def scored(self) -> list[int]:
        """Joints with enough finite frames."""
        finite = np.isfinite(self.y) & np.isfinite(self.p)
        return [j for j in range(len(self.names)) if finite[:, j].sum() >= MIN_FRAMES]

    def near_constant(self, j: int) -> bool:
        """Whether the joint hardly moves in the recording."""
        part = self.motion[j] / self._group[j] if self._group[j] > 0 else 0.0
        y = self.y[np.isfinite(self.y[:, j]), j]
        jitter = float(np.var(np.diff(y)) / (2 * np.var(y))) if np.var(y) > 0 else 1.0
        return bool(part < NEAR_CONSTANT or (part < SMALL_MOTION and jitter > JITTER))

    def square(self, j: int, other: Floats) -> float:
        """Mean square of predicted joint ``j`` − ``other`` ([T]) where both are finite, in units of its scale."""
        error = (self.p[:, j] - other) / self.scale[j]
        error = error[np.isfinite(error)]
        # Nothing is told apart that differs by less than a thousandth of the motion.
        return float(np.mean(error**2)) + 1e-6 if error.size else np.inf

    def say(self, j: int, value: float) -> str:
        """A value of joint ``j`` with its unit."""
        return quantity(value, self.units[j])


def checked(
    recorded: npt.ArrayLike,
    predicted: npt.ArrayLike,
    names: Sequence[str],
    fps: float,
    states: npt.ArrayLike | None,
    gripper: Sequence[str | int],
    train_mean: npt.ArrayLike | None,
    train_std: npt.ArrayLike | None,
    mean_trajectory: npt.ArrayLike | None,
    hold: npt.ArrayLike | None,
    units: Sequence[str] | None,
    episode_index: npt.ArrayLike | None,
    trained_on: bool,
) -> Arrays:
    y = np.asarray(recorded, dtype=np.float64)
    if y.ndim != 2 or y.shape[1] != len(names):
        raise UsageError(f"recorded has shape {y.shape}, expected [T, {len(names)}] for the {len(names)} names.")
    if len(set(names)) != len(names):
        raise UsageError("names holds a joint twice.")
    if not fps > 0:
        raise UsageError(f"fps is {fps}, expected a positive number.")
    units = tuple(units) if units is not None else ("",) * len(names)
    if len(units) != len(names):
        raise UsageError(f"units has {len(units)} entries, expected {len(names)}.")

    def array(what: str, value: npt.ArrayLike | None, shape: tuple[int, ...]) -> Floats | None:
        if value is None:
            return None
        given = np.asarray(value, dtype=np.float64)
        if given.shape != shape:
            raise UsageError(f"{what} has shape {given.shape}, expected {shape} as recorded.")
        return given

    if train_mean is not None and np.ndim(train_mean) == 2:
        train_mean, mean_trajectory = None, train_mean if mean_trajectory is None else mean_trajectory
    y = np.where(np.isfinite(y), y, np.nan)
    p = array("predicted", predicted, y.shape)
    assert p is not None
    index = None if episode_index is None else np.asarray(episode_index)
    if index is not None and index.shape != y.shape[:1]:
        raise UsageError(f"episode_index has shape {index.shape}, expected {y.shape[:1]} as recorded.")
    positions: list[int] = []
    for g in gripper or [n for n in names if "gripper" in n.lower()]:
        if isinstance(g, str) and g not in names:
            raise UsageError(f"gripper names {g!r}, which is no joint; the joints are {', '.join(names)}.")
        positions.append(list(names).index(g) if isinstance(g, str) else range(len(names))[g])
    return Arrays(
        y=y,
        p=np.where(np.isfinite(p), p, np.nan),
        names=tuple(names),
        units=units,
        fps=fps,
        episodes=tuple(episode_slices(len(y), index)),
        episode_index=index,
        grippers=tuple(positions),
        states=array("states", states, y.shape),
        hold=array("hold", hold, y.shape),
        train_mean=array("train_mean", train_mean, y.shape[1:]),
        train_std=array("train_std", train_std, y.shape[1:]),
        mean_trajectory=array("mean_trajectory", mean_trajectory, y.shape),
        trained_on=trained_on,
    )


type Found = tuple[list[Finding], set[int]]
"""Findings and the joints whose error they account for."""

_CAUSES = {
    "NEAR_CONSTANT": Cause.DATA,
    "OFFSET": Cause.CALIBRATION,
    "SCALE": Cause.UNITS,
    "SIGN": Cause.CALIBRATION,
    "PERMUTED": Cause.CONFIG,
    "UNNORMALIZED": Cause.CONFIG,
}


def new_finding(
    code: str,
    status: Status,
    subject: str,
    summary: str,
    evidence: dict[str, Any] | None = None,
    fix: str = "",
    cause: Cause | None = None,
) -> Finding:
    return Finding(code, status, cause or _CAUSES.get(code, Cause.MODEL), subject, summary, evidence or {}, fix)


def subject_of(a: Arrays, joints: Sequence[int]) -> str:
    return "all joints" if len(joints) > 3 and set(joints) >= set(a.moving) else ", ".join(a.names[j] for j in joints)


def signed(a: Arrays, j: int, value: float) -> str:
    return ("+" if value >= 0 else "−") + a.say(j, abs(value))


def own_square(a: Arrays, j: int, choice: Choice) -> float:
    """What is left when joint ``j`` is explained without any other joint."""
    fit = choice.best or choice.identity
    return float((fit.rms / a.scale[j]) ** 2) + 1e-6
