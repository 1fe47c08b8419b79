"""Verdicts that rest on more than one pair of arrays: pictures, splits, checkpoints, statistics, timing.

Errors are relative to the range of motion (rmse / range, as ``JointScore.error_over_range``) unless said otherwise.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lerobot_diagnostics.findings import Cause, Finding, Status
from lerobot_diagnostics.openloop.metrics import episode_slices

IGNORED = 0.02
"""Pictures are ignored when replacing them moves the predictions by less than 2 % of their own spread."""

NO_GAIN = 1.02
"""Pictures gain nothing when those of other moments do as well within 2 %."""

OVERFIT_RATIO, POOR = 1.5, 0.5
"""Held-out error at least half as large again as on training episodes, and above half of what a constant costs."""

FALLING = 0.05
"""An error falls (rises) when its last third of checkpoints is 5 % lower (higher) than what came before."""

WRONG = 0.8
"""An error on training episodes above 80 % of what a constant costs means that nothing of them was learned."""

MEAN_SHIFT, STD_RATIO, END_SHIFT = 0.25, 1.4, 0.1
"""Statistics are stale when the mean is off by a quarter standard deviation, the standard deviation by a factor of
1.4, or an end (min, max, quantile) by a tenth of the range: chosen so that rounding and a few more episodes (tested:
15 % more data) pass, and what a policy would notice does not."""

EXACT = 0.05
"""Departure, in units of what is stale, up to which a statistic counts as the very number: float32 keeps 1e-6."""
MOST_EXCHANGED = 6
"""Dimensions whose order is tried: 720 orders."""

STATS_OF_MODE: Mapping[str, tuple[str, ...]] = {
    "MEAN_STD": ("mean", "std"),
    "MIN_MAX": ("min", "max"),
    "QUANTILES": ("q01", "q99"),
    "QUANTILE10": ("q10", "q90"),
}
"""What LeRobot's normalizer reads in each mode. Others are not compared: its averaged quantiles differ from those of
the whole in three of six real recordings and concern only who uses them."""

LONG_COMMIT_S = 2.0
"""ACT was published with 100 steps at 50 Hz; longer than that nothing seen can change the motion."""

PREFIX_S, PREFIX_MOTION = 1.0, 0.02
"""Standing still for a second teaches a policy to stand still. Moved: 2 % of a joint's range away from the start."""

type Stats = Mapping[str, Mapping[str, npt.ArrayLike]]


def quantity(value: float, unit: str, like: float | None = None) -> str:
    """A number with its unit as people write it: ``11.5°``, ``203 ticks``, ``3 of ±100``.

    Three significant digits, or as many decimals as ``like`` gets.
    """
    size = abs(value if like is None else like)
    digits = (
        0 if size >= 100 else 1 if size >= 10 or size == 0 else min(4, 2 - int(np.floor(np.log10(max(size, 1e-4)))))
    )
    number = f"{value:.{digits}f}"
    if "." in number and size < 10:
        number = number.rstrip("0").rstrip(".")
    if unit in {"±100", "0–100"}:
        return f"{number} of {unit}"  # "3 ±100" would be a tolerance
    return number + (unit if unit in {"°", "%", ""} else f" {unit}")


def judge_images(
    error_normal: float, error_blank: float, error_exchanged: float, change_blank: float, change_exchanged: float
) -> list[Finding]:
    """IGNORES_IMAGES: does the policy look?

    Args:
        error_normal, error_blank, error_exchanged: Error against the recording with the recorded pictures, blank ones,
            and those of other moments.
        change_blank, change_exchanged: Rms difference of these predictions to the normal ones, over the standard
            deviation of the normal ones (mean over the joints that move).
    """
    evidence = {
        "error_over_range": error_normal,
        "error_blank_over_range": error_blank,
        "error_exchanged_over_range": error_exchanged,
        "change_blank_over_spread": change_blank,
        "change_exchanged_over_spread": change_exchanged,
    }
    changed = (
        f"blank pictures move the prediction by {_percent(change_blank)} of its spread, exchanged ones by "
        f"{_percent(change_exchanged)}"
    )

    def finding(status: Status, summary: str, fix: str = "") -> list[Finding]:
        return [Finding("IGNORES_IMAGES", status, Cause.MODEL, "pictures", summary, evidence, fix)]

    if not np.isfinite(list(evidence.values())).all():
        return finding(Status.UNKNOWN, "The predictions with other pictures are not finite: cannot tell.")
    fix = (
        "Check that the camera keys of config.json's input_features are those of the data set (--rename_map); with the "
        "right keys, vary the objects' places in the demonstrations so that the state alone does not give the answer."
    )
    if max(change_blank, change_exchanged) < IGNORED:
        return finding(Status.FAIL, f"The policy ignores the pictures: {changed}.", fix)
    if error_exchanged <= NO_GAIN * error_normal:
        summary = (
            f"The policy sees the pictures but gains nothing from them: {changed}, and the error with exchanged "
            f"ones is {_percent(error_exchanged)} of the range against {_percent(error_normal)}."
        )
        return finding(Status.WARN, summary, fix)
    summary = (
        f"The policy uses the pictures: {changed}; with exchanged ones the error grows from "
        f"{_percent(error_normal)} to {_percent(error_exchanged)} of the range."
    )
    return finding(Status.PASS, summary)


