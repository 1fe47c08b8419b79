"""From findings to one cause: ordered rules, upstream first, each with what it explains downstream and why.

A fault *explains* a finding when the finding would be there whatever the state of what it blames: a dead camera has
no position, joint values in another unit fit no calibration. What is explained stays in the report, as information;
what is left decides. What a fault does not explain it must not hide: a moved camera spoils live pictures, not
predictions from recorded ones.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from lerobot_diagnostics.findings import Cause, Finding, Status, Verdict


@dataclass(frozen=True)
class Rule:
    """One kind of fault.

    Args:
        codes: Finding codes that show it.
        causes: Causes these findings must have; empty for any.
        explains: Codes that it silences downstream.
        of: Causes that silenced findings must have; empty for any.
        same_subject: Whether only findings about the same subject are silenced.
        why: The evidence for the rule.
    """

    codes: frozenset[str]
    why: str
    causes: frozenset[Cause] = frozenset()
    explains: frozenset[str] = frozenset()
    of: frozenset[Cause] = frozenset()
    same_subject: bool = False

    def shows(self, finding: Finding) -> bool:
        """Whether the finding is of this kind."""
        return finding.code in self.codes and (not self.causes or finding.cause in self.causes)

    def silences(self, source: Finding, finding: Finding) -> bool:
        """Whether ``source``, of this kind, explains ``finding``."""
        return (
            finding.code in self.explains
            and (not self.of or finding.cause in self.of)
            and (not self.same_subject or finding.subject == source.subject)
        )


def _codes(text: str) -> frozenset[str]:
    return frozenset(text.split())


MODEL_ERRORS = _codes(
    "FLAT GRIPPER_FLAT UNNORMALIZED OFFSET SCALE SIGN PERMUTED LAG MEAN_REPLAY IGNORES_IMAGES OVERFIT UNDERTRAINED "
    "WRONG_DATASET POOR_FIT"
)
VIEW = _codes("SWAPPED UNKNOWN_VIEW UNDECIDED ROTATED MIRRORED CHANNELS MOVED FRAMING LIGHTING OBJECT_MOVED BASE_MOVED")

RULES: tuple[Rule, ...] = (
    Rule(
        _codes("MISSING_FILES"),
        "What is not there cannot be judged. LeRobot raises on it; nothing downstream has run on the whole.",
    ),
    Rule(
        _codes("NAMES_MISMATCH STATS_MISSING"),
        "LeRobot leaves a feature whose statistics are missing as it is, silently (0.6.1), and binds vectors by "
        "position: every error of the predictions follows from that.",
        explains=MODEL_ERRORS,
        of=frozenset({Cause.MODEL, Cause.CONFIG, Cause.CALIBRATION, Cause.UNITS}),
    ),
    Rule(
        _codes("MISSING_CAMERA SLOT_SHIFT RENAME_ERASED SWAPPED"),
        "The policy gets another picture than the one it learned from; its predictions from the data set do too where "
        "the names come from the same map.",
        causes=frozenset({Cause.CONFIG}),
        explains=MODEL_ERRORS,
        of=frozenset({Cause.MODEL}),
    ),
    Rule(
        _codes("SLOT_SHIFT MISSING_CAMERA DEAD FROZEN"),
        "A camera without a (new) picture has neither place nor light.",
        causes=frozenset({Cause.CAMERAS}),
        explains=VIEW,
        same_subject=True,
    ),
    Rule(
        _codes("BUS_ERRORS OVERLOAD"),
        "A failed read costs about 150 ms (LeRobot's retries, measured on a dead bus) and gives no position.",
        explains=_codes("SLOW_LOOP STANDING_ERROR TRACKING START_JUMP"),
    ),
    Rule(
        _codes("UNITS_MISMATCH OLD_CONVENTION"),
        "Values in another unit or of another convention fit no zero: ±100 read as degrees is up to 15 % off, old "
        "shoulder_lift and elbow_flex 90°.",
        explains=_codes("ZERO_CHANGED LEADER_OFFSET JOINT_OFFSET OFFSET SCALE SIGN START_JUMP WRAP"),
        of=frozenset({Cause.CALIBRATION, Cause.UNITS, Cause.MOTORS}),
    ),
    Rule(
        _codes("ZERO_CHANGED JOINT_OFFSET INVERTED RANGE_IMPLAUSIBLE END_STOP WRAP LEADER_OFFSET SIGN SCALE"),
        "The arm's own angles are not those of the recording: wherever it is sent or looked for, it is off by the "
        "same angle (17° in an elbow is 6 cm at the gripper).",
        causes=frozenset({Cause.CALIBRATION}),
        explains=_codes("JOINT_OFFSET START_JUMP STANDING_ERROR BASE_MOVED"),
    ),
    Rule(
        _codes("SWAPPED UNKNOWN_VIEW ROTATED MIRRORED CHANNELS"),
        "A view that is another one, or turned, has no position, light or object to compare; vision.views stops there.",
        causes=frozenset({Cause.CAMERAS}),
        explains=_codes("MOVED FRAMING LIGHTING OBJECT_MOVED BASE_MOVED"),
        same_subject=True,
    ),
    Rule(
        _codes("MOVED FRAMING RESOLUTION INDEX_UNSTABLE UNDECIDED"),
        "Everything in a moved view has moved: objects and base are no longer where they were recorded. Predictions "
        "from recorded pictures are not concerned.",
        causes=frozenset({Cause.CAMERAS}),
        explains=_codes("OBJECT_MOVED BASE_MOVED"),
    ),
    Rule(
        _codes("LIGHTING"), "Exposure differs by at most 13 % between episodes of one recording, white balance by 8 %."
    ),
    Rule(_codes("BASE_MOVED OBJECT_MOVED"), "Seen from a camera that stands where it stood."),
    Rule(
        _codes("FPS_MISMATCH SLOW_INFERENCE"),
        "A loop waits for its slowest part; stepped at another rate a policy's motion is slower or faster than shown.",
        explains=_codes("SLOW_LOOP"),
    ),
    Rule(_codes("SLOW_LOOP STALE_FRAMES STANDING_ERROR TRACKING START_JUMP"), "Measured on the live arm."),
    Rule(
        _codes("MISALIGNED NAN"),
        "A policy trained on pictures of other moments, or on rows that are no numbers, cannot fit them.",
        causes=frozenset({Cause.DATA}),
        explains=MODEL_ERRORS,
        of=frozenset({Cause.MODEL}),
    ),
    Rule(
        _codes("DEAD FROZEN"),
        "A camera that showed nothing while recording teaches a policy to ignore it.",
        causes=frozenset({Cause.DATA}),
        explains=_codes("IGNORES_IMAGES"),
    ),
    Rule(_codes("STATS_STALE RATE_SUSPECT STATIONARY_PREFIX NEAR_CONSTANT"), "Measured in the data set itself."),
    Rule(
        MODEL_ERRORS | {"NAN", "LONG_COMMIT", "FRAMING"},
        "Recorded pictures and states go in, recorded actions are expected: neither camera nor arm is involved. "
        "Explained errors are ordered in openloop.verdicts.",
    ),
)
"""In this order. A code may appear twice with different causes: a recorded camera's DEAD is a fault of the data."""

