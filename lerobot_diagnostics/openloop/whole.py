"""Faults of the arm as a whole: normalized values, a replayed mean, exchanged joints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from lerobot_diagnostics.findings import Cause, Finding, Status
from lerobot_diagnostics.openloop.arrays import (
    FLAT,
    MIN_FRAMES,
    TIED,
    Arrays,
    Found,
    new_finding,
    own_square,
    subject_of,
)
from lerobot_diagnostics.openloop.explanations import EXPLAINED, Choice
from lerobot_diagnostics.openloop.metrics import (
    Floats,
    correlation,
    resampled,
)

REPLAY_FAIL, REPLAY_WARN, ALIKE = 0.25, 0.7, 0.05
"""Mean square distance to the mean trajectory over that to the recording. Demonstrations that differ from their mean
trajectory by less than 5 % of the joint's scale cannot tell the two apart."""

LOOK_ALIKE = 0.15
"""Two joints look alike when their recordings differ by less than this part of their scale (rms) *and* the predictions
fit either nearly as well (:data:`TIED`)."""


def find_unnormalized(a: Arrays) -> Found:
    """Predictions in the policy's normalized space: z-scores, or −1…1 for the range."""
    kinds: dict[int, str] = {}
    telling: set[int] = set()  # joints whose own spread is not near 1 anyway
    correlations = []
    for j in a.moving:
        both = np.isfinite(a.y[:, j]) & np.isfinite(a.p[:, j])
        y, p = a.y[both, j], a.p[both, j]
        if not p.std() > 0:
            continue
        r = correlation(y, p)
        ratio = float(p.std() / y.std())
        mean = a.train_mean[j] if a.train_mean is not None else y.mean()
        std = a.train_std[j] if a.train_std is not None else y.std()
        slope = r * ratio if np.isfinite(r) else 0.0
        intercept = p.mean() - slope * y.mean()
        ends = slope * np.array([y.min(), y.max()]) + intercept
        unlike = abs(np.log(ratio)) > np.log(1.5)
        if r >= 0.7 and abs(intercept + slope * mean) <= 0.5 and 0.5 <= slope * std <= 2:
            kinds[j] = "z-scores (mean 0, spread 1)"
        elif r >= 0.7 and np.abs(ends - [-1, 1]).max() <= 0.4:
            kinds[j] = "the range mapped to −1…1"
        elif ratio < FLAT and p.std() >= 0.15 and np.abs(p).max() <= 6 and abs(p.mean()) <= 1.5:
            kinds[j] = "values of the order of 1"
        else:
            continue
        correlations.append(r if np.isfinite(r) else 0.0)
        if unlike:
            telling.add(j)
    # One joint alone is a wrong scale; statistics are missing for all joints at once.
    if not a.moving or len(telling) < max(min(2, len(a.moving)), 0.6 * len(a.moving)):
        return [], set()
    joints = sorted(kinds)
    factors = [np.nanstd(a.p[:, j]) / np.nanstd(a.y[:, j]) for j in joints]
    if max(abs(np.log(np.array(factors) / (np.pi / 180)))) < 0.1:
        return [], set()  # degrees as radians: SCALE says so joint by joint
    kind = max(set(kinds.values()), key=list(kinds.values()).count)
    worst = max(joints, key=lambda j: a.motion[j])
    ranges = f"{np.nanmin(a.p[:, worst]):.2g}…{np.nanmax(a.p[:, worst]):.2g}"
    truth = f"{np.nanmin(a.y[:, worst]):.3g}…{np.nanmax(a.y[:, worst]):.3g} {a.units[worst]}".rstrip()
    evidence = {
        "joints": [a.names[j] for j in joints],
        "predicted_over_recorded_spread": {a.names[j]: f for j, f in zip(joints, factors, strict=True)},
        "median_correlation": float(np.median(correlations)),
    }
    fix = (
        "Compare the key of the action feature in config.json with the keys of "
        "policy_postprocessor_step_*_unnormalizer_processor.safetensors (expected action.mean, action.std, …)."
    )
    if np.median(correlations) < 0.4:
        summary = (
            f"Predictions are of the order of 1 ({a.names[worst]}: {ranges}, recorded {truth}) but do not follow the "
            "recording: either the actions were never unnormalized, or the policy outputs a constant with noise."
        )
        return [new_finding("UNNORMALIZED", Status.UNKNOWN, "all joints", summary, evidence, fix, Cause.CONFIG)], set()
    summary = (
        f"Predictions are still normalized: {kind} instead of the robot's units ({a.names[worst]} predicted {ranges}, "
        f"recorded {truth}). The action statistics were not found under the policy's key, so nothing was unnormalized."
    )
    finding = new_finding("UNNORMALIZED", Status.FAIL, subject_of(a, joints), summary, evidence, fix, Cause.CONFIG)
    return [finding], set(joints)


