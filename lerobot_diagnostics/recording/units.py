"""In which unit joint values were recorded, told by their quantum: the step that one encoder tick makes.

A servo's encoder counts whole ticks n; LeRobot's ``MotorsBus`` turns them into

* degrees,  ``(n − (max + min) / 2) · 360 / 4095``: multiples of half of 360/4095 wherever the zero is;
* ±100,     ``(n − min) / (max − min) · 200 − 100``: steps of 200/(max − min), counted from −100;
* ticks,    n itself;

so the magnitude of the values tells little (±100 and ±105° look alike) and the lattice they lie on tells nearly
everything. A lattice of step q and phase φ is found as in a periodogram: the mean of ``cos(2π (x − φ) / q)`` over the
distinct values is 1 on the lattice and about 0 off it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lerobot_diagnostics.recording.names import canonical, is_gripper

TURN = 4096
"""Encoder ticks of a full turn of the STS3215 (and of Dynamixel X)."""

MIN_LEVELS = 16
"""Distinct values below which nothing is said: with few, one of the ~4000 possible ranges fits by chance. Uniform noise
over ±80, 300 trials, best fit of all ranges: 0.96 with 8 levels, 0.86 with 12, 0.81 with 16, 0.54 with 40."""

LATTICE = 0.95
"""Mean cosine above which values count as lying on a lattice. Real ±100 recordings score above 0.9999 (float32 rounding
is 1e-4 of a tick), noise below 0.81 (see MIN_LEVELS)."""

MIN_TICKS = 1024
"""Whole numbers are ticks when the joint goes beyond this: LeRobot centres a joint's range on tick 2048 (real ones:
760–3600), while pixels (0–511 in PushT) and rounded degrees stay below."""

WIDTHS = np.arange(100, TURN)
"""Ranges of motion, in ticks, that a ±100 calibration can have; below 100 ticks (9°) a joint does not work."""

WIDTH_TICKS = 2
"""Within this two widths are one: the quantum gives a ±100 range's width to the tick."""

CERTAIN, LIKELY, WEAK = 0.99, 0.9, 0.5


class Unit(StrEnum):
    """Units in LeRobot's own terms (``MotorNormMode``), where it has them."""

    DEGREES = "degrees"
    RANGE_M100_100 = "range_m100_100"
    RADIANS = "radians"
    TICKS = "ticks"
    UNKNOWN = "unknown"


class UnitGuess(NamedTuple):
    """What the values tell about their unit.

    Attributes:
        unit: ``UNKNOWN`` whenever they do not tell: rounded, filtered or simulated values, too little motion.
        quantum: The values' step for one encoder tick, in their own unit; None if there is none.
        range_width_ticks: For ±100 the calibrated range (max − min) in ticks, which the quantum gives away; for other
            units that of ``calibration`` if given; else None.
        confidence: 0 to 1.
    """

    unit: Unit
    quantum: float | None
    range_width_ticks: int | None
    confidence: float


UNKNOWN = UnitGuess(Unit.UNKNOWN, None, None, 0.0)


def infer_units(values: NDArray[Any] | Sequence[Any], calibration: Mapping[str, Any] | None = None) -> UnitGuess:
    """Tell the unit of recorded joint values.

    Args:
        values: ``[T]`` values of one joint, or ``[T, J]`` of several in one unit. Grippers (0–100 in every mode) are
            to be left out.
        calibration: The joint's ``range_min`` and ``range_max`` in ticks, if known: it settles which of two lattices
            that coincide was meant.

    Returns:
        For several joints the unit most of the deciding ones agree on, with the quantum and range of the surest of
        them; ``UNKNOWN`` when they disagree.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim == 2:
        return _agree([infer_units(column, calibration) for column in array.T])
    levels = np.unique(array[np.isfinite(array)])
    width = _calibrated_width(calibration)
    if len(levels) < MIN_LEVELS:
        return UNKNOWN
    if np.all(levels == np.round(levels)):
        # Whole numbers: ticks, unless they may as well be pixels, or degrees or percent that someone rounded.
        is_ticks = levels[0] >= 0 and MIN_TICKS < levels[-1] < TURN
        return UnitGuess(Unit.TICKS, 1.0, width, CERTAIN) if is_ticks else UNKNOWN
    if _is_rounded(levels):
        return UNKNOWN
    return _lattice(levels, width) or _continuous(levels)


def infer_joint_units(
    values: NDArray[Any], names: Sequence[str], calibration: Mapping[str, Mapping[str, Any]] | None = None
) -> dict[str, UnitGuess]:
    """Tell the unit of each joint of ``values`` ``[T, J]`` but the grippers, which are 0–100 in every mode.

    Args:
        values: The recorded values.
        names: The J joint names, of any convention.
        calibration: LeRobot's calibration, by joint name of any convention.

    Returns:
        A guess for each name that is no gripper.
    """
    by_joint = {canonical(name): entry for name, entry in (calibration or {}).items()}
    return {
        name: infer_units(values[:, i], by_joint.get(canonical(name)))
        for i, name in enumerate(names)
        if not is_gripper(name)
    }


def _calibrated_width(calibration: Mapping[str, Any] | None) -> int | None:
    if calibration is None or "range_min" not in calibration or "range_max" not in calibration:
        return None
    return int(calibration["range_max"]) - int(calibration["range_min"])


def _is_rounded(levels: NDArray[Any]) -> bool:
    """Whether the values were rounded to at most three decimals: then the rounding hides the encoder's step."""
    # float32 holds a decimal near 100 to 4e-6
    return bool(np.all(np.abs(levels * 1000 - np.round(levels * 1000)) < 1e-2))


