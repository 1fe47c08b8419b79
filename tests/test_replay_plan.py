"""What may be sent, and what may not."""

import numpy as np
import pytest
from fake_robot import KEYS
from make_dataset import make_dataset

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Status
from lerobot_diagnostics.recording import open_episode
from lerobot_diagnostics.recording.units import Unit
from lerobot_diagnostics.replay.plan import check_plan, make_plan, plan_table
from lerobot_diagnostics.robot.joints import RobotJoint

JOINTS = {key: RobotJoint(key, Unit.DEGREES, {"range_min": 900, "range_max": 3100}) for key in KEYS}  # ±96.7°
STEPS = dict.fromkeys(KEYS, 20.0)
MIDDLE = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 50.0])  # a gripper goes from 0 to 100


def wave(_episode, length):
    """Whole ticks of a joint whose middle is a tick."""
    degrees = 40 * np.sin(np.arange(length)[:, None] / 15 + np.arange(6)[None, :])
    return np.round(degrees * 4095 / 360) * 360 / 4095 + MIDDLE


def planned(tmp_path, *, states=wave, actions=None, names=KEYS, **settings):
    root = make_dataset(tmp_path / "data", lengths=(90,), fps=30, states=states, actions=actions, names=names)
    return make_plan(open_episode(root, 0), KEYS, speed=1.0, **settings)


def statuses(plan, joints=JOINTS, steps=STEPS):
    return {(f.code, f.subject): f.status for f in check_plan(plan, joints, steps)}


def failed(plan, joints=JOINTS, steps=STEPS):
    return [key for key, status in statuses(plan, joints, steps).items() if status is Status.FAIL]


def test_a_good_recording_passes_every_check(tmp_path):
    assert set(statuses(planned(tmp_path)).values()) == {Status.PASS}


def test_differences_are_no_goals_but_goals_around_zero_are(tmp_path):
    delta = planned(tmp_path, actions=lambda e, n: np.diff(wave(e, n + 1), axis=0))
    assert failed(delta) == [("UNITS_MISMATCH", "action")]
    small = planned(tmp_path / "small", states=lambda e, n: (wave(e, n) - MIDDLE) / 6 + MIDDLE)
    assert failed(small) == []


def test_a_joint_that_crosses_its_seam_is_refused(tmp_path):
    def turning(_episode, length):
        values = wave(0, length)
        values[:, 4] = (np.arange(length) * 3.0 + 100 + 180) % 360 - 180
        return values

    plan = planned(tmp_path, states=turning)
    free = JOINTS | {"wrist_roll.pos": RobotJoint("wrist_roll.pos", Unit.DEGREES, {"range_min": 0, "range_max": 4095})}
    codes = failed(plan, joints=free)
    assert ("WRAP", "wrist_roll.pos") in codes
    straight = planned(tmp_path / "b", states=lambda e, n: wave(e, n))
    assert failed(straight, joints=free) == []


def test_states_beyond_the_calibrated_range_are_refused_but_eager_actions_are_cut(tmp_path):
    shifted = planned(tmp_path, states=lambda e, n: wave(e, n) + 70.0)
    assert "END_STOP" in {code for code, _ in failed(shifted)}
    eager = planned(tmp_path / "b", actions=lambda e, n: (wave(e, n) - MIDDLE) * 2.6 + MIDDLE)
    (limits,) = [f for f in check_plan(eager, JOINTS, dict.fromkeys(KEYS, 40.0)) if f.code == "END_STOP"]
    assert limits.status is Status.PASS and limits.evidence["commands_clipped"] > 0


def test_a_jump_beyond_the_step_limit_is_refused_with_the_flag(tmp_path):
    def jumping(episode, length):
        values = wave(episode, length)
        values[40:, 2] += 35.0
        return values

    plan = planned(tmp_path, actions=jumping)
    (jump,) = [f for f in check_plan(plan, JOINTS, STEPS) if f.code == "START_JUMP"]
    assert jump.status is Status.FAIL and jump.subject == "elbow_flex.pos" and jump.evidence["frame"] == 39
    assert "--max_step=" in jump.fix
    assert failed(plan, steps=dict.fromkeys(KEYS, 50.0)) == []


def test_nan_names_frame_and_joint(tmp_path):
    def broken(episode, length):
        values = wave(episode, length)
        values[17:, 1] = np.nan
        return values

    (finding,) = check_plan(planned(tmp_path, actions=broken), JOINTS, STEPS)
    assert (finding.code, finding.subject, finding.evidence["frame"]) == ("NAN", "shoulder_lift.pos", 17)


def test_names_bind_and_the_old_convention_is_asked_for(tmp_path):
    old = tuple(f"main_{key.removesuffix('.pos')}" for key in KEYS)
    with pytest.raises(UsageError, match="--old_convention=true"):
        planned(tmp_path, names=old)
    converted = planned(tmp_path / "b", names=old, old_convention=True)
    kept = planned(tmp_path / "c", names=old, old_convention=False)
    assert converted.actions[:, 1] == pytest.approx(90 - kept.actions[:, 1], abs=1e-4)
    assert converted.states[:, 2] == pytest.approx(kept.states[:, 2] - 90, abs=1e-4)
    with pytest.raises(UsageError, match="does not name"):
        planned(tmp_path / "d", names=None)


