"""The open-loop rung: the checkpoint against its recordings, as ``lerobot-open-loop-eval`` judges them, on fewer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lerobot_diagnostics.diagnose.ladder import Outcome, failed
from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.openloop.checkpoint import CheckpointRef, LoadedPolicy
from lerobot_diagnostics.openloop.session import Session, choose_episodes, run_session
from lerobot_diagnostics.openloop.summary import stats_findings

EPISODES_PER_SIDE = 3
"""Two sides of three episodes are half a minute on two slow cores (14 M parameters);
lerobot-open-loop-eval takes ten each."""

LOOKS = 8
"""Looks predicted again with blank and exchanged pictures."""


def judge_model(
    session: Session,
    load: Callable[[CheckpointRef], LoadedPolicy],
    *,
    episodes: Sequence[int] | None,
    output_dir: Path,
    versions: Mapping[str, str],
) -> Outcome:
    """Load the session's last checkpoint, check its statistics, and predict a few episodes of each side.

    Args:
        session: Checkpoints, data set and split.
        load: Loads a checkpoint.
        episodes: ``--dataset.episodes``.
        output_dir: Where pictures go.
        versions: For the report.

    Raises:
        KeyboardInterrupt: While it predicted.
    """
    last = session.refs[-1]
    try:
        loaded = load(last)
    except UsageError as error:
        return Outcome([failed("checkpoint", error)])
    stats = stats_findings(loaded, session.recording, trained_on=session.same, limit=200)
    chosen = choose_episodes(session.split, episodes, EPISODES_PER_SIDE)
    alone = Session([last], session.recording, session.training, session.same, session.split)
    report, _, _ = run_session(
        alone, loaded, load, chosen, stats=stats, inputs={}, versions=versions, output_dir=output_dir, looks=LOOKS
    )  # fmt: skip
    if report.results["interrupted"]:
        raise KeyboardInterrupt  # the ladder ends here; of a part of the episodes it says nothing
    results: dict[str, Any] = {**report.results, "episodes": chosen, "verdict": report.verdict.to_dict()}
    findings = [f for f in report.findings if f.code != "STATIONARY_PREFIX"]  # the files rung looks at all episodes
    return Outcome(findings, report.tables, report.pictures, results)