def find_mean_replay(a: Arrays, explained: set[int]) -> Found:
    joints = [j for j in a.moving if j not in explained]
    if not joints:
        return [], set()
    mean = a.mean_trajectory
    if mean is None:
        return _same_everywhere(a, joints)
    to_mean = np.array([a.square(j, mean[:, j]) for j in joints])
    to_recording = np.array([a.square(j, a.y[:, j]) for j in joints])
    apart = np.array([np.nanmean(((a.y[:, j] - mean[:, j]) / a.scale[j]) ** 2) for j in joints])
    ratio = float(to_mean.sum() / to_recording.sum())
    evidence = {
        "to_mean_trajectory_over_range": float(np.sqrt(to_mean.mean())),
        "to_recording_over_range": float(np.sqrt(to_recording.mean())),
        "mean_square_ratio": ratio,
        "recording_to_mean_trajectory_over_range": float(np.sqrt(apart.mean())),
    }
    near, far = (f"{100 * evidence[f'to_{k}_over_range']:.1f} %" for k in ("mean_trajectory", "recording"))
    if np.sqrt(apart.mean()) < ALIKE and ratio < 1 / REPLAY_WARN:
        summary = (
            "The demonstrations are so alike (they differ from their mean trajectory by "
            f"{100 * np.sqrt(apart.mean()):.1f} % of the range) that replaying the mean cannot be told from a "
            "good policy."
        )
        return [new_finding("MEAN_REPLAY", Status.UNKNOWN, "all joints", summary, evidence)], set()
    if ratio > REPLAY_WARN:
        return [], set()
    fix = (
        "Check that the pictures reach the policy: lerobot-open-loop-eval predicts again with blank and exchanged "
        "pictures; vary the objects' places in new demonstrations."
    )
    if ratio > REPLAY_FAIL:
        summary = (
            f"Predictions lie closer to the mean trajectory of the training data ({near} of the range) than to the "
            f"recordings ({far}): the policy reacts only a little to what it sees."
        )
        return [new_finding("MEAN_REPLAY", Status.WARN, "all joints", summary, evidence, fix)], set()
    summary = (
        "The policy replays the mean trajectory of the training data whatever it sees: it is "
        f"{near} of the range away from that and {far} from the recordings."
    )
    replayed = {j for j, m, t in zip(joints, to_mean, to_recording, strict=True) if m <= REPLAY_WARN * t}
    return [new_finding("MEAN_REPLAY", Status.FAIL, subject_of(a, sorted(replayed)), summary, evidence, fix)], replayed


def _same_everywhere(a: Arrays, joints: list[int]) -> Found:
    """Without a mean trajectory: is the prediction the same in every episode while the recordings differ?"""
    long = [e for e in a.episodes if e.stop - e.start >= MIN_FRAMES]
    if len(long) < 2:
        summary = (
            "Whether the policy replays a mean trajectory cannot be told from one episode without that trajectory."
        )
        fix = "Judge several episodes (--dataset.episodes) or pass mean_trajectory."
        return [new_finding("MEAN_REPLAY", Status.UNKNOWN, "all joints", summary, fix=fix)], set()
    shortest = min(e.stop - e.start for e in long)

    def between(values: Floats, align: Callable[[Floats], Floats]) -> float:
        """Mean square difference between episodes at the same time, in units of the joints' scale."""
        stacked = np.stack([align(values[e][:, joints]) for e in long]) / a.scale[joints]
        return float(np.nanmean(np.nanvar(stacked, axis=0)))

    relative, absolute = (lambda v: resampled(v, shortest)), (lambda v: v[:shortest])
    with np.errstate(all="ignore"):
        recorded = min(between(a.y, relative), between(a.y, absolute))
        predicted = min(between(a.p, relative), between(a.p, absolute))
    evidence = {"recorded_between_episodes_over_range": recorded**0.5, "predicted_over_range": predicted**0.5}
    said = f"({100 * predicted**0.5:.1f} % of the range between episodes, recordings {100 * recorded**0.5:.1f} %)"
    if recorded**0.5 < ALIKE:
        summary = f"The recordings are so alike {said} that replaying one motion cannot be told from a good policy."
        return [new_finding("MEAN_REPLAY", Status.UNKNOWN, "all joints", summary, evidence)], set()
    if predicted > 0.1 * recorded:
        return [], set()
    summary = f"The policy predicts the same motion in every episode whatever it sees {said}."
    fix = "Check that the pictures reach the policy: lerobot-open-loop-eval predicts again with blank pictures."
    return [new_finding("MEAN_REPLAY", Status.FAIL, "all joints", summary, evidence, fix)], set(joints)


