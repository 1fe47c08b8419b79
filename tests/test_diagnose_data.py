"""Faults of the recorded arrays, each on hand-made data beside the look-alike that must stay silent."""

from itertools import pairwise

import numpy as np
import pytest

from lerobot_diagnostics.diagnose.data import (
    find_units,
    judge_conventions,
    judge_default_unit,
    judge_finite,
    judge_following,
    judge_jumps,
    judge_rate,
    judge_unit_pair,
    judge_widths,
)
from lerobot_diagnostics.diagnose.following import Pair, follow
from lerobot_diagnostics.findings import Status
from lerobot_diagnostics.robot.calibration import Limits

NAMES = ("shoulder_pan.pos", "elbow_flex.pos", "wrist_flex.pos", "gripper.pos")
FPS = 30
TICK = 360 / 4095


def leader(T=300, seed=0):
    """[T, 4] degrees on the encoder's lattice: moves between poses with rests of a second; the gripper 0 to 100."""
    rng = np.random.default_rng(seed)
    poses = np.column_stack([rng.uniform(-60, 60, (8, 3)), rng.choice([5.0, 90.0], 8)])
    ease = np.clip(np.linspace(0, 2.5, T // 7), 0, 1)[:, None]
    path = np.concatenate([a + (b - a) * ease for a, b in pairwise(poses)])
    return np.round(path / TICK) * TICK


def pair(lag=0, change=None, seed=0):
    """A follower ``lag`` frames behind; ``change`` alters its states in place."""
    actions = leader(seed=seed)
    states = actions[np.maximum(np.arange(len(actions)) - lag, 0)].copy()
    if change is not None:
        change(states)
    return Pair(actions, states)


def told(findings, *statuses):
    return {(f.code, f.subject) for f in findings if f.status in (statuses or (Status.FAIL, Status.WARN))}


def test_a_delay_is_told_in_frames_and_is_no_offset():
    findings = judge_following([pair(lag=4), pair(lag=4, seed=1)], NAMES, FPS)
    lag = next(f for f in findings if f.code == "LAG")
    assert (lag.status, lag.evidence["lag_frames"]) == (Status.INFO, 4)
    assert "133 ms" in lag.summary
    assert not told(findings)
    assert ("LEADER_OFFSET", "all joints") in told(findings, Status.PASS)


def test_a_constant_between_leader_and_follower():
    def elbow(states):
        states[:, 1] -= 17

    findings = judge_following([pair(lag=4, change=elbow), pair(lag=4, change=elbow, seed=1)], NAMES, FPS)
    found = next(f for f in findings if f.code == "LEADER_OFFSET")
    assert (found.status, found.subject) == (Status.FAIL, "elbow_flex.pos")
    assert found.evidence["offset_deg"] == pytest.approx(17, abs=0.1)
    assert next(f for f in findings if f.code == "LAG").evidence["lag_frames"] == 4


def test_sagging_that_depends_on_the_pose_is_no_constant():
    def sag(states):
        states[:, 1] -= 6 * np.sign(states[:, 0])  # one way or the other

    assert not told(judge_following([pair(change=sag)], NAMES, FPS))


def test_relabelled_actions_are_known_and_leave_the_leader_unknown():
    actions = leader()
    findings = judge_following([Pair(np.roll(actions, -1, axis=0)[:-1], actions[:-1])], NAMES, FPS)
    assert [(f.code, f.status) for f in findings] == [("LAG", Status.INFO), ("LEADER_OFFSET", Status.UNKNOWN)]
    assert "relabelled" in findings[0].summary


def test_a_joint_that_moves_the_other_way_or_twice_as_far():
    def reverse(states):
        states[:, 0] *= -1

    def double(states):
        states[:, 2] *= 2

    assert told(judge_following([pair(lag=2, change=reverse)], NAMES, FPS), Status.FAIL) == {
        ("SIGN", "shoulder_pan.pos")
    }
    found = judge_following([pair(lag=2, change=double)], NAMES, FPS)
    assert ("SCALE", "wrist_flex.pos") in told(found, Status.FAIL)
    assert not [f for f in found if f.code == "SIGN" and f.status is Status.FAIL]


def test_a_gripper_the_other_way_round_and_one_that_holds_an_object():
    def inverted(states):
        states[:, 3] = 100 - states[:, 3]

    def holding(states):
        states[:, 3] = np.maximum(states[:, 3], 38)

    assert ("INVERTED", "gripper.pos") in told(judge_following([pair(change=inverted)], NAMES, FPS), Status.FAIL)
    assert not told(judge_following([pair(change=holding)], NAMES, FPS))


def test_a_gripper_that_never_moves_is_inverted_only_at_100_minus_action():
    def rest(at):
        actions = leader()
        states = actions.copy()
        actions[:, 3], states[:, 3] = 2.0, at
        actions[0, 3] = 0.0
        return judge_following([Pair(actions, states)], NAMES, FPS)

    assert ("INVERTED", "gripper.pos") in told(rest(98.0), Status.FAIL)
    assert not told(rest(35.0))


def test_delta_actions_are_not_judged_as_targets():
    states = leader()
    deltas = np.diff(states, axis=0, append=states[-1:])
    findings = judge_following([Pair(deltas, states)], NAMES, FPS)
    assert not told(findings)
    assert ("LEADER_OFFSET", "action") in told(findings, Status.UNKNOWN)


def test_too_short_to_follow():
    assert follow([Pair(leader()[:10], leader()[:10])], FPS).lag is None


def test_a_seam_is_a_jump_of_a_turn_and_a_fast_move_is_not():
    values = leader()
    units = find_units(values, NAMES)
    assert told(judge_jumps([values], NAMES, units), Status.PASS) == {("WRAP", "all joints")}
    crossing = values.copy()
    crossing[100:, 0] += 340
    found = judge_jumps([crossing], NAMES, units)
    assert told(found) == {("WRAP", "shoulder_pan.pos")}
    assert found[0].evidence["first_frame"] == 99


def rate(states, fps=FPS, timestamps=None):
    timestamps = np.arange(len(states)) / FPS if timestamps is None else timestamps
    return judge_rate([timestamps], [states], fps, NAMES, find_units(states, NAMES))


def slow_sine(T=300):
    t = np.arange(T)[:, None] / FPS
    return np.round((40 * np.sin(t + np.arange(4)) + 45) / TICK) * TICK


def test_rows_at_the_stated_rate_pass_and_at_half_of_it_do_not():
    assert not told(rate(slow_sine()))
    assert told(rate(np.repeat(slow_sine()[::2], 2, axis=0))) == {("RATE_SUSPECT", "states")}


def test_a_resting_arm_repeats_its_rows_by_right():
    resting = slow_sine()
    resting[50:250] = resting[50]
    assert not told(rate(resting))


def test_time_stamps_of_another_rate_or_with_gaps():
    assert told(rate(slow_sine(), fps=50), Status.FAIL) == {("RATE_SUSPECT", "time stamps")}
    gaps = np.arange(300) / FPS
    gaps[100:] += 0.2
    assert told(rate(slow_sine(), timestamps=gaps), Status.WARN) == {("RATE_SUSPECT", "time stamps")}


def test_motion_no_servo_makes():
    fast = np.round(300 * np.sin(np.arange(300) / 3)[:, None] * np.ones(4) / TICK) * TICK
    assert ("RATE_SUSPECT", "shoulder_pan.pos") in told(rate(fast))


def hundred(width, T=400):
    ticks = np.round(1500 + 400 * np.sin(np.arange(T) / 25))
    return (ticks - 1000) / width * 200 - 100


def test_units_of_action_and_state_by_quantum():
    joints = NAMES[:3]
    degrees = find_units(leader()[:, :3], joints)
    percent = find_units(np.column_stack([hundred(2549), hundred(2303), hundred(2205)]), joints)
    assert judge_unit_pair(degrees, degrees)[0].status is Status.PASS
    assert judge_unit_pair(degrees, percent)[0].status is Status.FAIL
    rounded = find_units(np.round(leader()[:, :3]), joints)
    assert judge_unit_pair(rounded, rounded)[0].status is Status.UNKNOWN


def test_a_unit_that_todays_arm_is_not_set_to_warns_with_the_flag():
    percent = find_units(np.column_stack([hundred(2549), hundred(2303), hundred(2205)]), NAMES[:3])
    assert "--robot.use_degrees=false" in judge_default_unit(percent, "so101_follower")[0].fix
    assert not judge_default_unit(percent, "koch_follower")
    assert not judge_default_unit(find_units(leader()[:, :3], NAMES[:3]), "so101_follower")


def test_the_recorded_width_against_todays_calibration():
    units = find_units(np.column_stack([hundred(2549), hundred(2303), hundred(2205)]), NAMES[:3])

    def limits(*widths):
        return {
            name: Limits(1, 0, 0, 1000, 1000 + width)
            for name, width in zip(("shoulder_pan", "elbow_flex", "wrist_flex"), widths, strict=True)
        }

    assert judge_widths(units, limits(2549, 2303, 2205))[0].status is Status.PASS
    found = judge_widths(units, limits(2549, 2203, 2205))
    assert told(found, Status.FAIL) == {("ZERO_CHANGED", "elbow_flex.pos")}
    assert "2303" in found[0].summary
    assert "2203" in found[0].summary
    assert not judge_widths(find_units(leader()[:, :3], NAMES[:3]), limits(2549, 2303, 2205))  # degrees carry no width


def test_old_names_come_with_the_mapping():
    found = judge_conventions(["main_shoulder_pan", "main_shoulder_lift"], robot=True)
    assert found[0].status is Status.FAIL
    assert "shoulder_lift = −(x − 90)" in found[0].summary
    assert judge_conventions(["main_shoulder_pan"], robot=False)[0].status is Status.WARN
    assert not judge_conventions(NAMES, robot=True)


def test_what_is_no_number_is_named_with_its_first_frame():
    values = leader()
    assert not judge_finite({0: {"action": values}})
    values[7, 2] = np.nan
    found = judge_finite({3: {"action": values}})
    assert (found[0].subject, found[0].evidence["first_frame"]) == ("episode 3", 7)
