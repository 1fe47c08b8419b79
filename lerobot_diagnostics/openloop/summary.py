"""An evaluation as a report: figures, findings, pictures and one verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lerobot_diagnostics.findings import Cause, Finding, Picture, Report, Status, Table, Verdict, by_severity
from lerobot_diagnostics.openloop.checkpoint import LoadedPolicy
from lerobot_diagnostics.openloop.checks import (
    judge_checkpoints,
    judge_commit,
    judge_images,
    judge_splits,
    judge_stats,
)
from lerobot_diagnostics.openloop.evaluate import Ablation, Evaluation
from lerobot_diagnostics.openloop.metrics import GripperScore, JointScore
from lerobot_diagnostics.openloop.scores import (
    HOLD,
    MEAN_TRAJECTORY,
    TRAIN_MEAN,
    Baselines,
    Side,
    joint_units,
    mean_error_over_range,
    sides,
)
from lerobot_diagnostics.openloop.split import HELD_OUT, TRAIN, UNSEEN, Split
from lerobot_diagnostics.openloop.verdicts import judge
from lerobot_diagnostics.recording import Recording
from lerobot_diagnostics.report.plots import checkpoint_curve

COMMAND = "lerobot-open-loop-eval"
NEXT = (
    "Low open-loop error does not promise success: the demonstrations' own pictures were shown. If the live arm still "
    "misses, the setup is the next suspect: compare the live cameras with the recording, then the calibration."
)


def ablation_findings(ablation: Ablation | None) -> list[Finding]:
    """IGNORES_IMAGES from a picture ablation, errors over each joint's range (of the looks at hand)."""
    if ablation is None:
        return []
    span = np.ptp(ablation.recorded, axis=(0, 1))
    moving = span > 0
    spread = ablation.normal.std(axis=(0, 1))

    def error(predicted: np.ndarray[Any, Any]) -> float:
        rmse = np.sqrt(np.mean((predicted - ablation.recorded) ** 2, axis=(0, 1)))
        return float(np.mean(rmse[moving] / span[moving])) if moving.any() else float("nan")

    def change(predicted: np.ndarray[Any, Any]) -> float:
        rms = np.sqrt(np.mean((predicted - ablation.normal) ** 2, axis=(0, 1)))
        varied = spread > 1e-9
        return float(np.mean(rms[varied] / spread[varied])) if varied.any() else 0.0

    return judge_images(
        error(ablation.normal),
        error(ablation.blank),
        error(ablation.exchanged),
        change(ablation.blank),
        change(ablation.exchanged),
    )


def stats_findings(loaded: LoadedPolicy, recording: Recording, *, trained_on: bool, limit: int) -> list[Finding]:
    """STATS_MISSING always; STATS_STALE where this is the training data set and has at most ``limit`` episodes.

    Training normalizes by the whole data set's ``meta/stats.json``, whichever episodes it is given or holds out.
    """
    steps = [*loaded.preprocessor.steps, *loaded.postprocessor.steps]
    stats: dict[str, dict[str, Any]] = {}
    for step in steps:
        tensors = getattr(step, "_tensor_stats", None) or {}
        for feature, values in tensors.items():
            stats.setdefault(feature, {}).update({k: np.asarray(v.cpu()).reshape(-1) for k, v in values.items()})
    if not any(hasattr(step, "_tensor_stats") for step in steps):
        return []
    config = loaded.config
    norm = {str(getattr(k, "value", k)): str(getattr(v, "value", v)) for k, v in config.normalization_mapping.items()}
    features = {**(config.input_features or {}), **(config.output_features or {})}
    modes = {key: norm.get(str(getattr(f.type, "value", f.type)), "IDENTITY") for key, f in features.items()}
    data: dict[str, Any] = {}
    if trained_on and recording.total_episodes <= limit:
        episodes = [recording.episode(index) for index in recording.episode_indices]
        back = {loaded.rename_map.get(key, key): key for key in recording.features}
        for key in modes:
            own = back.get(key)
            if own is None or own in recording.cameras or key not in stats:
                continue
            data[key] = np.concatenate([e.column(own).reshape(len(e), -1) for e in episodes])
    return judge_stats(
        stats, modes, data, {"action": recording.action_names, "observation.state": recording.state_names}
    )


