"""What the takes say: tracking, the loop, and with the outcome and the pictures, what has changed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Cause, Finding, Status, Table, Verdict
from lerobot_diagnostics.recording.names import is_gripper, is_velocity
from lerobot_diagnostics.replay.play import Take
from lerobot_diagnostics.report.format import hundredths
from lerobot_diagnostics.robot.move import ARRIVED, End

Array = NDArray[np.float64]

TRACKED = 5.0
"""Root mean square of achieved minus recorded, the lag taken out, from which a joint does not do what it did. A joint
that stands 2–3° off does so in the recording too."""
OFFSET = 3.0
"""Constant difference between achieved and recorded while the command stands still: above what gravity does to an
STS3215 at P = 16 (2–3°)."""
STANDING = 5.0
"""Distance from the command while it stands still; 2–3° are the servo's own."""
STILL = 0.3
"""Change of the command a frame below which it stands still (3 encoder ticks)."""
MAX_LAG_S = 0.5
RATE = 0.95
"""Share of the wanted rate from which the loop has kept up."""
SAME_MM, SAME_SHARE = 10.0, 0.35
"""Misses agree when each is within 10 mm, or 35 % of their mean length, of their mean."""


@dataclass(frozen=True)
class Outcome:
    """What the user saw: ``landed`` None when nobody said; the miss ``[forward, left]`` in millimetres, if told."""

    landed: bool | None
    miss_mm: tuple[float, float] | None = None


def parse_miss(text: str) -> tuple[float, float] | None:
    """``"20 left 10 forward"`` as ``(10, 20)``: millimetres forward (away from the base) and left, seen from the base.

    Raises:
        UsageError: On anything else; the empty text is None.
    """
    if not text.strip():
        return None
    directions = {"forward": (1, 0), "back": (-1, 0), "left": (0, 1), "right": (0, -1)}
    found = re.findall(r"([\d.]+)\s*(?:mm)?\s*(\w+)|(\w+)\s+([\d.]+)\s*(?:mm)?", text.lower())
    miss = np.zeros(2)
    for size, after, before, size_after in found:
        if (word := after or before) not in directions:
            raise UsageError(f"{text!r} is no miss.", "Write for example: 20 left 10 forward (mm, seen from the base).")
        miss += float(size or size_after) * np.array(directions[word])
    if not found:
        raise UsageError(f"{text!r} is no miss.", "Write for example: 20 left 10 forward (mm, seen from the base).")
    return float(miss[0]), float(miss[1])


@dataclass(frozen=True)
class Tracking:
    """How one joint followed. Lengths in its unit.

    Args:
        lag_s: How much later than recorded it was where it was recorded, in seconds of this replay.
        offset: Median of achieved minus recorded while the command stands still; NaN if it never does.
        standing: Median of achieved minus sent while the command stands still; NaN if it never does.
        rms: Root mean square of achieved minus recorded with the lag taken out.
    """

    lag_s: float
    offset: float
    standing: float
    rms: float


def track(sent: Array, achieved: Array, recorded: Array, period_s: float) -> Tracking:
    """Compare one joint's motion with the recorded one.

    Args:
        sent, achieved, recorded: ``[T]``; NaN where not known.
        period_s: Seconds from frame to frame in this replay.
    """
    shifts = range(-round(MAX_LAG_S / period_s), round(MAX_LAG_S / period_s) + 1)
    errors = {}
    for shift in shifts:
        a, r = (
            (achieved[shift:], recorded[: len(recorded) - shift])
            if shift >= 0
            else (achieved[:shift], recorded[-shift:])
        )
        if len(a) >= len(achieved) / 2 and len(a):
            errors[shift] = float(np.nanmean((a - r) ** 2)) if np.isfinite(a - r).any() else np.inf
    best = min(errors, key=lambda shift: (errors[shift], abs(shift)))
    window = max(3, round(0.3 / period_s))
    still = np.zeros(len(sent), bool)
    calm = np.abs(np.diff(sent, prepend=sent[:1])) < STILL
    run = 0
    for k, quiet in enumerate(calm):
        run = run + 1 if quiet else 0
        still[k] = run >= window

    def median(values: Array) -> float:
        values = values[still & np.isfinite(values)]
        return float(np.median(values)) if len(values) else float("nan")

    return Tracking(best * period_s, median(achieved - recorded), median(achieved - sent), errors[best] ** 0.5)


