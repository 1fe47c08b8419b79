"""Finding the recording to align with, and refusing in one line what a user can mend."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.openloop.checkpoint import TRAIN_CONFIG, find_checkpoints
from lerobot_diagnostics.openloop.split import resolve_root, training_data
from lerobot_diagnostics.recording import open_recording

if TYPE_CHECKING:
    from lerobot_diagnostics.align.config_align import ReferenceConfig
    from lerobot_diagnostics.recording import Recording

CANNOT_RUN = 2
GIVE = "Pass --strategy.reference.repo_id=user/name or --strategy.reference.root=<folder>."


def open_reference(reference: ReferenceConfig, checkpoint: str | Path | None) -> Recording:
    """The data set asked for, else the one in the checkpoint's ``train_config.json``.

    Raises:
        UsageError: There is none, or it cannot be read.
    """
    repo_id, root = reference.repo_id, reference.root
    if repo_id is None and root is None:
        ref = find_checkpoints(str(checkpoint))[-1] if checkpoint else None
        training = training_data(ref.read_json(TRAIN_CONFIG)) if ref else None
        if ref is None or training is None:
            raise UsageError("the checkpoint does not say which data set it was trained on.", GIVE)
        repo_id = training.repo_id
        if training.root is not None:
            found = resolve_root(training.root, Path(ref.path) if ref.local else None)
            if found is None:
                raise UsageError(f"the training data set's folder {training.root} is not here.", GIVE)
            root = str(found)
    return open_recording(repo_id, root=root, revision=reference.revision, convert=reference.convert)


def in_strategy_terms(text: str) -> str:
    """A message of the recording package with the flags that ``lerobot-rollout`` knows."""
    text = re.sub(r"--dataset\.episodes=\[(\d+)[^\]]*\]", r"--strategy.reference.episode=\1", text)
    text = text.replace("--dataset.episodes", "--strategy.reference.episode")
    return text.replace("--dataset.", "--strategy.reference.").replace("--output_dir", "--strategy.output_dir")


@contextlib.contextmanager
def plainly() -> Iterator[None]:
    """Turn a :class:`UsageError` into one line on stderr and exit code 2: stock commands would show a traceback.

    Raises:
        SystemExit: Instead of the :class:`UsageError`.
    """
    try:
        yield
    except UsageError as error:
        print(f"lerobot-rollout: error: {in_strategy_terms(str(error))}", file=sys.stderr, flush=True)
        raise SystemExit(CANNOT_RUN) from None