def _joint_table(side: Side, scores: Sequence[JointScore]) -> Table:
    def baseline(score: JointScore, name: str) -> float | None:
        return score.baselines[name].mae if name in score.baselines else None

    columns = [
        "joint", "unit", "MAE", "RMSE", "bias", "error/range %", "correlation", "lag frames",
        "MAE hold state", "MAE train mean", "MAE mean trajectory",
    ]  # fmt: skip
    rows = [
        [
            s.name, s.unit or "?", s.mae, s.rmse, s.bias, 100 * s.error_over_range, s.correlation, s.lag_frames,
            baseline(s, HOLD), baseline(s, TRAIN_MEAN), baseline(s, MEAN_TRAJECTORY),
        ]
        for s in scores
    ]  # fmt: skip
    numbers = ", ".join(str(r.episode.index) for r in side.results)
    return Table(
        f"Per joint, {side.name} episodes ({side.label})",
        columns,
        rows,
        f"Episodes {numbers}. A policy is worth something where its MAE is well below the last three columns.",
    )


def _gripper_table(grippers: Mapping[str, Sequence[GripperScore]], label: str) -> Table | None:
    rows = [
        [side, g.name, len(g.recorded), len(g.predicted), g.missed, g.extra, g.timing_error_frames, g.timing_error_ms]
        for side, scores in grippers.items()
        for g in scores
    ]
    if not rows:
        return None
    columns = ["episodes", "gripper", "recorded", "predicted", "missed", "extra", "late by frames", "late by ms"]
    return Table(f"Gripper events ({label})", columns, rows, "An event is a passage from open to closed or back.")


def summarize(
    evaluation: Evaluation,
    recording: Recording,
    split: Split,
    baselines: Baselines,
    *,
    ablation: Ablation | None = None,
    stats: Sequence[Finding] = (),
    inputs: Mapping[str, Any] | None = None,
    versions: Mapping[str, str] | None = None,
    output_dir: Path | None = None,
) -> tuple[Report, dict[str, Side], list[str]]:
    """Figures, findings and the verdict; the sides and units of the reported checkpoint for whoever draws pictures.

    The last checkpoint is reported in detail; the sweep compares all. Held-out figures come from episodes LeRobot held
    out, or, where it held none out, from those training was not given.
    """
    names, fps = recording.action_names, recording.fps
    by_label = {label: sides(evaluation, label, baselines) for label in evaluation.plans}
    complete = [label for label, found in by_label.items() if found]
    if not complete:
        verdict = Verdict("undecided", "Stopped before one episode was predicted to its end.", (), ("everything",))
        cut = {"interrupted": evaluation.interrupted}
        return Report(COMMAND, verdict, inputs=inputs or {}, versions=versions or {}, results=cut), {}, []
    label = complete[-1]
    reported = by_label[label]
    everything = np.concatenate([side.recorded for side in reported.values()])
    units = joint_units(everything, names)
    span = np.nanmax(everything, axis=0) - np.nanmin(everything, axis=0)
    scores = {lab: {side: found.scores(names, units, fps) for side, found in by_label[lab].items()} for lab in complete}
    grippers = {side: found.grippers(names, fps) for side, found in reported.items()}

    unseen = HELD_OUT if HELD_OUT in reported else UNSEEN
    main = TRAIN if TRAIN in reported else next(iter(reported))
    chosen = reported[main]
    findings = judge(
        chosen.recorded,
        chosen.predicted,
        names=names,
        fps=fps,
        states=chosen.states,
        train_mean=baselines.train_mean,
        train_std=baselines.train_std,
        mean_trajectory=chosen.mean_trajectory,
        hold=chosen.hold,
        units=units,
        episode_index=chosen.episode_index,
        trained_on=main == TRAIN,
    )
    over = {lab: {side: mean_error_over_range(s, span) for side, s in scores[lab].items()} for lab in complete}
    mean_base = {side: mean_error_over_range(s, span, TRAIN_MEAN) for side, s in scores[label].items()}
    nan = float("nan")
    findings += judge_splits(
        over[label].get(TRAIN, nan), over[label].get(unseen, nan), baseline=mean_base.get(unseen, nan)
    )
    steps = _steps(complete)
    if len(complete) > 1 and steps is not None and TRAIN in reported:
        findings += judge_checkpoints(
            steps,
            [over[lab].get(TRAIN, nan) for lab in complete],
            [over[lab].get(unseen, nan) for lab in complete] if unseen in reported else None,
            baseline=mean_base[TRAIN],
        )
    findings += [*stats, *ablation_findings(ablation), *judge_commit(evaluation.plans[label].horizon, fps)]

    tables = []
    pictures = []
    if len(complete) > 1:
        columns = ["checkpoint", *(f"{side} error/range %" for side in reported)]
        rows = [[lab, *(100 * over[lab].get(side, nan) for side in reported)] for lab in complete]
        rows.append(["training mean", *(100 * mean_base[side] for side in reported)])
        tables.append(
            Table(
                "Checkpoints",
                columns,
                rows,
                "RMSE over the range of motion in all evaluated episodes, mean over the joints that move.",
            )
        )
        if output_dir is not None and steps is not None:
            series = {side: [100 * over[lab].get(side, nan) for lab in complete] for side in reported}
            ylabel = "RMSE / range of motion (%)"
            checkpoint_curve(
                output_dir / "checkpoints.png", steps, series, ylabel=ylabel, title="Error over training steps"
            )
            pictures.append(Picture("checkpoints.png", "Error over training steps", "Checkpoints"))
    tables += [_joint_table(side, scores[label][name]) for name, side in reported.items()]
    gripper_table = _gripper_table(grippers, label)
    tables += [gripper_table] if gripper_table else []

    plan = evaluation.plans[label]
    results = {
        "reported_checkpoint": label,
        "units": dict(zip(names, units, strict=True)),
        "split": {"reason": split.reason, "train": split.of(TRAIN), "held_out": split.of(HELD_OUT)},
        "execution": {
            lab: {"mode": p.mode, "horizon": p.horizon, "note": p.note} for lab, p in evaluation.plans.items()
        },
        "error_over_range": over,
        "joints": {lab: {side: [_plain(s) for s in found] for side, found in scores[lab].items()} for lab in complete},
        "grippers": {
            side: [
                {
                    "name": g.name, "recorded": len(g.recorded), "predicted": len(g.predicted), "missed": g.missed,
                    "extra": g.extra, "timing_error_frames": g.timing_error_frames,
                    "timing_error_ms": g.timing_error_ms,
                }
                for g in found
            ]
            for side, found in grippers.items()
        },
        "baselines": {"read_from": baselines.source, "train_mean": baselines.train_mean},
        "decode_passes": evaluation.passes,
        "interrupted": evaluation.interrupted,
    }  # fmt: skip
    report = Report(
        command=COMMAND,
        verdict=_verdict(findings, evaluation, split, plan.note, over[label], mean_base, label),
        findings=by_severity(findings),
        inputs=inputs or {},
        versions=versions or {},
        timings=dict(evaluation.timings),
        results=results,
        tables=tables,
        pictures=pictures,
    )
    return report, reported, units