def judge_splits(train: float, held_out: float, *, baseline: float) -> list[Finding]:
    """OVERFIT: good on training episodes and poor on held-out ones.

    Args:
        train, held_out: Error over range on either side; NaN where there are no such episodes.
        baseline: Error over range of the training mean on the held-out episodes.
    """
    evidence = {"train_over_range": train, "held_out_over_range": held_out, "train_mean_over_range": baseline}

    def finding(status: Status, summary: str, fix: str = "") -> list[Finding]:
        return [Finding("OVERFIT", status, Cause.MODEL, "held-out episodes", summary, evidence, fix)]

    if not np.isfinite([train, held_out]).all():
        return finding(
            Status.UNKNOWN,
            "Overfitting cannot be told without both training and held-out episodes.",
            "Train with --dataset.eval_split=0.1, or evaluate episodes that training did not see (--dataset.episodes).",
        )
    said = f"{_percent(held_out)} of the range on held-out episodes against {_percent(train)} on training ones"
    if held_out >= OVERFIT_RATIO * train and (not np.isfinite(baseline) or held_out > POOR * baseline):
        fix = (
            "Record more varied demonstrations, stop earlier, or use augmentation "
            "(--dataset.image_transforms.enable=true)."
        )
        return finding(Status.FAIL, f"The policy learned its episodes by heart: {said}.", fix)
    return finding(Status.PASS, f"Held-out episodes are predicted about as well as training ones: {said}.")


def judge_checkpoints(
    steps: Sequence[int], train: Sequence[float], held_out: Sequence[float] | None = None, *, baseline: float
) -> list[Finding]:
    """What the errors over checkpoints say: UNDERTRAINED, WRONG_DATASET, OVERFIT.

    Args:
        steps: Training steps, ascending.
        train, held_out: Error over range at each of them, on training and on held-out episodes.
        baseline: Error over range of the training mean on the training episodes.
    """
    errors = np.asarray(train, dtype=np.float64)
    evidence: dict[str, Any] = {
        "steps": list(steps),
        "train_over_range": errors.tolist(),
        "train_mean_over_range": baseline,
    }
    subject = f"checkpoints {steps[0]}–{steps[-1]}" if len(steps) else "checkpoints"

    def finding(code: str, status: Status, summary: str, fix: str = "") -> Finding:
        return Finding(code, status, Cause.MODEL, subject, summary, evidence, fix)

    if len(steps) < 2 or not np.isfinite([*errors, baseline]).all():
        reason = "The trend needs two checkpoints or more with finite errors on training episodes."
        fix = "Give the folder of all checkpoints: --policy.path=<run>/checkpoints"
        return [finding(code, Status.UNKNOWN, reason, fix) for code in ("UNDERTRAINED", "WRONG_DATASET", "OVERFIT")]
    change = _trend(errors)
    evidence["train_change"] = change
    last = float(errors[-1])
    said = (
        f"{_percent(float(errors[0]))} of the range at step {steps[0]}, {_percent(last)} at {steps[-1]}; a constant "
        f"gives {_percent(baseline)}"
    )
    found = []
    if last > POOR * baseline and change <= -FALLING:
        fix = (
            "Train on: lerobot-train --resume=true "
            "--config_path=<run>/checkpoints/last/pretrained_model/train_config.json --steps=<more>"
        )
        found.append(
            finding(
                "UNDERTRAINED",
                Status.FAIL,
                f"The error on training episodes still falls ({said}): trained too short.",
                fix,
            )
        )
    else:
        found.append(finding("UNDERTRAINED", Status.PASS, f"The error is low or no longer falls ({said})."))
    if last > WRONG * baseline and change > -FALLING:
        way = "rises" if change >= FALLING else "does not fall"
        summary = (
            f"The error on the episodes called training data {way} over checkpoints ({said}): this is not what the "
            "policy was trained on, or their actions mean something else now."
        )
        fix = (
            "Compare dataset.repo_id, root and revision in train_config.json with --dataset.repo_id, and the joint "
            "units."
        )
        found.append(finding("WRONG_DATASET", Status.FAIL, summary, fix))
    else:
        found.append(finding("WRONG_DATASET", Status.PASS, f"The policy learned from these episodes ({said})."))
    if held_out is None or not np.isfinite(held_out).all():
        found.append(
            finding("OVERFIT", Status.UNKNOWN, "No held-out episodes over checkpoints: overfitting cannot be told.")
        )
        return found
    unseen = np.asarray(held_out, dtype=np.float64)
    evidence["held_out_over_range"] = unseen.tolist()
    best = int(np.argmin(unseen))
    if unseen[-1] > (1 + FALLING) * unseen[best] and last < errors[best]:
        summary = (
            f"Held-out error was least at step {steps[best]} ({_percent(float(unseen[best]))} of the range) and has "
            f"risen to {_percent(float(unseen[-1]))} while training error fell."
        )
        found.append(
            finding(
                "OVERFIT",
                Status.WARN,
                summary,
                f"Use checkpoint {steps[best]}: --policy.path=<run>/checkpoints/{steps[best]:06d}/pretrained_model",
            )
        )
    else:
        found.append(
            finding(
                "OVERFIT",
                Status.PASS,
                f"Held-out error does not rise over checkpoints (last {_percent(float(unseen[-1]))} of the range).",
            )
        )
    return found


