"""What turns the recorded motion of one joint into the predicted one: competing explanations, compared by what they
leave unexplained.

Each explanation is a small least-squares model of the prediction p given the recording y (``[T]``):

=========  =============================================  ==========
code       model                                          parameters
=========  =============================================  ==========
(none)     p = y                                          0
OFFSET     p = y + c                                      1
SCALE      p = b·y  or  p = a + b·y, b > 0                1 or 2
SIGN       p = −y  or  p = c − y  or  p = a + b·y, b < 0  0 to 2
LAG        any of these with y[t − k] for y[t]            +2
=========  =============================================  ==========

They are ranked by BIC with an effective sample size, because neighbouring errors are alike (n·(1 − ρ)/(1 + ρ) for
AR(1) errors; Bayley and Hammersley 1946). BIC alone would call any bias a fault given enough frames, so an explanation
must also be large and must remove most of the error; those bounds are the constants below. On random recordings
(60–3000 frames, 2–14 joints, errors of 1–10 % of the range) good policies failed in 0 of 800 draws with white errors,
0 of 200 with errors constant over 5–24 frames, and 1 of 200 with slow AR(1) errors (ρ = 0.9; a 94-frame episode).
Faults on one joint were named rightly in 100 of 100 draws for an offset of 15–50 % of the range, a factor of 2 about
zero, a mirrored joint; 96 for a factor of 0.5 or 1.8 about the mean; 99 for a delay of 3–8 frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student_t

from lerobot_diagnostics.openloop.metrics import Floats, best_lag, correlation, delayed

EXPLAINED = 0.5
"""An explanation has to leave at most this part of the mean square error (its rival: no fault but noise)."""

LEFT_OVER = 0.15
"""And at most this part of the joint's scale as rms residual (or 60 % of the prediction's own standard deviation):
the best of several bad explanations is not an answer."""

MIN_OFFSET = 0.05
"""Smallest offset called one, as a part of the joint's scale (3° on a joint that moves 60°)."""

EVERYWHERE = 0.4
"""An offset is there everywhere: the means of eight blocks in a row scatter by at most this part of it."""

MIN_SCALE_CORRELATION, SCALE_MARGIN = 0.8, 0.9
"""The ratio of standard deviations is R for a policy that predicts the conditional mean and 1/R for a perfect one with
added noise (R: the correlation). Only beyond R·0.9 … 1/(R·0.9) is it a wrong scale."""

MIN_SIGN_CORRELATION = -0.7

MIN_ERROR = 0.05
"""A delay or a scale that costs less than this part of the joint's scale is not worth a word."""

GAIN_BIC, FALSE_ALARM = 20.0, 3e-5
"""How sure. BIC better than "no fault" by 20 (10 is "very strong", Kass and Raftery 1995); offset and log scale farther
from what a good policy shows than Student's t allows with this one-sided probability (four standard errors for many
samples, thirteen for five). Measured on random recordings of 2 to 14 joints with errors of 1–10 % of the range: without
these, slow or chunk-wise errors in episodes of 60 to 120 frames passed for an OFFSET, SCALE or LAG in 10 of 60 draws;
with 10 and four standard errors in 12 of 300."""

TIE_BIC, TIE_RATIO = 6.0, 1.1
"""Two explanations fit equally well when BIC differs by less than 6 ("strong", Kass and Raftery 1995) or the mean
square residuals by less than a tenth."""


@dataclass(frozen=True)
class Explanation:
    """One fitted model.

    Args:
        codes: What it would be called; empty for "the prediction is the recording plus noise".
        rms: Root mean square of what it leaves unexplained, in the joint's unit.
        score: BIC, lower is better.
        offset: Constant added.
        factor: What the recorded motion is multiplied by (1 where the model has no factor).
        lag: Delay in frames, positive when the prediction is late.
    """

    codes: tuple[str, ...]
    rms: float
    score: float
    offset: float = 0.0
    factor: float = 1.0
    lag: int = 0

    @property
    def centre(self) -> float:
        """The value that the model leaves where it is; NaN for a pure offset."""
        return self.offset / (1 - self.factor) if self.factor != 1 else float("nan")


@dataclass(frozen=True)
class Choice:
    """The explanation that fits best, those that fit equally well under another name, and "no fault" for comparison.

    ``best`` is None where no explanation is large and good enough.
    """

    identity: Explanation
    best: Explanation | None
    rivals: tuple[Explanation, ...] = ()


