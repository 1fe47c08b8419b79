"""Tracking, misses and verdicts on hand-made numbers."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Cause, Finding, Status
from lerobot_diagnostics.replay.judge import (
    Outcome,
    outcome_table,
    parse_miss,
    same_miss,
    take_findings,
    track,
    tracking,
    tracking_findings,
    verdict,
)
from lerobot_diagnostics.replay.plan import Plan
from lerobot_diagnostics.replay.play import Take
from lerobot_diagnostics.robot.move import End, Ending

LANDED, MISSED, SILENT = Outcome(True), Outcome(False), Outcome(None)
PERIOD = 1 / 30


def motion(length=120):
    """Moves for two seconds, stands for two."""
    t = np.minimum(np.arange(length), 60) / 60
    return 40 * (3 * t**2 - 2 * t**3)


def test_a_lag_is_found_and_taken_out():
    recorded = motion()
    late = np.concatenate([np.zeros(4), motion()[:-4]])
    tracked = track(recorded, late, recorded, PERIOD)
    assert tracked.lag_s == pytest.approx(4 * PERIOD)
    assert tracked.rms == pytest.approx(0.0, abs=1e-9)
    assert track(recorded, recorded, recorded, PERIOD).lag_s == 0


def test_an_offset_and_a_standing_error_are_told_apart():
    sent, recorded = motion(), motion() - 2.5  # the servo stood 2.5 off its command when recorded
    tracked = track(sent, recorded - 4.0, recorded, PERIOD)
    assert tracked.offset == pytest.approx(-4.0, abs=0.1) and tracked.standing == pytest.approx(-6.5, abs=0.1)


def test_missing_reads_do_not_count():
    achieved = motion()
    achieved[50:60] = np.nan
    assert track(motion(), achieved, motion(), PERIOD).rms == pytest.approx(0.0, abs=1e-9)


def test_tracking_findings_name_the_joint_and_spare_what_is_normal():
    recorded = motion()
    tracked = {
        "elbow_flex.pos": track(recorded, recorded - 8.0, recorded, PERIOD),
        "shoulder_pan.pos": track(recorded, recorded - 2.5, recorded, PERIOD),
        "gripper.pos": track(recorded, recorded + 30.0, recorded, PERIOD),  # it holds something else
    }
    findings = tracking_findings(tracked)
    assert {(f.code, f.subject) for f in findings if f.status is Status.WARN} == {
        ("TRACKING", "elbow_flex.pos"),
        ("STANDING_ERROR", "elbow_flex.pos"),
        ("JOINT_OFFSET", "elbow_flex.pos"),
    }
    del tracked["elbow_flex.pos"]
    assert {f.status for f in tracking_findings(tracked)} == {Status.PASS}
    assert {f.status for f in tracking_findings({})} == {Status.UNKNOWN}


def played(recorded, commands, achieved):
    """One joint's attempt at 30 Hz."""
    column = {"sent": commands[:, None], "achieved": achieved[:, None]}
    plan = Plan(SimpleNamespace(index=0, fps=30), ("elbow_flex.pos",), commands[:, None], recorded[:, None], 1.0)
    return Take(plan, **column)


def test_the_recorded_opening_jump_is_no_tracking_error_but_a_real_one_after_it_is():
    commands = motion()
    recorded = commands.copy()
    recorded[:20] += np.linspace(-90.0, -30.0, 20)
    healthy = tracking(played(recorded, commands, commands))["elbow_flex.pos"]
    assert healthy.rms == pytest.approx(0.0, abs=1e-9) and healthy.lag_s == 0
    assert track(commands, commands, recorded, PERIOD).rms > 5  # the jump alone is enough to be blamed
    loose = commands - 8.0 * (np.arange(120) > 30)
    tracked = tracking(played(recorded, commands, loose))
    assert ("TRACKING", Status.WARN) in {(f.code, f.status) for f in tracking_findings(tracked)}
    assert tracked["elbow_flex.pos"].offset == pytest.approx(-8.0)


def test_a_real_error_in_the_first_frames_of_a_recording_without_a_jump_still_counts():
    commands = motion()
    stuck = commands.copy()
    stuck[:30] -= 20.0
    tracked = tracking(played(commands, commands, stuck))
    assert ("TRACKING", Status.WARN) in {(f.code, f.status) for f in tracking_findings(tracked)}


def take(ending=None, *, late_ms=0.0, period=PERIOD, lost=0, frames=90):
    keys = ("elbow_flex.pos", "x.vel")
    plan = Plan(SimpleNamespace(index=3, fps=30), keys, np.zeros((90, 2)), np.zeros((90, 2)), 1.0)
    return Take(
        plan,
        sent=np.zeros((frames, 2)),
        achieved=np.zeros((frames, 2)),
        time_s=np.arange(frames) * period,
        late_s=np.full(frames, late_ms / 1000),
        lost_packets=lost,
        ending=ending or Ending(End.FINISHED),
    )


