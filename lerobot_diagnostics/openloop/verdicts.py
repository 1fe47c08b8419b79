"""What is wrong with predicted actions, in words: recorded and predicted arrays in, findings out.

Every check that looked and found nothing says so with a ``pass`` (what it looked at, and how far from a fault it was);
one that could not decide says ``unknown``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lerobot_diagnostics.findings import Finding, Status
from lerobot_diagnostics.openloop.arrays import MIN_FRAMES, Arrays, checked, new_finding, signed
from lerobot_diagnostics.openloop.checks import judge_stationary_prefix
from lerobot_diagnostics.openloop.explanations import Choice, explain
from lerobot_diagnostics.openloop.joints import (
    find_explained,
    find_flat,
    find_gripper_flat,
    find_missed_grasps,
    find_nan,
    find_near_constant,
    find_poor_fit,
)
from lerobot_diagnostics.openloop.metrics import (
    correlation,
    lag_limit,
)
from lerobot_diagnostics.openloop.whole import find_mean_replay, find_permuted, find_unnormalized
from lerobot_diagnostics.report.format import count_of

CODES = (
    "NAN",
    "UNNORMALIZED",
    "FLAT",
    "GRIPPER_FLAT",
    "MEAN_REPLAY",
    "PERMUTED",
    "OFFSET",
    "SCALE",
    "SIGN",
    "LAG",
    "POOR_FIT",
    "NEAR_CONSTANT",
    "STATIONARY_PREFIX",
)
"""The codes :func:`judge` looks for, each present in every result at least once."""


def judge(
    recorded: npt.ArrayLike,
    predicted: npt.ArrayLike,
    *,
    names: Sequence[str],
    fps: float,
    states: npt.ArrayLike | None = None,
    gripper: Sequence[str | int] = (),
    train_mean: npt.ArrayLike | None = None,
    train_std: npt.ArrayLike | None = None,
    mean_trajectory: npt.ArrayLike | None = None,
    hold: npt.ArrayLike | None = None,
    units: Sequence[str] | None = None,
    episode_index: npt.ArrayLike | None = None,
    trained_on: bool = False,
) -> list[Finding]:
    """Compare predicted with recorded actions and say what is wrong, joint by joint.

    Args:
        recorded: ``[T, J]`` recorded actions in the data set's own units, episodes one after the other.
        predicted: ``[T, J]`` predicted actions for the same frames.
        names: J joint names.
        fps: Frames a second.
        states: ``[T, J]`` measured states in the actions' order, to tell a delay from a copy of the current state.
        gripper: Gripper joints, by name or position; by default every joint with "gripper" in its name.
        train_mean: ``[J]`` mean action of the training data; ``[T, J]`` is taken as ``mean_trajectory``.
        train_std: ``[J]`` its standard deviation.
        mean_trajectory: ``[T, J]`` the mean over the training episodes at the same relative time
            (:class:`~lerobot_diagnostics.openloop.metrics.MeanTrajectory`).
        hold: ``[T, J]`` the state at the last prediction start
            (:func:`~lerobot_diagnostics.openloop.metrics.hold_state`).
        units: J units; empty, the default, where not known. Only joints of one unit are weighed against each other.
        episode_index: ``[T]`` episode of each frame; one episode without it.
        trained_on: Whether the policy was trained on this data set, by its name: then no joint's zero lies between
            prediction and recording.

    Returns:
        Findings in the order of :data:`CODES`; each code occurs, with status ``pass`` where it was looked for in vain.

    Raises:
        UsageError: When the arrays do not belong together.
    """
    arrays = checked(
        recorded, predicted, names, fps, states, gripper, train_mean, train_std, mean_trajectory, hold, units,
        episode_index, trained_on,
    )  # fmt: skip
    findings = find_nan(arrays) + find_near_constant(arrays)
    findings += judge_stationary_prefix(arrays.y, fps=fps, episode_index=arrays.episode_index)
    unknown = [j for j in range(len(arrays.names)) if j not in arrays.scored]
    if not arrays.scored:
        reason = f"fewer than {MIN_FRAMES} frames with finite values on both sides: nothing can be said"
        findings += [new_finding(c, Status.UNKNOWN, "all joints", reason) for c in CODES if c not in _codes(findings)]
        return _ordered(findings)

    explained: set[int] = set()

    def add(found: tuple[list[Finding], set[int]]) -> None:
        findings.extend(found[0])
        explained.update(found[1])

    limit = lag_limit(fps, arrays.episodes)
    add(find_unnormalized(arrays))
    choices = {
        j: explain(arrays.y[:, j], arrays.p[:, j], arrays.episodes, scale=arrays.scale[j], lag_limit=limit)
        for j in arrays.scored
        if j not in explained
    }
    add(find_permuted(arrays, choices))
    add(find_flat(arrays, explained))
    add(find_mean_replay(arrays, explained))
    add(find_gripper_flat(arrays, choices, explained))
    add(find_explained(arrays, {j: c for j, c in choices.items() if j not in explained}))
    add(find_missed_grasps(arrays, explained))
    findings += find_poor_fit(arrays, [j for j in arrays.moving if j not in explained])
    findings += [
        new_finding(
            "POOR_FIT",
            Status.UNKNOWN,
            arrays.names[j],
            f"{arrays.names[j]} has fewer than {MIN_FRAMES} frames with finite values on both sides: not judged.",
        )
        for j in unknown
    ]
    return _ordered(findings + _passes(arrays, choices, _codes(findings)))


def _passes(a: Arrays, choices: dict[int, Choice], present: set[str]) -> list[Finding]:
    """A finding for each code that was looked for in vain, with the figure nearest to a fault."""
    names = a.names
    said = {
        "NAN": f"All {len(a.y)} frames of {len(names)} joints are finite.",
        "NEAR_CONSTANT": f"All {len(names)} joints move in the recording.",
    }
    reason = ""
    if not a.moving:
        reason = "No joint moves in the recording: there are no shapes to compare."
    elif not choices:
        reason = "Not judged: the predictions are in other units than the recording."
    if reason:
        return [
            new_finding(c, Status.PASS if c in said else Status.UNKNOWN, "all joints", said.get(c, reason))
            for c in CODES
            if c not in present
        ]
    ratio = {j: float(np.nanstd(a.p[:, j]) / np.nanstd(a.y[:, j])) for j in a.moving}
    least, most = min(ratio, key=ratio.__getitem__), max(ratio, key=ratio.__getitem__)
    r = {j: correlation(a.y[:, j], a.p[:, j]) for j in a.moving}
    worst_r = min(r, key=lambda j: r[j] if np.isfinite(r[j]) else 2.0)
    bias = {j: float(np.nanmean(a.p[:, j] - a.y[:, j])) for j in a.scored}
    shifted = max(bias, key=lambda j: abs(bias[j]) / a.scale[j])
    left = {j: (c.best or c.identity).rms / a.scale[j] for j, c in choices.items()}
    worst = max(left, key=left.__getitem__)
    spread = f"{ratio[least]:.2f} times the recorded spread ({names[least]})"
    said |= {
        "UNNORMALIZED": f"Predictions spread {ratio[least]:.2f}–{ratio[most]:.2f} times the recording: same units.",
        "FLAT": f"Every joint follows the recording; the flattest has {spread}.",
        "MEAN_REPLAY": "Predictions are closer to the recordings than to one motion repeated.",
        "PERMUTED": f"Of {len(choices)} joints each fits its own recording best.",
        "OFFSET": f"No constant shift; the largest bias is {signed(a, shifted, bias[shifted])} ({names[shifted]}).",
        "SCALE": f"No joint moves too far or too little throughout; the least has {spread}.",
        "SIGN": f"Every joint moves the right way; the lowest correlation is {r[worst_r]:.2f} ({names[worst_r]}).",
        "LAG": f"No delay explains the error (looked up to {count_of(lag_limit(a.fps, a.episodes), 'frame')}).",
        "POOR_FIT": f"No large error is unexplained; largest {100 * left[worst]:.0f} % of range ({names[worst]}).",
    }
    findings = [new_finding(c, Status.PASS, "all joints", text) for c, text in said.items() if c not in present]
    if "GRIPPER_FLAT" not in present:
        grippers = [j for j in a.grippers if j in a.moving]
        if grippers:
            text = f"{', '.join(names[j] for j in grippers)} opens and closes in the prediction."
            findings.append(new_finding("GRIPPER_FLAT", Status.PASS, ", ".join(names[j] for j in grippers), text))
        else:
            text = (
                "No gripper moves in the recording." if a.grippers else "No joint is named as gripper: not looked at."
            )
            findings.append(new_finding("GRIPPER_FLAT", Status.INFO, "gripper", text))
    return findings


def _codes(findings: Sequence[Finding]) -> set[str]:
    return {f.code for f in findings}


def _ordered(findings: list[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda f: CODES.index(f.code))