def test_the_plan_starts_at_the_recorded_state_and_allows_its_lag(tmp_path):
    plan = planned(tmp_path, actions=lambda e, n: wave(e, n) + np.where(np.arange(n)[:, None] == 40, 7.0, 0.0))
    assert plan.pose(0) == pytest.approx(dict(zip(KEYS, wave(0, 1)[0], strict=True)), abs=1e-4)
    allowed = plan.allowed_lag()
    assert allowed[[31, 40, 49]] == pytest.approx(7.0, abs=1e-4) and allowed[[20, 60]] == pytest.approx(0.0, abs=1e-4)


def catching_up(jump, frames):
    """States that begin ``jump`` away from the wave in joint 1 and are there after ``frames``; the actions are it."""

    def states(episode, length):
        values = wave(episode, length)
        values[:frames, 1] += jump * (1 - np.arange(frames) / frames)
        return values

    return {"states": states, "actions": wave}


def test_the_frames_of_an_opening_jump_are_told_from_a_start_without_one(tmp_path):
    jumping = planned(tmp_path, **catching_up(-50.0, 10))
    assert jumping.jumps() == {"shoulder_lift.pos": pytest.approx(50.0, abs=0.01)}
    assert jumping.opening() == 8  # at 30, where the wave began at 34 (and is at 40)
    smooth = planned(tmp_path / "b", **catching_up(-4.0, 10))
    assert smooth.jumps() == {} and smooth.opening() == 0
    held_up = planned(tmp_path / "c", **catching_up(-90.0, 88))
    assert held_up.opening() == 30  # a second, not the whole episode


def test_the_table_names_the_opening_jump_and_only_where_there_is_one(tmp_path):
    jumping = planned(tmp_path, **catching_up(-50.0, 10))
    note = "first action is 50° (shoulder_lift.pos) from its first pose; eased to"
    assert note in plan_table(jumping, JOINTS).note
    assert "50 (shoulder_lift.pos)" in plan_table(jumping, {}).note  # no robot, no unit
    assert "first action" not in plan_table(planned(tmp_path / "b"), JOINTS).note


def test_a_follower_that_lags_has_caught_up_where_its_commands_were(tmp_path):
    ramp = np.zeros((90, 6)) + MIDDLE
    ramp[:, 1] = 3.0 * np.minimum(np.arange(90), 20)
    late = np.vstack([ramp[:1] - 40.0, ramp[:1] - 40.0, ramp[:1] - 20.0, np.repeat(ramp[:1], 5, 0), ramp[:-8]])
    late[:, [0, 2, 3, 4, 5]] = ramp[:, [0, 2, 3, 4, 5]]
    plan = planned(tmp_path, states=lambda _e, n: late[:n], actions=lambda _e, n: ramp[:n])
    assert plan.opening() == 3 and plan.actions[3, 1] - plan.states[3, 1] > 5  # behind, but on the way it was sent


def test_the_table_shows_live_beside_recorded(tmp_path):
    plan = planned(tmp_path)
    table = plan_table(plan, JOINTS, dict.fromkeys(KEYS, 1.0))
    row = dict(zip(table.columns, table.rows[0], strict=True))
    assert row["joint"] == KEYS[0] and row["unit"] == "°" and row["live"] == 1.0
    assert row["first step (eased)"] == pytest.approx(abs(plan.pose(0)[KEYS[0]] - 1.0), abs=0.005)
    assert "90 commands at 30 Hz" in table.note


def test_the_table_rounds_what_was_computed_but_not_measured(tmp_path):
    still = planned(tmp_path, states=lambda _e, n: np.zeros((n, 6)) + MIDDLE + 1e-6, actions=None)
    table = plan_table(still, {}, dict.fromkeys(KEYS, 2.26e-06))
    for row in table.rows:
        assert all(value == round(value, 2) for value in row[2:]), row
    assert [row[1] for row in table.rows] == ["?"] * 5 + ["0–100"]


def test_unknown_robot_is_unknown_not_pass(tmp_path):
    plain = {key: RobotJoint(key, Unit.UNKNOWN) for key in KEYS}
    found = statuses(planned(tmp_path), plain)
    assert found["UNITS_MISMATCH", "joints"] is Status.UNKNOWN and found["END_STOP", "joints"] is Status.UNKNOWN


def test_what_was_recorded_of_a_real_arm_passes(recordings):
    episode = open_episode(recordings / "so101_record_test_stateonly/v30", 1)
    plan = make_plan(episode, KEYS, speed=0.5)
    ranges = {"range_min": 900, "range_max": 3100}
    percent = {key: RobotJoint(key, Unit.RANGE_M100_100, ranges) for key in KEYS}
    assert failed(plan, joints=percent) == []
    (units, *_) = check_plan(plan, JOINTS, STEPS)
    assert units.status is Status.FAIL and "--robot.use_degrees=false" in units.fix