def status_of(findings, code):
    return [f.status for f in findings if f.code == code]


@pytest.mark.parametrize(
    ("ending", "code", "cause"),
    [
        (Ending(End.STALLED, "elbow was 20 behind", "elbow_flex.pos"), "OVERLOAD", Cause.MOTORS),
        (Ending(End.ARM_LOST, "3 reads"), "BUS_ERRORS", Cause.MOTORS),
        (Ending(End.CAMERA_LOST, "too old"), "DEAD", Cause.CAMERAS),
        (Ending(End.NOT_ARRIVED, "elbow stands 12 off", "elbow_flex.pos"), "START_JUMP", Cause.MOTORS),
    ],
)
def test_every_bad_end_fails_and_is_the_verdict(ending, code, cause):
    findings = take_findings(take(ending))
    assert Status.FAIL in status_of(findings, code)
    assert verdict(findings, [SILENT]).cause == cause


def test_a_good_end_fails_nothing_and_lost_packets_warn():
    assert {f.status for f in take_findings(take())} == {Status.PASS}
    assert status_of(take_findings(take(lost=3)), "BUS_ERRORS") == [Status.WARN]


def test_a_slow_loop_is_told_from_one_that_keeps_up():
    assert status_of(take_findings(take(period=1.2 * PERIOD)), "SLOW_LOOP") == [Status.WARN]
    (loop,) = [f for f in take_findings(take(late_ms=1.5)) if f.code == "SLOW_LOOP"]
    assert loop.status is Status.PASS and loop.evidence["late_p95_ms"] == pytest.approx(1.5)


def test_misses_are_read_in_words():
    assert parse_miss("20 left 10 forward") == (10.0, 20.0)
    assert parse_miss("right 5mm, 3 mm back") == (-3.0, -5.0)
    assert parse_miss("  ") is None
    for nonsense in ("20 up", "left", "far"):
        with pytest.raises(UsageError, match="no miss"):
            parse_miss(nonsense)


def test_the_same_miss_at_every_start_is_told_from_one_that_varies():
    assert same_miss([(20.0, 30.0), (24.0, 27.0), (18.0, 33.0)]) is True
    assert same_miss([(20.0, 30.0), (-25.0, 10.0)]) is False
    assert same_miss([(20.0, 30.0)]) is None


def finding(code, status=Status.WARN, cause=Cause.CAMERAS, summary="front was moved"):
    return Finding(code, status, cause, "front", summary)


MOVED = finding("MOVED")
OBJECT = finding("OBJECT_MOVED", cause=Cause.WORKSPACE, summary="the cube has moved 12 px left")
OFFSET = finding("JOINT_OFFSET", cause=Cause.CALIBRATION, summary="elbow stands 5 off")


@pytest.mark.parametrize(
    ("findings", "outcomes", "cause", "words"),
    [
        ([], [], "undecided", "nothing was sent"),
        ([], [LANDED], "none_found", "look at the model"),
        ([MOVED], [LANDED], "cameras", "lands.*front was moved"),
        ([OBJECT], [MISSED], "workspace", "cube has moved"),
        ([MOVED], [MISSED], "undecided", "nothing measured"),  # a replay looks at nothing
        ([OFFSET], [MISSED], "calibration", "5 off"),
        ([], [Outcome(False, (0.0, 30.0)), Outcome(False, (2.0, 28.0))], "calibration", "alike from every start"),
        ([], [Outcome(False, (0.0, 30.0)), Outcome(False, (30.0, -20.0))], "undecided", "varies"),
        ([], [SILENT], "undecided", "nobody said"),
        ([OBJECT], [SILENT], "workspace", "cube"),
    ],
)
def test_verdicts(findings, outcomes, cause, words):
    concluded = verdict(findings, outcomes)
    assert concluded.cause == cause
    assert re.search(words, concluded.summary), concluded.summary


def test_a_replay_that_was_stopped_is_not_judged_and_one_that_nobody_judged_says_so():
    stopped = take(Ending(End.STOPPED, "stopped by the user"), frames=37)
    concluded = verdict([], [SILENT], [stopped])
    assert (concluded.cause, concluded.summary) == ("undecided", "stopped after 37 of 90 frames; not judged")
    assert "nobody said" in verdict([], [SILENT], [take()]).summary
    assert verdict([], [LANDED, SILENT], [take(), stopped]).cause == "none_found"  # the first attempt was judged


def test_attempts_stand_side_by_side():
    table = outcome_table([take(), take()], [Outcome(False, (0.0, 30.0)), Outcome(False, (0.0, 12.0))])
    assert [row[5] for row in table.rows] == [30.0, 12.0]
    assert "18 mm less" in table.note and "better" in table.note