OBJECT = "object"
"""Subject of IGNORES_IMAGES where it was told by taking the object away (:mod:`.removal`)."""

SUSPECTS = VIEW | _codes(
    "ZERO_CHANGED JOINT_OFFSET END_STOP LEADER_OFFSET RENAME_ERASED SLOW_LOOP STALE_FRAMES BUS_ERRORS"
)
"""Codes whose *warning* is a cause where nothing failed: what has changed since the policy worked."""


def rank(finding: Finding) -> int:
    """Position of the first rule that the finding shows; after all of them where none does."""
    return next((i for i, rule in enumerate(RULES) if rule.shows(finding)), len(RULES))


def silence(findings: Sequence[Finding]) -> list[Finding]:
    """Turn what an upstream fault explains into information that says by what.

    Only a failure, or a suspect's warning, explains; nothing explains what stands above it in :data:`RULES`.
    """
    fits = {f.code for f in findings if f.status is Status.PASS and f.subject in {"arm", "base"}}
    told = {(f.code, f.subject) for f in findings if f.status is Status.WARN}
    findings = _looked([_settled(f, fits, told) for f in findings])
    sources = sorted((f for f in findings if _stands(f)), key=rank)
    explained: dict[int, Finding] = {}
    for source in sources:
        if id(source) in explained:
            continue
        at = rank(source)
        if at == len(RULES):
            continue
        for finding in findings:
            if (
                finding is not source
                and id(finding) not in explained
                and finding.status in {Status.FAIL, Status.WARN, Status.UNKNOWN}
                and rank(finding) >= at
                and RULES[at].silences(source, finding)
                and not (rank(finding) == at and finding.code == source.code)
            ):
                explained[id(finding)] = source
    return [_explained(f, explained[id(f)]) if id(f) in explained else f for f in findings]


def _settled(finding: Finding, fits: Collection[str], told: Collection[tuple[str, str]]) -> Finding:
    """One view of the arm is a hint; the fit of its model at many poses (``sight``) that finds nothing settles it.

    A camera's place that one picture does not tell, the background of many may.
    """
    if finding.status is Status.UNKNOWN and finding.code == "MOVED" and (finding.code, finding.subject) in told:
        return dataclasses.replace(finding, status=Status.INFO, summary=f"Told by more pictures: {finding.summary}")
    if finding.status is Status.WARN and finding.code in {"JOINT_OFFSET", "BASE_MOVED"} and finding.code in fits:
        return dataclasses.replace(
            finding, status=Status.INFO, summary=f"Not confirmed at more poses: {finding.summary}"
        )
    return finding


