"""One open-loop evaluation from a checkpoint's path to its report: find, split, predict, judge, summarize."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Finding, Report
from lerobot_diagnostics.openloop.checkpoint import CheckpointRef, LoadedPolicy
from lerobot_diagnostics.openloop.evaluate import Loader, Progress, ablate_pictures, evaluate
from lerobot_diagnostics.openloop.pictures import draw
from lerobot_diagnostics.openloop.scores import Side, read_baselines, spread
from lerobot_diagnostics.openloop.split import (
    HELD_OUT,
    TRAIN,
    UNSEEN,
    Split,
    TrainingData,
    derive_split,
    resolve_root,
    training_data,
)
from lerobot_diagnostics.openloop.summary import summarize
from lerobot_diagnostics.recording import Recording, open_recording

LOOKS = 24
"""Looks predicted again with other pictures."""


@dataclass(frozen=True)
class Session:
    """Checkpoints and the data set they are judged on.

    Args:
        refs: In the order of their steps; the last is reported in detail.
        recording: The data set.
        training: What the checkpoint says of its training data, if anything.
        same: Whether ``recording`` is the training data set.
        split: What training saw of each episode.
    """

    refs: Sequence[CheckpointRef]
    recording: Recording
    training: TrainingData | None
    same: bool
    split: Split


def open_session(
    refs: Sequence[CheckpointRef],
    *,
    repo_id: str | None = None,
    root: str | None = None,
    revision: str | None = None,
    convert: bool = False,
) -> Session:
    """Open the data set asked for, by default the one the last checkpoint was trained on, and derive the split.

    Args:
        refs: From :func:`~lerobot_diagnostics.openloop.checkpoint.find_checkpoints`.
        repo_id, root, revision, convert: As for :func:`~lerobot_diagnostics.recording.open_recording`.

    Raises:
        UsageError: When no data set is named anywhere, or it cannot be opened.
    """
    last = refs[-1]
    training = training_data(last.read_json("train_config.json"))
    trained_root = resolve_root(training.root, Path(last.path) if last.local else None) if training else None
    if repo_id is None and root is None:
        if training is None:
            raise UsageError(
                "the checkpoint does not say which data set it was trained on.",
                "Pass --dataset.repo_id=user/name or --dataset.root=<folder>.",
            )
        if training.root is not None and trained_root is None:
            raise UsageError(
                f"the training data set's folder {training.root} is not here.", "Pass --dataset.root=<folder>."
            )
        repo_id, root = training.repo_id, str(trained_root) if trained_root else None
    recording = open_recording(repo_id, root=root, revision=revision, convert=convert)
    same = training is not None and (
        (trained_root is not None and recording.root.resolve() == trained_root.resolve())
        or (repo_id is not None and repo_id == training.repo_id)
    )
    given = training.episodes if training and training.episodes is not None else recording.episode_indices
    asked = [e for e in given if e in recording.episode_indices] if same and training and training.eval_split else []
    first_task = {e: recording.episode(e).task for e in asked}
    split = derive_split(training, same_dataset=same, episodes=recording.episode_indices, first_task=first_task)
    return Session(refs, recording, training, same, split)


def check_episodes(asked: Sequence[int], known: Sequence[int]) -> None:
    """See that the episodes asked for exist.

    Args:
        asked: ``--dataset.episodes``.
        known: Those of the data set, in order.

    Raises:
        UsageError: When none, or one that does not exist, was asked for.
    """
    if not asked:
        raise UsageError("--dataset.episodes=[] names no episode.", f"There are {len(known)}: 0-{known[-1]}.")
    unknown = [e for e in asked if e not in known]
    if unknown:
        raise UsageError(
            f"there is no episode {unknown[0]}; the data set has 0-{known[-1]}.", "Choose with --dataset.episodes."
        )


def choose_episodes(split: Split, asked: Sequence[int] | None, per_side: int | None) -> list[int]:
    """Episodes to evaluate: those asked for, else some of each side (not given to training: only without held-out).

    Args:
        split: Side of every episode.
        asked: ``--dataset.episodes``.
        per_side: How many of each side; all where ``None``.

    Raises:
        UsageError: When none, or one that does not exist, was asked for.
    """
    known = sorted(split.sides)
    if asked is not None:
        check_episodes(asked, known)
        return sorted(set(asked))
    train, held_out, unseen = (split.of(side) for side in (TRAIN, HELD_OUT, UNSEEN))
    others = [e for e in known if split.sides[e] not in {TRAIN, HELD_OUT, UNSEEN}]
    groups = [train, held_out if held_out else unseen, others]
    return sorted(e for group in groups for e in spread(group, len(known) if per_side is None else per_side))


def run_session(
    session: Session,
    loaded: LoadedPolicy,
    load: Loader,
    episodes: Sequence[int],
    *,
    stats: Sequence[Finding],
    inputs: Mapping[str, Any],
    versions: Mapping[str, str],
    output_dir: Path,
    batch_size: int = 8,
    seed: int = 0,
    looks: int = LOOKS,
    progress: Callable[[int, str], Progress] = lambda _total, _text: lambda _done: None,
) -> tuple[Report, dict[str, Side], list[str]]:
    """Predict the episodes with every checkpoint of the session, judge, and draw the joints.

    Args:
        session: From :func:`open_session`.
        loaded: The session's last checkpoint.
        load: Loads the others.
        episodes: Indices to evaluate.
        stats: What was found about the statistics.
        inputs, versions: For the report.
        output_dir: Where pictures go.
        batch_size, seed, progress: As for :func:`~lerobot_diagnostics.openloop.evaluate.evaluate`.
        looks: How many looks are predicted again with other pictures.

    Returns:
        The report, the evaluated sides of the last checkpoint, and the joints' unit symbols.
    """
    recording, split, last = session.recording, session.split, session.refs[-1]
    baselines = read_baselines(recording, split.of(TRAIN), episodes)
    evaluation = evaluate(
        recording,
        [(index, split.sides[index]) for index in episodes],
        session.refs,
        lambda ref: loaded if ref is last else load(ref),
        batch_size=batch_size,
        seed=seed,
        progress=progress,
    )
    finished = not evaluation.interrupted and last.label in evaluation.plans
    ablation = ablate_pictures(evaluation, loaded, recording, looks=looks, seed=seed) if finished else None
    report, sides, units = summarize(
        evaluation,
        recording,
        split,
        baselines,
        ablation=ablation,
        stats=stats,
        inputs=inputs,
        versions=versions,
        output_dir=output_dir,
    )
    if sides:
        drawn = draw(output_dir, list(sides.values()), recording.action_names, units, recording.fps, recording.cameras)
        report = dataclasses.replace(report, pictures=[*report.pictures, *drawn])
    return report, sides, units