def find_permuted(a: Arrays, choices: dict[int, Choice]) -> Found:
    """Joints whose prediction is another joint's recording.

    The assignment with the least sum of log mean squares is the permutation of highest likelihood under Gaussian
    errors with a variance of their own for each joint.
    """
    joints = [j for j in choices if j in a.moving]
    if len(joints) < 2:
        return [], set()
    square = np.array([[a.square(i, a.y[:, j]) for j in joints] for i in joints])
    finite = np.where(np.isfinite(square), square, 1e12)
    target = linear_sum_assignment(np.log(finite))[1]
    findings: list[Finding] = []
    explained: set[int] = set()
    decided: set[int] = set()
    for cycle in _cycles(target):
        own = [own_square(a, joints[k], choices[joints[k]]) for k in cycle]
        gain = [o / square[k, target[k]] for o, k in zip(own, cycle, strict=True)]
        if min(gain) < 1 / EXPLAINED or max(square[k, k] for k in cycle) < 4 * 0.05**2:
            continue
        decided.update(cycle)
        mapping = {a.names[joints[k]]: a.names[joints[target[k]]] for k in cycle}
        what = " and ".join(mapping) + " are exchanged" if len(cycle) == 2 else _chain(mapping) + " are rotated"
        left = max(np.sqrt(square[k, target[k]]) for k in cycle)
        summary = (
            f"{what}: each prediction fits the other joint's recording to {100 * left:.1f} % of the range. The joint "
            "order of the policy and of the data set differ."
        )
        evidence = {
            "mapping": mapping,
            "reading": "the value predicted for the first is the second's",
            "mean_square_ratio_to_next_best": float(min(gain)),
        }
        fix = "Compare features.action.names in meta/info.json of the training data set with those of this one."
        subject = ", ".join(mapping)
        findings.append(new_finding("PERMUTED", Status.FAIL, subject, summary, evidence, fix, Cause.CONFIG))
        explained.update(joints[k] for k in cycle)
    alike = []
    for m, i in enumerate(joints):
        for n in range(m):
            j = joints[n]
            ratios = np.array([square[m, n] / square[m, m], square[n, m] / square[n, n]])
            difference = float(np.sqrt(np.nanmean((a.y[:, i] - a.y[:, j]) ** 2)))
            swap_fits = (ratios < TIED).all()
            same = difference < LOOK_ALIKE * min(a.scale[i], a.scale[j]) and (ratios > 1 / TIED).all()
            # An exchange and, say, two opposite offsets: both fit.
            rivalled = target[m] == n and target[n] == m and square[m, m] > 4 * 0.05**2 and choices[i].best is not None
            if not {m, n} & decided and swap_fits and (same or rivalled):
                fits = () if same else (choices[i].best or choices[i].identity).codes
                alike.append((a.names[j], a.names[i], difference, " and ".join(fits)))
    if alike:
        pairs = "; ".join(f"{x} and {y}" for x, y, *_ in alike)
        summary = f"{pairs} cannot be told apart in this recording: whether they are exchanged is undecided."
        rivals = sorted({f"{fits} of each" for *_, fits in alike if fits})
        if rivals:
            summary = (
                f"{pairs}: an exchange fits about as well as {' or '.join(rivals)}; this recording does not decide."
            )
        evidence = {"pairs": [[x, y] for x, y, *_ in alike], "rms_difference": [d for _, _, d, _ in alike]}
        fix = "Judge an episode in which these joints move differently (--dataset.episodes)."
        findings.append(new_finding("PERMUTED", Status.UNKNOWN, pairs, summary, evidence, fix))
    return findings, explained


def _cycles(target: npt.NDArray[Any]) -> list[list[int]]:
    """Cycles of length two or more of a permutation."""
    seen: set[int] = set()
    cycles = []
    for start in range(len(target)):
        cycle, k = [], start
        while k not in seen:
            seen.add(k)
            cycle.append(k)
            k = int(target[k])
        if len(cycle) > 1:
            cycles.append(cycle)
    return cycles


def _chain(mapping: dict[str, str]) -> str:
    return ", ".join(f"{x} (predicted as {y})" for x, y in mapping.items())
