"""Which episodes a checkpoint was trained on, and which LeRobot held out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class TrainingData:
    """What ``train_config.json`` says of the data.

    Args:
        repo_id: Data set.
        root: Local folder as written there (may be relative to where training ran), ``None`` for the cache or the Hub.
        revision: Hub revision, if any.
        episodes: Episodes that training was given, ``None`` for all.
        eval_split: Fraction of episodes per task that training held out.
    """

    repo_id: str
    root: str | None
    revision: str | None
    episodes: tuple[int, ...] | None
    eval_split: float


def training_data(train_config: Mapping[str, Any] | None) -> TrainingData | None:
    """Read the data section of a checkpoint's ``train_config.json``; ``None`` where it does not name one data set."""
    data = (train_config or {}).get("dataset")
    if not isinstance(data, Mapping) or not isinstance(data.get("repo_id"), str):
        return None
    episodes = data.get("episodes")
    return TrainingData(
        repo_id=data["repo_id"],
        root=data.get("root"),
        revision=data.get("revision"),
        episodes=None if episodes is None else tuple(int(e) for e in episodes),
        eval_split=float(data.get("eval_split") or 0.0),
    )


def resolve_root(root: str | None, checkpoint: Path | None) -> Path | None:
    """Find a training root again: as written, else below a folder that contains the checkpoint.

    Training records ``--dataset.root`` as it was typed; a relative one is meaningful only from the folder training ran
    in, which usually is the checkpoint's own ancestor. ``None`` where no such folder exists.
    """
    if root is None:
        return None
    path = Path(root).expanduser()
    candidates = [path]
    if not path.is_absolute() and checkpoint is not None:
        candidates += [parent / path for parent in checkpoint.resolve().parents]
    return next((c for c in candidates if (c / "meta").is_dir()), None)


TRAIN = "train"
HELD_OUT = "held-out"
UNSEEN = "unseen"
"""Neither trained on nor held out by the run: left out of its ``--dataset.episodes``, or of another data set."""
UNKNOWN = "unknown"


@dataclass(frozen=True)
class Split:
    """Side of every episode: :data:`TRAIN`, :data:`HELD_OUT`, :data:`UNSEEN` or :data:`UNKNOWN`.

    Args:
        sides: Side by episode index.
        reason: Where the sides are unknown, or nothing was held out: why, in one sentence.
    """

    sides: Mapping[int, str]
    reason: str = ""

    def of(self, side: str) -> tuple[int, ...]:
        """Episodes of one side, in order."""
        return tuple(sorted(e for e, s in self.sides.items() if s == side))


def derive_split(
    training: TrainingData | None,
    *,
    same_dataset: bool,
    episodes: Sequence[int],
    first_task: Mapping[int, str],
) -> Split:
    """Re-derive LeRobot's own split of the data set's episodes.

    The rule is LeRobot 0.6.1's ``make_train_eval_datasets``: among the episodes given to training, grouped by their
    first task in order of appearance, the last ``ceil(n · eval_split)`` of each group are held out.

    Args:
        training: From :func:`training_data`.
        same_dataset: Whether the data set at hand is the one training used.
        episodes: All episode indices of the data set at hand.
        first_task: First task of each episode (``""`` where it has none); needed for the episodes given to training.
    """
    if training is None:
        return Split(
            dict.fromkeys(episodes, UNKNOWN), "the checkpoint has no train_config.json that names its data set"
        )
    if not same_dataset:
        return Split(dict.fromkeys(episodes, UNSEEN), f"training used another data set ({training.repo_id})")
    sides = dict.fromkeys(episodes, UNSEEN)
    groups: dict[str, list[int]] = {}
    for episode in training.episodes if training.episodes is not None else episodes:
        if episode in sides:
            groups.setdefault(first_task.get(episode, ""), []).append(episode)
    for group in groups.values():
        trained = len(group) - math.ceil(len(group) * training.eval_split)
        sides.update(dict.fromkeys(group[:trained], TRAIN) | dict.fromkeys(group[trained:], HELD_OUT))
    reason = "" if training.eval_split else "training held no episodes out (eval_split 0)"
    return Split(sides, reason)