def explain(recorded: Floats, predicted: Floats, episodes: Sequence[slice], *, scale: float, lag_limit: int) -> Choice:
    """Fit and compare all explanations of one joint.

    Args:
        recorded, predicted: ``[T]``.
        episodes: Slices of ``[0, T)``; no delay reaches across them.
        scale: What counts as a large motion of this joint, in its unit; see the constants.
        lag_limit: Largest delay looked for, in frames.
    """
    lags = [0]
    for lag in (
        best_lag(recorded, predicted, episodes, lag_limit),
        best_lag(recorded, -predicted, episodes, lag_limit),  # mirrored and late
        _closest_lag(recorded, predicted, episodes, lag_limit),  # on a ramp all delays correlate alike
    ):
        if np.isfinite(lag) and int(lag) not in lags:
            lags.append(int(lag))
    shifted = np.stack([delayed(recorded, lag, episodes) for lag in lags])
    common = np.isfinite(predicted) & np.isfinite(shifted).all(axis=0)
    y, p = shifted[:, common], predicted[common]

    floor = (1e-3 * scale) ** 2  # no recording is finer; keeps the logarithm finite for exact copies
    raw = [(lag, x, *shape) for lag, x in zip(lags, y, strict=True) for shape in _shapes(x, p)]
    residuals = [p - offset - factor * x for _, x, _, offset, factor, _ in raw]
    squares = np.array([np.mean(r**2) for r in residuals])
    effective = _effective_samples(residuals[int(np.argmin(squares))])
    fits = []
    for (lag, _, code, offset, factor, parameters), square in zip(raw, squares, strict=True):
        codes = tuple(c for c in ("LAG" if lag else "", code) if c)
        count = parameters + 2 * bool(lag)  # a delay is searched for, which costs more than a fitted number
        score = float(effective * np.log(square + floor) + count * np.log(effective))
        fits.append(Explanation(codes, float(np.sqrt(square)), score, offset, factor, lag))

    identity = fits[0]
    undelayed: dict[tuple[str, ...], float] = {}
    for f in fits:
        if not f.lag:
            undelayed[f.codes] = min(f.rms, undelayed.get(f.codes, np.inf))
    valid = [
        f
        for f, (lag, x, code, *_) in zip(fits, raw, strict=True)
        if f.codes
        and f.rms**2 <= EXPLAINED * identity.rms**2
        and f.rms <= max(LEFT_OVER * scale, 0.6 * float(p.std()))
        and identity.score - f.score >= GAIN_BIC
        and (f.codes == ("OFFSET",) or identity.rms >= MIN_ERROR * scale)
        and (not lag or f.rms**2 <= EXPLAINED * undelayed.get((code,) if code else (), identity.rms) ** 2)
        and (not code or _is_large(code, p, x, scale, f.rms, effective))
    ]
    if not valid:
        return Choice(identity, None)
    best = min(valid, key=lambda f: f.score)
    rivals: dict[tuple[str, ...], Explanation] = {}
    for f in sorted(valid, key=lambda f: f.score):
        tied = f.score - best.score < TIE_BIC or f.rms**2 + floor < TIE_RATIO * (best.rms**2 + floor)
        if tied and not set(f.codes) >= set(best.codes) and f.codes not in rivals:
            rivals[f.codes] = f
    return Choice(identity, best, tuple(rivals.values()))


def _closest_lag(recorded: Floats, predicted: Floats, episodes: Sequence[slice], limit: int) -> int:
    """The lag with the least mean square error; of equal ones the smallest."""

    def square(lag: int) -> float:
        error = predicted - delayed(recorded, lag, episodes)
        error = error[np.isfinite(error)]
        return float(error @ error) / error.size if error.size else np.inf

    return min(sorted(range(-limit, limit + 1), key=abs), key=square)


def _shapes(x: Floats, p: Floats) -> list[tuple[str, float, float, int]]:
    """(code, offset, factor, parameters) of every model of ``p`` given the reference ``x``; the identity first."""
    shapes = [("", 0.0, 1.0, 0), ("OFFSET", float(np.mean(p - x)), 1.0, 1)]
    shapes += [("SIGN", 0.0, -1.0, 0), ("SIGN", float(np.mean(p + x)), -1.0, 1)]
    power, variance = float(x @ x), float(np.var(x))
    if variance > 0:
        factor = float(x @ p) / power
        if factor > 0:
            shapes.append(("SCALE", 0.0, factor, 1))
        slope = float(np.mean((x - x.mean()) * (p - p.mean()))) / variance
        if slope != 0:
            code = "SCALE" if slope > 0 else "SIGN"
            shapes.append((code, float(p.mean() - slope * x.mean()), slope, 2))
    return shapes


def _is_large(code: str, p: Floats, x: Floats, scale: float, rms: float, effective: float) -> bool:
    """Whether ``p`` departs from the reference ``x`` in the way ``code`` says by enough to be a fault."""
    sure = float(student_t.isf(FALSE_ALARM, effective - 1) / np.sqrt(effective))
    if code == "OFFSET":
        error = p - x
        blocks = np.array([block.mean() for block in np.array_split(error, 8)])
        return bool(abs(error.mean()) >= max(MIN_OFFSET * scale, blocks.std() / EVERYWHERE, sure * rms))
    r = correlation(x, p)
    if not np.isfinite(r):
        return False
    if code == "SIGN":
        return r <= MIN_SIGN_CORRELATION
    beyond = abs(np.log(p.std() / x.std())) + np.log(max(r, 1e-9))
    return bool(r >= MIN_SCALE_CORRELATION and beyond > max(-np.log(SCALE_MARGIN), sure * np.sqrt(max(0.0, 1 - r * r))))


def _effective_samples(residual: Floats) -> float:
    """Independent samples that carry as much as these, for AR(1) residuals; at least 5.

    The lag-one correlation is corrected for its bias in short series, (1 + 4ρ)/n (Marriott and Pope 1954).
    """
    neighbours = correlation(residual[:-1], residual[1:])
    if not np.isfinite(neighbours):  # nothing is left over
        return max(5.0, float(len(residual)))
    rho = float(np.clip(neighbours + (1 + 4 * neighbours) / len(residual), 0.0, 0.98))
    return max(5.0, len(residual) * (1 - rho) / (1 + rho))
