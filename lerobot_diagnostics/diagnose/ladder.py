"""Rungs, cheapest first: each says what it does, how long it takes and whether anything moves, before it runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import SEVERITY, Cause, Finding, Picture, Status, Table

TITLE = "The ladder"
INTERRUPTED = "interrupted"
"""Why the rung that Ctrl-C ended could not be finished."""


@dataclass(frozen=True)
class Outcome:
    """What one rung found."""

    findings: Sequence[Finding] = ()
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = ()
    results: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Rung:
    """One step of the ladder.

    Args:
        name: Short name.
        does: What it does, for the line printed before.
        lasts: How long, in words.
        run: The check; None where its inputs are missing.
        needs: What is missing then, in words.
        moves: Whether the arm moves.
    """

    name: str
    does: str
    lasts: str
    run: Callable[[], Outcome] | None
    needs: str = ""
    moves: bool = False


@dataclass(frozen=True)
class Climbed:
    """A rung after its turn.

    Args:
        rung: The rung.
        status: The gravest of its findings but information; UNKNOWN where it did not run.
        outcome: What it found.
        seconds: How long it took.
        stopped: Why it could not be finished, if so.
    """

    rung: Rung
    status: Status
    outcome: Outcome
    seconds: float = 0.0
    stopped: str = ""


def climb(
    rungs: Iterable[Rung], say: Callable[[str], None], clock: Callable[[], float] = time.perf_counter
) -> list[Climbed]:
    """Run the rungs in order. One that cannot run does not stop the others; after Ctrl-C none of the rest is run.

    Args:
        rungs: Cheapest first; taken one at a time, so that a later one may depend on what earlier ones found.
        say: Prints a line.
        clock: Seconds.
    """
    climbed: list[Climbed] = []
    for number, rung in enumerate(rungs, start=1):
        if rung.run is None or interrupted(climbed):
            needs = rung.needs if rung.run is None else INTERRUPTED
            climbed.append(Climbed(rung, Status.UNKNOWN, Outcome(), stopped=f"not run: {needs}"))
            continue
        say(f"{number}. {rung.name}: {rung.does} ({rung.lasts}; {'the arm moves' if rung.moves else 'nothing moves'})")
        started = clock()
        try:
            outcome = rung.run()
        except UsageError as error:
            climbed.append(Climbed(rung, Status.UNKNOWN, Outcome(), clock() - started, str(error)))
            continue
        except KeyboardInterrupt:
            climbed.append(Climbed(rung, Status.UNKNOWN, Outcome(), clock() - started, INTERRUPTED))
            continue
        climbed.append(Climbed(rung, worst(outcome.findings), outcome, clock() - started))
    return climbed


def interrupted(climbed: Sequence[Climbed]) -> Rung | None:
    """The rung that Ctrl-C ended, if one."""
    return next((step.rung for step in climbed if step.stopped == INTERRUPTED), None)


def worst(findings: Sequence[Finding]) -> Status:
    """FAIL over WARN over UNKNOWN over PASS; information does not count. UNKNOWN where nothing was judged.

    A rung whose checks passed but for one that could not tell has passed what it could: its unknowns are listed.
    """
    judged = {f.status for f in findings} - {Status.INFO}
    for status in (Status.FAIL, Status.WARN, Status.PASS):
        if status in judged:
            return status
    return Status.UNKNOWN


def ladder_table(climbed: Sequence[Climbed]) -> Table:
    """The ladder as a table: rung, status, what it found, seconds."""
    rows = []
    for step in climbed:
        grave = [f for f in step.outcome.findings if f.status in {Status.FAIL, Status.WARN}]
        grave.sort(key=lambda f: SEVERITY[f.status])
        codes = ", ".join(dict.fromkeys(f.code for f in grave))
        passed = sum(f.status is Status.PASS for f in step.outcome.findings)
        unknown = sum(f.status is Status.UNKNOWN for f in step.outcome.findings)
        said = step.stopped or "; ".join(
            text for text in (codes, f"{passed} passed", f"{unknown} unknown" if unknown else "") if text
        )
        rows.append([step.rung.name, step.status.value, said, round(step.seconds, 1)])
    ended = interrupted(climbed)
    if any(step.rung.moves and not step.stopped for step in climbed):
        note = "The arm was moved in the last rungs."
    elif ended is not None and ended.moves:
        note = "The arm may have moved before the interruption."
    else:
        note = "Nothing was moved."
    return Table(TITLE, ["rung", "status", "found", "seconds"], rows, note)


def failed(subject: str, error: UsageError, code: str = "MISSING_FILES", cause: Cause = Cause.CONFIG) -> Finding:
    """A finding of what kept a rung from its work."""
    return Finding(code, Status.FAIL, cause, subject, error.message, {}, error.fix)