def _trend(errors: npt.NDArray[np.float64]) -> float:
    """Relative change of the last third of the values (at least one) against the median third before it."""
    tail = max(1, len(errors) // 3)
    before = float(np.mean(errors[-2 * tail : -tail]))
    return float(np.mean(errors[-tail:])) / before - 1 if before > 0 else 0.0


def judge_stats(
    policy_stats: Stats,
    modes: Mapping[str, str],
    data: Mapping[str, npt.ArrayLike],
    names: Mapping[str, Sequence[str]] | None = None,
) -> list[Finding]:
    """STATS_MISSING, STATS_STALE and PERMUTED: the statistics in the checkpoint against its features and the data.

    Args:
        policy_stats: ``{feature: {"mean": [D], "std": [D], "min": …, "q01": …}}`` from the checkpoint's (un)normalizer.
        modes: LeRobot's normalization mode of every configured feature, e.g. ``{"action": "MEAN_STD"}``.
        data: ``{feature: [T, D]}`` values of *all* training episodes; features without are not recomputed.
        names: D names of a feature, for the text.
    """
    needed = {feature: STATS_OF_MODE[mode] for feature, mode in modes.items() if STATS_OF_MODE.get(mode)}
    findings = []
    known = ", ".join(sorted(policy_stats)) or "none"
    for feature, stats in needed.items():
        missing = [stat for stat in stats if stat not in policy_stats.get(feature, {})]
        if not missing:
            continue
        summary = (
            f"{feature} has no {' and '.join(missing)} in the checkpoint (features with statistics: {known}), but is "
            f"normalized by {modes[feature]}; a feature without statistics LeRobot leaves as it is, without a word."
        )
        fix = f"Rename the key in policy_*_normalizer_processor.safetensors to {feature}, or train with this name."
        evidence = {"missing": missing, "known": sorted(policy_stats)}
        findings.append(Finding("STATS_MISSING", Status.FAIL, Cause.CONFIG, feature, summary, evidence, fix))
    if not findings:
        status, summary = Status.PASS, f"All {len(needed)} normalized features have statistics."
        if not needed:
            status, summary = Status.UNKNOWN, "No normalized feature is configured: no statistics to look for."
        findings.append(Finding("STATS_MISSING", status, Cause.CONFIG, "statistics", summary))
    compared = 0
    stale = []
    for feature, given in data.items():
        values = np.asarray(given, dtype=np.float64)
        held, fresh = {}, {}
        for stat in (stat for stat in needed.get(feature, ()) if stat in policy_stats.get(feature, {})):
            old, new = np.asarray(policy_stats[feature][stat], dtype=np.float64).reshape(-1), _statistic(stat, values)
            if old.shape == new.shape:
                held[stat], fresh[stat] = old, new
        compared += len(held)
        labels = (names or {}).get(feature, [f"dimension {i}" for i in range(values.shape[1])])
        if (order := _reordered(held, fresh, values)) is not None:
            stale.append(_exchanged(feature, labels, order))
            continue
        for stat, old in held.items():
            off = _departure(stat, old, fresh[stat], values)
            worst = int(np.argmax(off))
            if off[worst] > 1:
                name, now = labels[worst], fresh[stat]
                summary = (
                    f"{feature}: the {stat} of {name} in the checkpoint is {old[worst]:.4g}, the data give "
                    f"{now[worst]:.4g} ({int((off > 1).sum())} of {len(old)} dimensions differ)."
                )
                fix = (
                    "lerobot-edit-dataset --operation.type recompute_stats, then train anew; a checkpoint keeps "
                    "the statistics it was trained with."
                )
                if stat.startswith("q"):
                    fix += (
                        " LeRobot averages the quantiles of the episodes when it merges them, which is not the "
                        "quantile of the whole."
                    )
                # Averaged quantiles are LeRobot's own doing and were the same in training: worth knowing, no fault.
                status = Status.WARN if stat.startswith("q") else Status.FAIL
                differ = {"statistic": stat, "dimension": name, "checkpoint": old, "data": now}
                stale.append(Finding("STATS_STALE", status, Cause.DATA, feature, summary, differ, fix))
    if not stale:
        status = Status.PASS if compared else Status.UNKNOWN
        summary = (
            f"{compared} statistics of the checkpoint agree with the data."
            if compared
            else "No statistic could be recomputed."
        )
        stale.append(Finding("STATS_STALE", status, Cause.DATA, "statistics", summary))
    return findings + stale


def _reordered(
    held: Mapping[str, npt.NDArray[np.float64]],
    fresh: Mapping[str, npt.NDArray[np.float64]],
    values: npt.NDArray[np.float64],
) -> dict[int, int] | None:
    """Which dimension's statistics each departing one holds, if the checkpoint's are the data's in another order."""
    off = [_departure(stat, old, fresh[stat], values) for stat, old in held.items()]
    which = np.flatnonzero(np.any(np.array(off) > 1, axis=0)).tolist() if off else []
    if not 1 <= len(which) <= MOST_EXCHANGED:
        return None
    # Of two joints that lie alike only one departs: its partner is the one whose statistics it has to the digit.
    sets = [which] if len(which) > 1 else [[*which, j] for j in range(values.shape[1]) if j not in which]
    limit = 1.0 if len(which) > 1 else EXACT
    for chosen in sets:
        for order in itertools.permutations(chosen):
            placed = np.arange(values.shape[1])
            placed[chosen] = order
            left = np.array([_departure(stat, old[placed], fresh[stat], values) for stat, old in held.items()])
            if (left <= 1).all() and (left[:, chosen] <= limit).all():
                return {i: int(placed[i]) for i in chosen}
    return None


def _exchanged(feature: str, names: Sequence[str], order: Mapping[int, int]) -> Finding:
    """PERMUTED: what the data give for one joint stands in the checkpoint for another."""
    pairs = ", ".join(f"that of {names[i]} holds {names[j]}'s" for j, i in order.items())
    summary = f"{feature}: the checkpoint has the data's statistics in another order: {pairs}."
    fix = f"Compare features.{feature}.names in meta/info.json of the training data set with those of this one."
    evidence = {"mapping": {names[i]: names[j] for j, i in order.items()}}
    subject = ", ".join(names[j] for j in order)
    return Finding("PERMUTED", Status.FAIL, Cause.CONFIG, subject, summary, evidence, fix)


def _statistic(stat: str, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The statistic (``mean``, ``std``, ``min``, ``max`` or ``qNN``) recomputed by column."""
    if stat.startswith("q"):
        return np.asarray(np.nanquantile(values, int(stat[1:]) / 100, axis=0))
    return np.asarray(getattr(np, f"nan{stat}")(values, axis=0))


def _departure(
    stat: str, old: npt.NDArray[np.float64], fresh: npt.NDArray[np.float64], values: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """How stale each dimension is; above 1 is too much."""
    spread = np.maximum(np.nanstd(values, axis=0), 1e-6 * np.maximum(1.0, np.nanmax(np.abs(values), axis=0)))
    if stat == "mean":
        off = np.abs(old - fresh) / (MEAN_SHIFT * spread)
    elif stat == "std":
        off = np.abs(np.log(np.maximum(old, 1e-6 * spread) / np.maximum(fresh, 1e-6 * spread))) / np.log(STD_RATIO)
        off[(old < spread * 1e-3) & (fresh < spread * 1e-3)] = 0.0  # neither moves
    else:
        motion = np.nanmax(values, axis=0) - np.nanmin(values, axis=0)
        off = np.abs(old - fresh) / (END_SHIFT * np.maximum(motion, spread))
    return np.asarray(off)


def judge_commit(n_action_steps: int, fps: float) -> list[Finding]:
    """LONG_COMMIT: seconds of motion executed per observation."""
    seconds = n_action_steps / fps
    evidence = {"n_action_steps": n_action_steps, "fps": fps, "seconds": seconds}
    said = f"{n_action_steps} actions at {fps:g} fps: {seconds:.1f} s of motion from one observation"
    if seconds > LONG_COMMIT_S:
        fix = (
            f"--policy.n_action_steps={max(1, round(fps * LONG_COMMIT_S / 2))}, or "
            "--policy.temporal_ensemble_coeff=0.01 --policy.n_action_steps=1 (ACT)"
        )
        summary = f"{said}, in which nothing it sees can change the motion."
        return [Finding("LONG_COMMIT", Status.WARN, Cause.CLOCK, "policy", summary, evidence, fix)]
    return [Finding("LONG_COMMIT", Status.PASS, Cause.CLOCK, "policy", f"{said}.", evidence)]


def judge_stationary_prefix(
    recorded: npt.ArrayLike, *, fps: float, episode_index: npt.ArrayLike | None = None
) -> list[Finding]:
    """STATIONARY_PREFIX: how long the demonstrations stand still before they move.

    Args:
        recorded: ``[T, J]`` recorded actions.
        fps: Frames a second.
        episode_index: ``[T]``.
    """
    y = np.asarray(recorded, dtype=np.float64)
    finite = np.where(np.isfinite(y), y, np.nan)
    empty = ~np.isfinite(y).any(axis=0)
    finite[:, empty] = 0.0
    motion = np.nanmax(finite, axis=0) - np.nanmin(finite, axis=0) if len(y) else np.zeros(y.shape[1])

    def finding(status: Status, summary: str, fix: str = "") -> list[Finding]:
        return [Finding("STATIONARY_PREFIX", status, Cause.DATA, "episodes", summary, evidence, fix)]

    evidence: dict[str, Any] = {}
    if not motion.any():
        return finding(Status.UNKNOWN, "Nothing moves in the recording: no start of motion to look for.")
    prefixes = []
    for episode in episode_slices(len(y), episode_index):
        part = finite[episode]
        # Against the median of the first frames, so that one jittery frame does not start the motion.
        with np.errstate(invalid="ignore"):
            away = (
                np.abs(part - np.nan_to_num(np.nanmedian(part[:3], axis=0), nan=np.inf))
                > PREFIX_MOTION * motion + 1e-12
            )
        moved = (away & np.isfinite(part)).any(axis=1)
        prefixes.append((int(np.argmax(moved)) if moved.any() else len(part)) / fps)
    median, longest = float(np.median(prefixes)), int(np.argmax(prefixes))
    evidence |= {"median_s": median, "longest_s": prefixes[longest], "episodes": len(prefixes)}
    many = f"{len(prefixes)} episodes" if len(prefixes) > 1 else "The episode"
    said = f"{many} stand{'s' if len(prefixes) == 1 else ''} still for {median:.1f} s before moving"
    if len(prefixes) > 1:
        said += f" (median; longest {prefixes[longest]:.1f} s)"
    if median >= PREFIX_S:
        fix = (
            "Cut the pauses or start recording when the motion starts; on the robot, nudge the arm out of the pose "
            "to test it."
        )
        return finding(Status.WARN, f"{said}: a policy trained on this may freeze at the start.", fix)
    return finding(Status.PASS, f"{said}.")


def _percent(part: float) -> str:
    return f"{100 * part:.1f} %"