def tracking(take: Take) -> dict[str, Tracking]:
    """:func:`track` for every position key of which something is known.

    Without the frames of the recorded opening jump, which the replay was eased through (:meth:`Plan.opening`).
    """
    frames = slice(take.plan.opening(), len(take.sent))
    sent, achieved = take.sent[frames], take.achieved[frames]
    recorded = np.where(np.isfinite(take.plan.states), take.plan.states, np.nan)[frames]
    return {
        key: track(sent[:, j], achieved[:, j], recorded[:, j], take.plan.period_s)
        for j, key in enumerate(take.plan.keys)
        if not is_velocity(key) and len(sent) > 3 and np.isfinite(achieved[:, j] - recorded[:, j]).any()
    }


def tracking_findings(tracked: Mapping[str, Tracking]) -> list[Finding]:
    """TRACKING, STANDING_ERROR, JOINT_OFFSET by joint; one ``pass`` each where nothing stands out."""
    findings: list[Finding] = []
    checks = (
        ("TRACKING", Cause.MOTORS, "rms", TRACKED, "goes {0:.1f} (rms) away from the recorded motion",
         "Look for a loose horn, a worn gear or a cable that pulls."),
        ("STANDING_ERROR", Cause.MOTORS, "standing", STANDING, "stands {0:+.1f} off its command",
         "Look for load, friction or a weak supply; 2–3° are normal at P = 16."),
        ("JOINT_OFFSET", Cause.CALIBRATION, "offset", OFFSET, "stands {0:+.1f} from where the same command brought it",
         "Compare the calibration file with the one used when recording."),
    )  # fmt: skip
    for code, cause, name, limit, words, fix in checks:
        worst = {k: getattr(t, name) for k, t in tracked.items() if not is_gripper(k) and np.isfinite(getattr(t, name))}
        over = {key: value for key, value in worst.items() if abs(value) > limit}
        for key, value in over.items():
            text = f"{key} {words.format(value)}"
            findings.append(Finding(code, Status.WARN, cause, key, text, {name: value, "limit": limit}, fix))
        if not over:
            known = bool(worst)
            largest = max((abs(v) for v in worst.values()), default=0.0)
            text = f"largest {name} {largest:.1f}, limit {limit:g}" if known else f"nothing shows the {name}"
            status = Status.PASS if known else Status.UNKNOWN
            findings.append(Finding(code, status, cause, "joints", text, {name: largest if known else None}))
    return findings


def take_findings(take: Take) -> list[Finding]:
    """How the take ended, what the bus lost and how well the loop kept time."""
    ending, label = take.ending, f"episode {take.plan.episode.index}, attempt {take.attempt}"
    findings = [_bus(take, label)]
    done, planned = len(take.sent), len(take.plan)
    where = f"at frame {done} of {planned}"
    if ending.end is End.STALLED:
        text = f"{ending.detail} {where}: stopped there, goal = present position"
        fix = f"Free {ending.joint}; look for an obstacle, an overloaded or overheated servo."
        findings.append(Finding("OVERLOAD", Status.FAIL, Cause.MOTORS, ending.joint, text, {"frame": done}, fix))
    elif ending.end is End.ARM_LOST:
        text = f"the arm stopped answering {where}: {ending.detail}"
        fix = "Check power, cables and the servo named; lerobot-find-port shows whether the port is still there."
        findings.append(Finding("BUS_ERRORS", Status.FAIL, Cause.MOTORS, label, text, {"frame": done}, fix))
    elif ending.end is End.CAMERA_LOST:
        text = f"a camera stopped {where}: {ending.detail}"
        fix = "Check its cable, or pass --joints_only=true to replay without pictures."
        findings.append(Finding("DEAD", Status.FAIL, Cause.CAMERAS, label, text, {"frame": done}, fix))
    if ending.end is End.NOT_ARRIVED:
        text = f"not played: {ending.detail}, the limit is {ARRIVED:g}"
        fix = "Look for an obstacle or a joint without torque; a calibration that changed does it too."
        findings.append(Finding("START_JUMP", Status.FAIL, Cause.MOTORS, ending.joint, text, {"limit": ARRIVED}, fix))
    if done > 1:
        findings.append(_loop(take, label))
    return findings