def _steps(labels: Sequence[str]) -> list[int] | None:
    """Training steps of checkpoint labels, ``None`` where one has none."""
    numbers = [label.removeprefix("step ") for label in labels]
    return [int(number) for number in numbers] if all(number.isdigit() for number in numbers) else None


def _plain(score: JointScore) -> dict[str, Any]:
    plain = {key: value for key, value in vars(score).items() if key != "baselines"}
    return plain | {"baselines": {name: vars(errors) for name, errors in score.baselines.items()}}


def _verdict(
    findings: Sequence[Finding],
    evaluation: Evaluation,
    split: Split,
    note: str,
    over: Mapping[str, float],
    baseline: Mapping[str, float],
    label: str,
) -> Verdict:
    failed = [f for f in findings if f.status is Status.FAIL]
    cannot = [f"{f.code}: {f.summary}" for f in findings if f.status is Status.UNKNOWN]
    if split.reason:
        cannot.append(f"Training and held-out episodes: {split.reason}.")
    if note:
        cannot.append(f"It was stepped frame by frame: {note}.")
    if evaluation.interrupted:
        cannot.append("The run was interrupted: episodes that were not finished are left out.")
    cannot.append(NEXT)
    figures = ", ".join(
        f"{100 * value:.1f} % of the range of motion on {side} episodes (predicting the training mean: "
        f"{100 * baseline[side]:.1f} %)"
        for side, value in over.items()
    )
    if failed:
        first = by_severity(failed)[0]
        causes = {f.cause for f in failed}
        cause = first.cause if len(causes) == 1 else Cause.MODEL if Cause.MODEL in causes else first.cause
        return Verdict(
            cause, f"{label}: {first.summary} Error: {figures}.", list(dict.fromkeys(f.code for f in failed)), cannot
        )
    if not all(np.isfinite(value) for value in over.values()):
        return Verdict("undecided", f"{label}: some errors could not be computed. Error: {figures}.", (), cannot)
    return Verdict(
        "none_found",
        f"{label} reproduces the recorded actions within {figures}: nothing wrong with the model was found.",
        [],
        cannot,
    )