def _looked(findings: list[Finding]) -> list[Finding]:
    """Whether the policy looks, told by recorded pictures and by taking the object away: what the two say together.

    A reaction to the object's going disproves that pictures are ignored. A policy that uses recorded pictures may still
    ignore the object, but not where the live pictures are others than those it knows.
    """
    told = [f for f in findings if f.code == "IGNORES_IMAGES" and f.status not in {Status.UNKNOWN, Status.INFO}]
    live = next((f for f in told if f.subject == OBJECT), None)
    offline = next((f for f in told if f.subject != OBJECT), None)
    if live is None:
        return findings
    if offline is not None and offline.status is Status.FAIL and live.status is Status.PASS:
        return [_doubted(f, live) if f is offline else f for f in findings]
    if live.status is Status.FAIL and (offline is None or offline.status is Status.PASS):
        other = [f for f in findings if f.cause in {Cause.CAMERAS, Cause.LIGHTING} and _stands(f)]
        if other:
            return [_doubted(f, other[0]) if f is live else f for f in findings]
        if offline is not None:
            summary = f"{live.summary} Recorded pictures do change its predictions, so it looks at something else."
            return [dataclasses.replace(f, summary=summary) if f is live else f for f in findings]
    return findings


def _doubted(finding: Finding, by: Finding) -> Finding:
    """What another finding contradicts is no longer decided."""
    summary = f"Cannot be upheld, because of {by.code} ({by.subject}, {by.status.value}): {finding.summary}"
    evidence = {**finding.evidence, "doubted_by": f"{by.code} ({by.subject})", "status_alone": finding.status.value}
    return dataclasses.replace(finding, status=Status.UNKNOWN, summary=summary, evidence=evidence)


def _explained(finding: Finding, by: Finding) -> Finding:
    summary = f"Explained by {by.code} ({by.subject}): {finding.summary}"
    evidence = {**finding.evidence, "explained_by": by.code, "status_alone": finding.status.value}
    return dataclasses.replace(finding, status=Status.INFO, summary=summary, evidence=evidence)


def _stands(finding: Finding) -> bool:
    return finding.status is Status.FAIL or _suspect(finding)


def _suspect(finding: Finding) -> bool:
    """A warning that may be the cause. What is only new or gone on the table is not: objects differ by episode."""
    shift = finding.evidence.get("shift_px", 0.0)
    placed = finding.code != "OBJECT_MOVED" or (shift is not None and math.isfinite(shift))
    return finding.status is Status.WARN and finding.code in SUSPECTS and placed


def attribute(
    findings: Sequence[Finding],
    *,
    not_looked: Sequence[str] = (),
    next_command: Callable[[Finding | None], str] = lambda _finding: "",
    healthy: str = "Nothing wrong was found in what was looked at.",
) -> Verdict:
    """One verdict from findings that :func:`silence` has passed.

    Failures come before suspects' warnings, each in the order of :data:`RULES`.

    Args:
        findings: All of them.
        not_looked: What did not run, in words.
        next_command: The single next step for the finding on top (None: nothing was found).
        healthy: The sentence for a run without fault.
    """
    failed = sorted((f for f in findings if f.status is Status.FAIL), key=rank)
    suspects = sorted((f for f in findings if _suspect(f)), key=rank)
    cannot = [f"{f.code} ({f.subject}): {f.summary}" for f in findings if f.status is Status.UNKNOWN]
    cannot += not_looked
    standing = failed + suspects
    if standing:
        top = standing[0]
        others = list(dict.fromkeys(f"{f.code} ({f.cause.value})" for f in standing if f.cause is not top.cause))
        also = f" Independent of it: {', '.join(others)}." if others else ""
        because = list(dict.fromkeys(f.code for f in standing))
        return Verdict(top.cause.value, _sentence(top.summary) + also + _next(next_command(top)), because, cannot)
    if not any(f.status is Status.PASS for f in findings):
        return Verdict("undecided", "Nothing could be judged." + _next(next_command(None)), (), cannot)
    return Verdict("none_found", healthy + _next(next_command(None)), (), cannot)


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else text + "."


def _next(command: str) -> str:
    return f" Next: {command}" if command else ""


def evidence_of(findings: Sequence[Finding]) -> Mapping[str, str]:
    """The rule behind each finding that stands, by code."""
    return {f.code: RULES[rank(f)].why for f in findings if _stands(f) and rank(f) < len(RULES)}