def _bus(take: Take, label: str) -> Finding:
    evidence = {"lost_packets": take.lost_packets, "failed_reads": take.failed_reads, "frames": len(take.sent)}
    if not take.lost_packets and not take.failed_reads:
        return Finding("BUS_ERRORS", Status.PASS, Cause.MOTORS, label, "no packet was lost", evidence)
    text = f"{take.lost_packets} lost packets, {take.failed_reads} reads failed for good, in {len(take.sent)} frames"
    fix = "A few are survived; more point to a cable, a plug or the supply."
    return Finding("BUS_ERRORS", Status.WARN, Cause.MOTORS, label, text, evidence, fix)


def _loop(take: Take, label: str) -> Finding:
    gaps = np.diff(take.time_s)
    wanted = 1 / take.plan.period_s
    achieved = 1 / float(np.mean(gaps))
    late = np.abs(take.late_s) * 1000
    evidence = {
        "wanted_hz": wanted,
        "achieved_hz": achieved,
        "late_p95_ms": float(np.percentile(late, 95)) if len(late) else None,
        "late_p99_ms": float(np.percentile(late, 99)) if len(late) else None,
        "late_worst_ms": float(late.max()) if len(late) else None,
        "jitter_p95_ms": float(np.percentile(np.abs(gaps - take.plan.period_s), 95)) * 1000,
    }
    if achieved < RATE * wanted:
        text = f"{achieved:.1f} commands a second instead of {wanted:.1f}"
        fix = "Replay slower (--speed), without --display_data, or with fewer and smaller cameras."
        return Finding("SLOW_LOOP", Status.WARN, Cause.CLOCK, label, text, evidence, fix)
    text = f"{achieved:.1f} Hz of {wanted:.1f}, 95 % of the commands within {evidence['late_p95_ms']:.1f} ms"
    return Finding("SLOW_LOOP", Status.PASS, Cause.CLOCK, label, text, evidence)


def same_miss(misses: Sequence[tuple[float, float]]) -> bool | None:
    """Whether the misses of several starts are one and the same; None with fewer than two."""
    if len(misses) < 2:
        return None
    vectors = np.array(misses)
    mean = vectors.mean(axis=0)
    away = np.linalg.norm(vectors - mean, axis=1).max()
    return bool(away <= max(SAME_MM, SAME_SHARE * np.linalg.norm(mean)))


def outcome_table(takes: Sequence[Take], outcomes: Sequence[Outcome]) -> Table:
    """Attempts side by side."""
    rows = []
    for take, outcome in zip(takes, outcomes, strict=True):
        landed = {None: "not told", True: "landed", False: "missed"}[outcome.landed]
        forward, left = outcome.miss_mm or (float("nan"), float("nan"))
        errors = [t.rms for key, t in tracking(take).items() if not is_gripper(key)]
        rows.append(
            [
                take.plan.episode.index,
                take.attempt,
                take.ending.end.value,
                landed,
                forward,
                left,
                hundredths(max(errors, default=float("nan"))),
            ]
        )
    columns = ["episode", "attempt", "ended", "outcome", "miss forward mm", "miss left mm", "worst joint rms"]
    return Table("Attempts", columns, rows, _attempts_note(rows))


def _attempts_note(rows: Sequence[Sequence[object]]) -> str:
    sizes = [float(np.hypot(row[4], row[5])) for row in rows if np.isfinite(row[4])]  # type: ignore[call-overload]
    if len(sizes) < 2:
        return ""
    change = sizes[-1] - sizes[0]
    word = "better" if change < 0 else "worse"
    return f"the last attempt misses by {abs(change):.0f} mm {'less' if change < 0 else 'more'} than the first: {word}"