def _fit(levels: NDArray[Any], step: float | NDArray[Any], phase: float = 0.0) -> Any:
    """Mean cosine of the values on lattices of the given steps: 1 where all values lie on it."""
    turns = (levels[:, None] - phase) / np.atleast_1d(step)[None, :]
    score = np.cos(2 * np.pi * turns).mean(axis=0)
    return score if np.ndim(step) else float(score[0])


def _lattice(levels: NDArray[Any], width: int | None) -> UnitGuess | None:
    # Values closer together than the step cannot lie on it: a joint that hardly moves fits every coarse lattice. A
    # quarter more leaves room for a few stray values.
    coarsest = 1.25 * np.ptp(levels) / (len(levels) - 1)
    if len(levels) > 512:  # enough for a mean; 512 × 4000 cosines take 20 ms
        levels = levels[np.linspace(0, len(levels) - 1, 512).round().astype(int)]
    # 4095 is LeRobot's max resolution; 4096 its divisor until 2025
    turns = [(Unit.DEGREES, 360 / resolution) for resolution in (TURN - 1, TURN)]
    turns += [(Unit.RADIANS, 2 * np.pi / resolution) for resolution in (TURN - 1, TURN)]
    # half a step, because the zero lies midway between two ticks half of the time
    fitted = [(_fit(levels, step / 2), unit, step) for unit, step in turns if step <= coarsest]
    angle_fit, unit, quantum = max(fitted, default=(0.0, Unit.UNKNOWN, 0.0))
    limit = max(abs(levels[0]), abs(levels[-1]))
    widths = WIDTHS[coarsest * WIDTHS >= 200]
    if limit <= 100 and len(widths):  # ±100 is clipped
        fits = _fit(levels, 200 / widths, phase=-100.0)
        # a lattice of twice as many steps fits as well: the coarsest that fits is the one
        fitting = np.flatnonzero(fits >= max(LATTICE, fits.max() - 0.01))
        best = int(widths[fitting[0]]) if len(fitting) else None
        best_fit = float(fits[fitting[0]]) if len(fitting) else 0.0
    else:
        best, best_fit = None, 0.0
    if angle_fit < LATTICE and best is None:
        return None
    if best is not None and (angle_fit < LATTICE or best == width):
        # Both fit where 200/width is about 360/4095 (2275 ticks): the calibration decides, else the angle below.
        sure = CERTAIN if width in (None, best) and angle_fit < LATTICE else LIKELY
        return UnitGuess(Unit.RANGE_M100_100, 200 / best, best, sure)
    sure = CERTAIN if best is None or best_fit < angle_fit - 0.02 else LIKELY
    return UnitGuess(unit, quantum, width, sure)


def _continuous(levels: NDArray[Any]) -> UnitGuess:
    """Values without a quantum (simulated, filtered): only radians can be suspected, by their size alone."""
    # In degrees or percent, a joint that covers more than 1 and stays within ±π would hardly have moved.
    if np.ptp(levels) > 1.0 and max(abs(levels[0]), abs(levels[-1])) <= np.pi:
        return UnitGuess(Unit.RADIANS, None, None, WEAK)
    return UNKNOWN


def _agree(guesses: Sequence[UnitGuess]) -> UnitGuess:
    decided = [guess for guess in guesses if guess.unit is not Unit.UNKNOWN]
    if not decided:
        return UNKNOWN
    units = [guess.unit for guess in decided]
    unit = max(set(units), key=units.count)
    agreeing = [guess for guess in decided if guess.unit is unit]
    if len(agreeing) * 2 <= len(decided):
        return UNKNOWN
    surest = max(agreeing, key=lambda guess: guess.confidence)
    return surest._replace(confidence=surest.confidence * len(agreeing) / len(decided))
