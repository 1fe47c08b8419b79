"""The whole ladder: which rungs the inputs allow, run in order, attributed, as one report."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lerobot_diagnostics.diagnose.attribution import attribute, evidence_of, silence
from lerobot_diagnostics.diagnose.files import Files, judge_files
from lerobot_diagnostics.diagnose.ladder import Climbed, Outcome, Rung, climb, ladder_table
from lerobot_diagnostics.diagnose.model import judge_model
from lerobot_diagnostics.findings import Cause, Finding, Report, by_severity
from lerobot_diagnostics.openloop.checkpoint import CheckpointRef, find_checkpoints, load_policy
from lerobot_diagnostics.openloop.session import Session, open_session
from lerobot_diagnostics.openloop.split import TRAIN
from lerobot_diagnostics.recording import Recording, open_recording

COMMAND = "lerobot-diagnose"


@dataclass(frozen=True)
class Inputs:
    """What the user gave.

    Args:
        policy_path: ``--policy.path``.
        policy_overrides: ``--policy.*`` settings.
        repo_id, root, revision, convert, episodes: ``--dataset.*``.
        rename_map: ``--rename_map``; None where none was given.
        device: Torch device.
        fps: ``--fps`` of the rollout.
    """

    policy_path: str | None = None
    policy_overrides: Sequence[str] = ()
    repo_id: str | None = None
    root: str | None = None
    revision: str | None = None
    convert: bool = False
    episodes: Sequence[int] | None = None
    rename_map: Mapping[str, str] | None = None
    device: str | None = None
    fps: float | None = None
    shown: Mapping[str, Any] = field(default_factory=dict)


def diagnose(
    inputs: Inputs,
    output_dir: Path,
    versions: Mapping[str, str],
    *,
    say: Callable[[str], None] = print,
    clock: Callable[[], float] = time.perf_counter,
) -> Report:
    """Run every rung that the inputs allow.

    Args:
        inputs: What was given.
        output_dir: Where pictures go.
        versions: For the report.
        say: Prints a line before each rung.
        clock: Seconds.

    Raises:
        UsageError: When the checkpoint or the data set that was named cannot be opened.
    """
    refs = find_checkpoints(inputs.policy_path) if inputs.policy_path else []
    session, recording = _open(inputs, refs)
    rungs = [_files_rung(inputs, refs, session, recording), _model_rung(inputs, session, output_dir, versions)]
    climbed = climb(rungs, say, clock)
    return summarize(climbed, inputs, versions)


def _open(inputs: Inputs, refs: Sequence[CheckpointRef]) -> tuple[Session | None, Recording | None]:
    named: dict[str, Any] = {
        "repo_id": inputs.repo_id, "root": inputs.root, "revision": inputs.revision, "convert": inputs.convert,
    }  # fmt: skip
    if refs:
        session = open_session(refs, **named)
        session.recording.need_videos = False  # what is missing is a finding, not the end
        return session, session.recording
    if inputs.repo_id is None and inputs.root is None:
        return None, None
    return None, open_recording(**named, need_videos=False)


def _files_rung(
    inputs: Inputs, refs: Sequence[CheckpointRef], session: Session | None, recording: Recording | None
) -> Rung:
    does = "reads checkpoint, data set and calibration"
    if not refs and recording is None:
        return Rung("files", does, "", None, "neither --policy.path nor --dataset.repo_id was given")

    def run() -> Outcome:
        trained = session.split.of(TRAIN) if session is not None and session.same else None
        files = Files(
            ref=refs[-1] if refs else None,
            recording=recording,
            episodes=inputs.episodes,
            trained=trained,
            same=session is not None and session.same,
            rename_map=inputs.rename_map,
            fps=inputs.fps,
        )
        return judge_files(files)

    return Rung("files", does, "seconds", run)


def _model_rung(
    inputs: Inputs,
    session: Session | None,
    output_dir: Path,
    versions: Mapping[str, str],
) -> Rung:
    does = "predicts recorded episodes with the checkpoint and compares"
    if session is None:
        return Rung("open loop", does, "", None, "no --policy.path was given")

    def run() -> Outcome:
        return judge_model(
            session,
            lambda ref: load_policy(
                ref, device=inputs.device, rename_map=inputs.rename_map, overrides=inputs.policy_overrides
            ),
            episodes=inputs.episodes,
            output_dir=output_dir,
            versions=versions,
        )

    return Rung("open loop", does, "about a minute on a small computer", run)


def summarize(climbed: Sequence[Climbed], inputs: Inputs, versions: Mapping[str, str]) -> Report:
    """One report of all rungs, its verdict from :mod:`.attribution`."""
    found = silence([finding for step in climbed for finding in step.outcome.findings])
    not_looked = [f"{step.rung.name}: {step.stopped}" for step in climbed if step.stopped]
    verdict = attribute(
        found,
        not_looked=not_looked,
        next_command=lambda finding: next_command(finding, inputs),
        healthy=_healthy(climbed),
    )
    return Report(
        command=COMMAND,
        verdict=verdict,
        findings=by_severity(found),
        inputs=inputs.shown,
        versions=versions,
        timings={f"{step.rung.name.replace(' ', '_')}_s": step.seconds for step in climbed if not step.stopped},
        results={"rules": evidence_of(found)} | {step.rung.name: dict(step.outcome.results) for step in climbed},
        tables=[ladder_table(climbed), *(table for step in climbed for table in step.outcome.tables)],
        pictures=[picture for step in climbed for picture in step.outcome.pictures],
    )


def _healthy(climbed: Sequence[Climbed]) -> str:
    done = [step.rung.name for step in climbed if not step.stopped]
    return f"No fault was found by {', '.join(done)}." if done else "Nothing was looked at."


def next_command(finding: Finding | None, inputs: Inputs) -> str:
    """The single next step: the finding's own fix, or the command that looks further.

    Args:
        finding: The one on top; None where nothing was found.
        inputs: What was given, for the flags.
    """
    if finding is not None and finding.fix:
        return finding.fix
    data = _flag("dataset.repo_id", inputs.repo_id) + _flag("dataset.root", inputs.root)
    policy = _flag("policy.path", inputs.policy_path)
    if finding is not None and finding.cause in {Cause.MODEL, Cause.DATA}:
        return f"`lerobot-open-loop-eval{policy}{data}`"
    if finding is None and not policy:
        return f"`lerobot-diagnose --policy.path=<checkpoint>{data}`"
    return f"`lerobot-diagnose{policy}{data} --robot.type=so101_follower --robot.port=<port> --robot.cameras=<cameras>`"


def _flag(name: str, value: object | None) -> str:
    return "" if value is None else f" --{name}={value}"