def verdict(findings: Sequence[Finding], outcomes: Sequence[Outcome], takes: Sequence[Take] = ()) -> Verdict:
    """The conclusion: whatever forbade or broke the replay; else what the outcome and the evidence say together.

    Without outcomes nothing was played: a dry run. The takes tell whether the user stopped the last one.

    A replay looks at nothing: that it misses cannot be the camera's fault, and that it lands does not clear the camera.
    """
    failed = [f for f in findings if f.status is Status.FAIL]
    if failed:
        text = f"{failed[0].summary}. {failed[0].fix}".strip()
        return Verdict(failed[0].cause.value, text, [f.code for f in failed], ["whether the recorded motion lands"])

    if not outcomes:
        return Verdict("undecided", "nothing forbids this replay; nothing was sent", [], ["whether the motion lands"])

    def warned(*codes: str) -> list[Finding]:
        return [f for f in findings if f.code in codes and f.status is Status.WARN]

    moved_cameras = warned("MOVED", "SWAPPED", "ROTATED", "FRAMING")
    moved_things = warned("OBJECT_MOVED", "BASE_MOVED")
    motors = warned("TRACKING", "STANDING_ERROR")
    calibration = warned("JOINT_OFFSET")
    told = [o.landed for o in outcomes if o.landed is not None]
    unseen = [f.summary for f in findings if f.code in {"MOVED", "OBJECT_MOVED"} and f.status is Status.UNKNOWN]
    unseen += [f.summary for f in warned("MISSING_FILES", "MISSING_CAMERA")]
    if not told:
        evidence = moved_things or moved_cameras or calibration or motors
        if evidence:
            return Verdict(
                evidence[0].cause.value, evidence[0].summary, [evidence[0].code], ["whether it landed", *unseen]
            )
        if takes and takes[-1].ending.end is End.STOPPED:
            text = f"stopped after {len(takes[-1].sent)} of {len(takes[-1].plan)} frames; not judged"
            return Verdict("undecided", text, [], ["whether it landed", *unseen])
        text = "nothing differs from the recording, but nobody said whether the motion landed (--outcome)"
        return Verdict("undecided", text, [], ["whether it landed", *unseen])
    if all(told):
        if moved_cameras:
            text = f"the motion lands, so arm and workspace are as recorded; but {moved_cameras[0].summary}"
            return Verdict("cameras", text, ["MOVED"], unseen)
        text = "the setup matches the recording: look at the model (lerobot-open-loop-eval)"
        return Verdict("none_found", text, [], unseen)
    return _missed(moved_things, motors, calibration, outcomes, unseen)


def _missed(
    moved: Sequence[Finding],
    motors: Sequence[Finding],
    calibration: Sequence[Finding],
    outcomes: Sequence[Outcome],
    unseen: Sequence[str],
) -> Verdict:
    misses = [o.miss_mm for o in outcomes if o.landed is False and o.miss_mm is not None]
    same = same_miss(misses)
    spread = ""
    if same is not None:
        spread = (
            "; it misses alike from every start: a shifted zero or base"
            if same
            else "; the miss varies from start to start: no single shift explains it"
        )
    if moved:
        text = f"the motion misses because the workspace moved: {moved[0].summary}{spread}. {moved[0].fix}"
        return Verdict("workspace", text, [f.code for f in moved], unseen)
    if calibration:
        text = f"the motion misses and {calibration[0].summary}{spread}. {calibration[0].fix}"
        return Verdict("calibration", text, [f.code for f in calibration], unseen)
    if motors:
        text = f"the motion misses and {motors[0].summary}{spread}. {motors[0].fix}"
        return Verdict("motors", text, [f.code for f in motors], unseen)
    if same:
        text = f"the motion misses{spread}. Compare the calibration file, then the base's place"
        return Verdict("calibration", text, [], ["whether the zero or the base shifted", *unseen])
    text = f"the motion misses and nothing measured says why{spread}: compare calibration, base and objects by eye"
    return Verdict("undecided", text, [], ["what moved", *unseen])
