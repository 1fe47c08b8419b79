"""The one type that flows from every check to every output.

A check returns a list of :class:`Finding`; a command gathers them in a :class:`Report`, whose JSON form
(``report.json``) is the source that the console, the HTML page and the pictures are drawn from.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

SCHEMA_VERSION = 1


class Status(StrEnum):
    """Outcome of one check. ``UNKNOWN`` means the evidence does not decide; it never counts as ``PASS``."""

    PASS = "pass"
    INFO = "info"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"


class Cause(StrEnum):
    """What a finding holds responsible."""

    MODEL = "model"
    CAMERAS = "cameras"
    LIGHTING = "lighting"
    CALIBRATION = "calibration"
    UNITS = "units"
    WORKSPACE = "workspace"
    MOTORS = "motors"
    CLOCK = "clock"
    DATA = "data"
    CONFIG = "config"


CODES: Mapping[str, frozenset[str]] = {
    "cameras": frozenset(
        "SWAPPED MOVED UNKNOWN_VIEW UNDECIDED ROTATED MIRRORED CHANNELS FRAMING RESOLUTION DEAD FROZEN "
        "MISSING_CAMERA SLOT_SHIFT RENAME_ERASED INDEX_UNSTABLE".split()
    ),
    "lighting": frozenset({"LIGHTING"}),
    "workspace": frozenset({"OBJECT_MOVED", "BASE_MOVED"}),
    "calibration": frozenset(
        "ZERO_CHANGED RANGE_IMPLAUSIBLE END_STOP INVERTED WRAP LEADER_OFFSET JOINT_OFFSET".split()
    ),
    "units": frozenset({"UNITS_MISMATCH", "NAMES_MISMATCH", "OLD_CONVENTION"}),
    "motors": frozenset({"BUS_ERRORS", "OVERLOAD", "STANDING_ERROR", "TRACKING", "START_JUMP"}),
    "model": frozenset(
        "FLAT GRIPPER_FLAT NAN WRONG_DATASET UNNORMALIZED OFFSET SCALE SIGN PERMUTED LAG MEAN_REPLAY "
        "IGNORES_IMAGES OVERFIT UNDERTRAINED POOR_FIT".split()
    ),
    "clock": frozenset({"FPS_MISMATCH", "SLOW_LOOP", "SLOW_INFERENCE", "LONG_COMMIT", "STALE_FRAMES"}),
    "data": frozenset(
        "STATS_STALE STATS_MISSING MISALIGNED MISSING_FILES NEAR_CONSTANT STATIONARY_PREFIX RATE_SUSPECT".split()
    ),
}
"""Every finding code, by area."""

ALL_CODES: frozenset[str] = frozenset().union(*CODES.values())


@dataclass(frozen=True)
class Finding:
    """What one check found about one subject.

    Args:
        code: One of :data:`ALL_CODES`. With status ``pass`` it names the fault that was looked for and not found.
        status: See :class:`Status`.
        cause: See :class:`Cause`.
        subject: What it is about: a joint, a camera, an episode, a checkpoint.
        summary: One line a person can act on, with number and unit.
        evidence: Numbers with the unit in the key, e.g. ``{"shift_px": 14.2, "reference_episode": 0}``.
        fix: The next command or the thing to do, with the exact flag.

    Raises:
        ValueError: On an unknown code, status or cause, or an empty or multi-line summary.
    """

    code: str
    status: Status
    cause: Cause
    subject: str
    summary: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    fix: str = ""

    def __post_init__(self) -> None:
        if self.code not in ALL_CODES:
            raise ValueError(f"unknown finding code {self.code!r}; known: {', '.join(sorted(ALL_CODES))}")
        object.__setattr__(self, "status", Status(self.status))
        object.__setattr__(self, "cause", Cause(self.cause))
        if not self.summary.strip() or "\n" in self.summary:
            raise ValueError("summary must be one non-empty line")

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready dictionary; see :func:`jsonable`."""
        return {
            "code": self.code,
            "status": self.status.value,
            "cause": self.cause.value,
            "subject": self.subject,
            "summary": self.summary,
            "evidence": jsonable(self.evidence),
            "fix": self.fix,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Finding:
        """Inverse of :meth:`to_dict`."""
        return cls(**{key: data[key] for key in ("code", "status", "cause", "subject", "summary", "evidence", "fix")})


@dataclass(frozen=True)
class FindingsOf:
    """Makes findings of one cause, which a single finding may override."""

    cause: Cause

    def __call__(
        self,
        code: str,
        status: Status,
        subject: str,
        summary: str,
        evidence: Mapping[str, Any] | None = None,
        fix: str = "",
        cause: Cause | None = None,
    ) -> Finding:
        """A finding; the arguments are those of :class:`Finding`."""
        return Finding(code, status, cause or self.cause, subject, summary, evidence or {}, fix)


@dataclass(frozen=True)
class Verdict:
    """The conclusion of a whole command.

    Args:
        cause: A :class:`Cause` value, ``"none_found"`` or ``"undecided"``.
        summary: One line: what is wrong (or not) and what to do next.
        because: Codes of the findings it rests on.
        cannot_tell: What the run could not decide, in words.
    """

    cause: str
    summary: str
    because: Sequence[str] = ()
    cannot_tell: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.cause not in {*(c.value for c in Cause), "none_found", "undecided"}:
            raise ValueError(f"unknown verdict cause {self.cause!r}")

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready dictionary."""
        return {
            "cause": str(self.cause),
            "summary": self.summary,
            "because": list(self.because),
            "cannot_tell": list(self.cannot_tell),
        }


@dataclass(frozen=True)
class Table:
    """A table of a report. ``rows`` hold strings or numbers; numbers are right-aligned and formatted by the output."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready dictionary."""
        return {
            "title": self.title,
            "columns": list(self.columns),
            "rows": [[jsonable(cell) for cell in row] for row in self.rows],
            "note": self.note,
        }


@dataclass(frozen=True)
class Picture:
    """A picture of a report: a file beside ``report.json`` (``path`` relative to it) with a caption in words."""

    path: str
    caption: str
    section: str = ""

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready dictionary."""
        return {"path": self.path, "caption": self.caption, "section": self.section}


@dataclass(frozen=True)
class Report:
    """Everything a command found, written as ``report.json`` in ``--output_dir``.

    Args:
        command: The command line's name, e.g. ``"lerobot-open-loop-eval"``.
        verdict: See :class:`Verdict`.
        findings: All findings, in the order of the checks.
        inputs: What was judged: paths, repo ids, episodes, flags.
        versions: Package versions that matter.
        timings: Seconds by phase, keys ending in ``_s``.
        results: The measurements behind the findings, as nested JSON-ready data.
        tables: Tables shown on the console and in the HTML page.
        pictures: Pictures shown in the HTML page.
    """

    command: str
    verdict: Verdict
    findings: Sequence[Finding] = ()
    inputs: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    timings: Mapping[str, float] = field(default_factory=dict)
    results: Mapping[str, Any] = field(default_factory=dict)
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = ()

    @property
    def exit_code(self) -> int:
        """1 when a finding failed, else 0. (2, the command could not run, never has a report.)"""
        return int(any(f.status is Status.FAIL for f in self.findings))

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready dictionary, NaN and infinities as ``None``."""
        return {
            "schema_version": SCHEMA_VERSION,
            "command": self.command,
            "verdict": self.verdict.to_dict(),
            "findings": [f.to_dict() for f in self.findings],
            "inputs": jsonable(self.inputs),
            "versions": jsonable(self.versions),
            "timings": jsonable(self.timings),
            "results": jsonable(self.results),
            "tables": [t.to_dict() for t in self.tables],
            "pictures": [p.to_dict() for p in self.pictures],
        }

    def to_json(self) -> str:
        """Strict JSON text (no NaN), indented."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Report:
        """Inverse of :meth:`to_dict`."""
        return cls(
            command=data["command"],
            verdict=Verdict(**data["verdict"]),
            findings=[Finding.from_dict(f) for f in data["findings"]],
            inputs=data["inputs"],
            versions=data["versions"],
            timings=data["timings"],
            results=data["results"],
            tables=[Table(**t) for t in data["tables"]],
            pictures=[Picture(**p) for p in data["pictures"]],
        )


SEVERITY: Mapping[Status, int] = {
    Status.FAIL: 0,
    Status.UNKNOWN: 1,
    Status.WARN: 2,
    Status.INFO: 3,
    Status.PASS: 4,
}
"""Sort key: the gravest first."""


def by_severity(findings: Iterable[Finding]) -> list[Finding]:
    """Findings sorted gravest first; equal ones keep their order."""
    return sorted(findings, key=lambda f: SEVERITY[f.status])


def jsonable(value: Any) -> Any:
    """Plain JSON data from nested mappings, sequences, numpy and torch scalars and arrays, enums and paths.

    NaN and infinities become ``None`` (strict JSON has neither); sets are sorted.
    """
    if value is None or isinstance(value, bool | int | str):
        return str(value) if isinstance(value, StrEnum) else value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return sorted((jsonable(item) for item in value), key=str)
    if isinstance(value, Iterable) and not hasattr(value, "tolist"):
        return [jsonable(item) for item in value]
    if hasattr(value, "tolist"):  # numpy and torch
        return jsonable(value.tolist())
    return str(value)
