"""Each fault is named on the right joint; a good policy is left alone."""

import re
from collections import Counter

import numpy as np
import pytest

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Cause, Status
from lerobot_diagnostics.openloop import judge
from lerobot_diagnostics.openloop.metrics import MeanTrajectory
from lerobot_diagnostics.openloop.verdicts import CODES
from lerobot_diagnostics.report.format import evidence_items

NAMES = ["shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "gripper"]
UNITS = ["°"] * 4 + ["%"]
FPS = 30.0
T = 300
REACH = np.array([40.0, 30.0, 35.0, 25.0, 50.0])
CENTRE = np.array([5.0, -40.0, 60.0, 20.0, 50.0])


def demonstration(seed: int = 0, frames: int = T) -> np.ndarray:
    """Smooth arm joints of their own frequencies and a gripper that closes and opens twice."""
    rng = np.random.default_rng(seed)
    t = np.arange(frames) / FPS
    arm = [np.sin(2 * np.pi * f * t + rng.uniform(0, 6)) for f in (0.21, 0.34, 0.47, 0.29)]
    gripper = np.tanh(8 * np.sin(2 * np.pi * 0.25 * t + 0.5))
    return CENTRE + REACH * np.stack([*arm, gripper], axis=1)


def noisy(values: np.ndarray, part: float = 0.02, seed: int = 1) -> np.ndarray:
    """With white noise of this part of each joint's range, of mean zero to the last digit."""
    noise = np.random.default_rng(seed).normal(size=values.shape)
    return values + (noise - noise.mean(axis=0)) * part * np.ptp(values, axis=0)


def check(recorded, predicted, **kwargs):
    """Findings, after what holds for every call: each code is there and each finding can be written."""
    kwargs = {"names": NAMES, "units": UNITS, "fps": FPS} | kwargs
    findings = judge(recorded, predicted, **kwargs)
    assert {f.code for f in findings} == set(CODES)
    assert all(f.to_dict() for f in findings)
    return findings


def faults(findings) -> dict[str, list[str]]:
    """Subjects of what failed or warned, by code."""
    found: dict[str, list[str]] = {}
    for f in findings:
        if f.status in (Status.FAIL, Status.WARN):
            found.setdefault(f.code, []).append(f.subject)
    return found


def the(findings, code):
    (finding,) = [f for f in findings if f.code == code]
    return finding


Y = demonstration()


def test_good_policy_passes_everything_it_can():
    findings = check(Y, noisy(Y))
    assert faults(findings) == {}
    assert {f.code for f in findings if f.status is not Status.PASS} == {"MEAN_REPLAY"}  # one episode cannot tell
    assert the(findings, "MEAN_REPLAY").status is Status.UNKNOWN


@pytest.mark.parametrize(
    ("units", "says"),
    [(None, r"predicted 8(\.\d+)? too high"), (["±100"] * 4 + ["0–100"], r"predicted 8(\.\d+)? of ±100 too high")],
)
def test_a_unit_that_is_not_known_is_left_out_and_a_range_is_no_tolerance(units, says):
    offset = the(check(Y, noisy(Y + np.array([8.0, 0, 0, 0, 0]), 0.002), units=units), "OFFSET")
    assert re.search(says, offset.summary), offset.summary
    assert "units everywhere" not in offset.summary and "  " not in offset.summary
    assert dict(evidence_items(offset.evidence)).get("unit") == (units and "±100")


def test_perfect_copy_is_no_fault():
    assert faults(check(Y, Y)) == {}


def test_offset_reads_like_a_colleague():
    predicted = noisy(Y, 0.01)
    predicted[:, 2] += 11.5
    finding = the(findings := check(Y, predicted), "OFFSET")
    assert faults(findings) == {"OFFSET": ["elbow_flex"]}
    assert finding.summary.startswith("elbow_flex is predicted 11.5° too high everywhere (±0.")
    assert "not training" in finding.summary and "recompute_stats" in finding.fix
    assert finding.evidence["offset"] == pytest.approx(11.5, abs=0.2)


@pytest.mark.parametrize("code", ["OFFSET", "SIGN", "SCALE"])
def test_no_zero_lies_between_a_policy_and_the_recording_it_was_trained_on(code):
    predicted = noisy(Y, 0.01)
    changed = {"OFFSET": predicted + 11.5, "SIGN": 2 * CENTRE - predicted, "SCALE": 2 * predicted}
    predicted[:, 2] = changed[code][:, 2]
    other, own = (the(check(Y, predicted, trained_on=own), code) for own in (False, True))
    assert (other.cause, own.cause) == (Cause.UNITS if code == "SCALE" else Cause.CALIBRATION, Cause.CONFIG)
    assert "calibrat" in other.fix and "calibrat" not in own.fix and "shifted zero" not in own.summary


def test_small_offset_is_a_pass_with_its_size():
    predicted = Y.copy()
    predicted[:, 2] += 1.5  # 2 % of the range
    finding = the(findings := check(Y, predicted), "OFFSET")
    assert faults(findings) == {} and "+1.5° (elbow_flex)" in finding.summary


@pytest.mark.parametrize(("factor", "centre"), [(2.0, 0.0), (0.5, CENTRE[1]), (1.4, CENTRE[1])])
def test_scale_about_zero_and_about_the_middle(factor, centre):
    predicted = Y.copy()
    predicted[:, 1] = centre + factor * (Y[:, 1] - centre)
    findings = check(Y, noisy(predicted, 0.01))
    assert faults(findings) == {"SCALE": ["shoulder_lift"]}
    assert the(findings, "SCALE").evidence["factor"] == pytest.approx(factor, rel=0.03)


def test_radians_for_degrees_are_named():
    findings = check(Y, np.deg2rad(Y))
    assert set(faults(findings)) == {"SCALE"}
    assert all("degrees given as radians" in f.summary for f in findings if f.code == "SCALE")


def test_cautious_policy_is_not_a_wrong_scale():
    # The conditional mean under noise: slope and correlation fall together.
    rng = np.random.default_rng(3)
    hidden = rng.normal(size=(T, 5)) * 0.3 * Y.std(axis=0)
    recorded = Y + hidden
    assert faults(check(recorded, Y)) == {}


@pytest.mark.parametrize("centre", [0.0, 50.0])
def test_sign(centre):
    predicted = Y.copy()
    predicted[:, 0] = 2 * centre - Y[:, 0]
    findings = check(Y, noisy(predicted))
    assert faults(findings) == {"SIGN": ["shoulder_pan"]}
    assert the(findings, "SIGN").evidence["centre"] == pytest.approx(centre, abs=1.5)


def late(values, frames):
    return np.r_[np.repeat(values[:1], frames, axis=0), values[:-frames]]


def test_lag_of_all_joints_is_said_once_in_frames_and_ms():
    finding = the(findings := check(Y, noisy(late(Y, 6), 0.01)), "LAG")
    assert faults(findings) == {"LAG": ["all joints"]}
    assert "6 frames (200 ms) late" in finding.summary
    assert (finding.evidence["lag_frames"], finding.evidence["lag_ms"]) == (6, pytest.approx(200))


def test_lag_of_one_joint_and_offset_of_another():
    predicted = Y.copy()
    predicted[:, 3] = late(Y, 6)[:, 3]
    predicted[:, 0] -= 20
    assert faults(check(Y, noisy(predicted, 0.01))) == {"LAG": ["wrist_flex"], "OFFSET": ["shoulder_pan"]}


def test_controller_lag_between_action_and_state_is_no_fault_of_the_policy():
    assert faults(check(Y, noisy(Y), states=late(Y, 4))) == {}


def test_relabelled_states_are_no_fault():
    states = late(Y, 1)  # action[t] = state[t + 1]
    assert faults(check(Y, noisy(Y), states=states)) == {}


def test_a_copied_state_is_said_beside_the_lag():
    states = late(Y, 6)
    finding = the(check(Y, states, states=states), "LAG")
    assert finding.status is Status.FAIL and "repeat the state" in finding.summary
    assert "repeat the state" not in the(check(Y, late(Y, 6), states=late(Y, 12)), "LAG").summary


def test_two_explanations_of_a_ramp_are_both_named():
    # On a straight line a delay and a shift are the same thing.
    recorded = np.c_[np.linspace(0, 90, T), Y[:, 0]]
    predicted = recorded.copy()
    predicted[:, 0] -= 6.0
    findings = check(recorded, noisy(predicted, 0.002), names=["lift", "pan"], units=["°", "°"])
    (finding,) = [f for f in findings if f.subject == "lift" and f.status is Status.FAIL]
    assert {finding.code, *finding.evidence["also_fits"]} == {"OFFSET", "LAG"}
    assert "does not decide" in finding.summary


def test_flat_names_the_training_mean_and_spares_the_resting_joint():
    recorded = Y.copy()
    recorded[:, 3] = 20.0 + 0.02 * np.random.default_rng(0).normal(size=T)
    predicted = noisy(recorded, 0.01)
    predicted[:, 1] = recorded[:, 1].mean()
    findings = check(recorded, predicted, train_mean=recorded.mean(axis=0))
    assert faults(findings) == {"FLAT": ["shoulder_lift"]}
    assert "training mean" in the(findings, "FLAT").summary
    assert the(findings, "NEAR_CONSTANT").subject == "wrist_flex"
    assert the(findings, "NEAR_CONSTANT").status is Status.INFO


def test_flat_with_noise_on_it():
    predicted = noisy(Y, 0.02)
    predicted[:, 1] = CENTRE[1] + 6 * np.random.default_rng(0).normal(size=T)
    assert faults(check(Y, predicted)) == {"FLAT": ["shoulder_lift"]}


def test_gripper_that_never_closes():
    predicted = noisy(Y)
    predicted[:, 4] = np.maximum(predicted[:, 4], 70)
    findings = check(Y, predicted)
    assert faults(findings)["GRIPPER_FLAT"] == ["gripper"]
    predicted[:, 4] = 99.0
    assert faults(check(Y, predicted)) == {"GRIPPER_FLAT": ["gripper"]}
    assert the(check(Y, noisy(Y)), "GRIPPER_FLAT").status is Status.PASS


def test_missed_grasps_are_scored_apart_from_the_error():
    # One short grasp in a long recording: the rms is small and the task fails.
    recorded = demonstration(frames=900)
    recorded[:, 4] = 100.0
    for start in (100, 400, 700):
        recorded[start : start + 30, 4] = 0.0
    predicted = noisy(recorded, 0.01)
    predicted[380:, 4] = 100.0
    findings = check(recorded, predicted)
    assert faults(findings) == {"POOR_FIT": ["gripper"]}
    assert the(findings, "POOR_FIT").evidence["missed_events"] == 4


def test_gripper_by_position_and_none():
    names = ["a", "b", "c", "d", "jaw"]
    predicted = noisy(Y)
    predicted[:, 4] = 99.0
    assert "GRIPPER_FLAT" in faults(check(Y, predicted, names=names, gripper=[4]))
    findings = check(Y, predicted, names=names)
    assert faults(findings) == {"FLAT": ["jaw"]}
    assert the(findings, "GRIPPER_FLAT").status is Status.INFO  # not looked at is no pass
    assert the(findings, "NAN").status is Status.PASS


def test_nan_names_frame_and_joint_and_the_rest_is_scored():
    predicted = noisy(Y, 0.01)
    predicted[170:, 1] = np.nan
    predicted[:, 2] += 11.5
    findings = check(Y, predicted)
    assert faults(findings) == {"NAN": ["shoulder_lift"], "OFFSET": ["elbow_flex"]}
    assert "from frame 170 on" in the(findings, "NAN").summary


def test_all_nan_is_unknown_not_pass():
    findings = check(Y, np.full_like(Y, np.nan))
    assert {f.status for f in findings if f.code in ("OFFSET", "FLAT", "POOR_FIT")} == {Status.UNKNOWN}


def test_nothing_moves_is_unknown_not_pass():
    still = np.full((T, 5), 7.0)
    findings = check(still, still)
    assert faults(findings) == {}
    assert {f.status for f in findings if f.code in ("FLAT", "SCALE", "LAG", "POOR_FIT")} == {Status.UNKNOWN}


def test_too_few_frames_are_unknown():
    findings = check(Y[:10], Y[:10] + 30)
    assert faults(findings) == {}
    assert the(findings, "OFFSET").status is Status.UNKNOWN


@pytest.mark.parametrize("stats", [True, False])
@pytest.mark.parametrize("kind", ["z", "minmax", "range"])
def test_unnormalized(kind, stats):
    mean, std = Y.mean(axis=0), Y.std(axis=0)
    low, high = Y.min(axis=0), Y.max(axis=0)
    predicted = {"z": (Y - mean) / std, "minmax": 2 * (Y - low) / (high - low) - 1, "range": Y / 80}[kind]
    given = {"train_mean": mean, "train_std": std} if stats else {}
    findings = check(Y, noisy(predicted, 0.05), **given)
    assert faults(findings) == {"UNNORMALIZED": ["all joints"]}
    assert the(findings, "OFFSET").status is Status.UNKNOWN  # not looked at is no pass


def test_unnormalized_radians():
    recorded = np.deg2rad(Y)
    findings = check(recorded, (recorded - recorded.mean(axis=0)) / recorded.std(axis=0), units=["rad"] * 5)
    assert faults(findings) == {"UNNORMALIZED": ["all joints"]}


def test_normalized_data_set_is_no_fault():
    recorded = (Y - Y.mean(axis=0)) / Y.std(axis=0)
    assert faults(check(recorded, noisy(recorded))) == {}


def test_permuted_pair_and_ring_with_the_mapping():
    findings = check(Y, noisy(Y[:, [1, 0, 2, 3, 4]]))
    assert faults(findings) == {"PERMUTED": ["shoulder_pan, shoulder_lift"]}
    mapping = {"shoulder_pan": "shoulder_lift", "shoulder_lift": "shoulder_pan"}
    assert the(findings, "PERMUTED").evidence["mapping"] == mapping
    findings = check(Y, noisy(Y[:, [1, 2, 0, 3, 4]]))
    mapping = {"shoulder_pan": "shoulder_lift", "shoulder_lift": "elbow_flex", "elbow_flex": "shoulder_pan"}
    assert the(findings, "PERMUTED").evidence["mapping"] == mapping


@pytest.mark.parametrize("swapped", [False, True])
def test_joints_that_look_alike_are_undecided(swapped):
    recorded = Y.copy()
    recorded[:, 2] = recorded[:, 1] + 0.1
    predicted = noisy(recorded, 0.03)
    finding = the(findings := check(recorded, predicted[:, [0, 2, 1, 3, 4]] if swapped else predicted), "PERMUTED")
    assert faults(findings) == {}
    assert finding.status is Status.UNKNOWN and finding.evidence["pairs"] == [["shoulder_lift", "elbow_flex"]]


def test_resting_joint_counts_by_its_absolute_error():
    recorded = Y.copy()
    recorded[:, 3] = 20.0
    predicted = noisy(recorded, 0.01)
    predicted[:, 3] = 20.6 + 0.3 * np.sin(np.arange(T) / 9)
    findings = check(recorded, predicted)
    assert faults(findings) == {} and "absolute error" in the(findings, "NEAR_CONSTANT").summary
    predicted[:, 3] += 15
    assert faults(check(recorded, predicted)) == {"OFFSET": ["wrist_flex"]}


def test_resting_joint_that_explodes():
    recorded = Y.copy()
    recorded[:, 3] = 20.0
    predicted = noisy(recorded, 0.01)
    predicted[:, 3] += 60 * np.sin(np.arange(T) / 9)
    assert faults(check(recorded, predicted)) == {"NEAR_CONSTANT": ["wrist_flex"]}


def test_poor_fit_names_the_baselines():
    predicted = noisy(Y, 0.01)
    predicted[:, 0] = demonstration(9)[:, 3] * 1.6
    findings = check(Y, predicted, train_mean=Y.mean(axis=0), hold=Y)
    assert faults(findings) == {"POOR_FIT": ["shoulder_pan"]}
    assert "training mean" in the(findings, "POOR_FIT").summary and "holding still" in the(findings, "POOR_FIT").summary


def three_episodes(alike: float = 1.0):
    """Three demonstrations around one, their mean trajectories without their own, and the episode numbers."""
    common = demonstration(0)
    parts = [common + alike * (demonstration(10 + k) - common) * 0.6 for k in range(3)]
    mean = MeanTrajectory(dict(enumerate(parts)))
    return np.concatenate(parts), np.concatenate([mean.at(k, T) for k in range(3)]), np.repeat(range(3), T)


def test_mean_replay_against_the_mean_trajectory():
    recorded, mean, index = three_episodes()
    findings = check(recorded, noisy(mean), mean_trajectory=mean, episode_index=index)
    assert the(findings, "MEAN_REPLAY").status is Status.FAIL
    good = check(recorded, noisy(recorded), mean_trajectory=mean, episode_index=index)
    assert faults(good) == {} and the(good, "MEAN_REPLAY").status is Status.PASS
    as_train_mean = check(recorded, noisy(mean), train_mean=mean, episode_index=index)
    assert the(as_train_mean, "MEAN_REPLAY").status is Status.FAIL


def test_mean_replay_without_the_trajectory_shows_between_episodes():
    recorded, _, index = three_episodes()
    same = np.tile(demonstration(5), (3, 1))
    assert the(check(recorded, noisy(same, 0.01), episode_index=index), "MEAN_REPLAY").status is Status.FAIL
    assert the(check(recorded, noisy(recorded, 0.01), episode_index=index), "MEAN_REPLAY").status is Status.PASS


def test_alike_demonstrations_cannot_tell_a_replay():
    recorded, mean, index = three_episodes(alike=0.02)
    finding = the(check(recorded, noisy(mean), mean_trajectory=mean, episode_index=index), "MEAN_REPLAY")
    assert finding.status is Status.UNKNOWN and "alike" in finding.summary


def test_lag_does_not_reach_across_episodes():
    # Each episode starts where the last did not end; a shift of the whole array would mix them.
    recorded = np.concatenate([demonstration(k) for k in range(3)])
    predicted = np.concatenate([late(demonstration(k), 6) for k in range(3)])
    findings = check(recorded, predicted, episode_index=np.repeat(range(3), T))
    assert the(findings, "LAG").evidence["lag_frames"] == 6


def test_stationary_prefix_and_a_brisk_start():
    paused = np.r_[np.repeat(Y[:1], 60, axis=0), Y]
    finding = the(check(paused, paused), "STATIONARY_PREFIX")
    assert finding.status is Status.WARN and "2.0 s" in finding.summary
    assert the(check(Y, Y), "STATIONARY_PREFIX").status is Status.PASS


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"names": NAMES[:4]}, "recorded has shape"),
        ({"units": ["°"]}, "units has 1"),
        ({"fps": 0.0}, "fps is 0"),
        ({"gripper": ["claw"]}, "the joints are shoulder_pan"),
        ({"episode_index": [0, 1]}, "episode_index has shape"),
        ({"states": np.zeros((T, 2))}, "states has shape"),
        ({"names": ["a", "a", "b", "c", "d"]}, "twice"),
    ],
)
def test_arrays_that_do_not_belong_together(change, said):
    with pytest.raises(UsageError, match=said):
        judge(Y, Y, **({"names": NAMES, "fps": FPS} | change))
    with pytest.raises(UsageError, match="predicted has shape"):
        judge(Y, Y[:-1], names=NAMES, fps=FPS)


def draw(seed: int):
    """A random recording: 60–3000 frames, 2–14 joints, smooth motion of 30–120 units, a gripper that snaps."""
    rng = np.random.default_rng(seed)
    frames, joints = int(np.exp(rng.uniform(np.log(60), np.log(3000)))), int(rng.integers(2, 15))
    fps = float(rng.choice([10, 20, 30, 50]))
    t = np.arange(frames)[:, None] / fps
    waves = sum(
        rng.normal(size=joints) * np.sin(2 * np.pi * rng.uniform(0.05, 0.6, joints) * t + rng.uniform(0, 6.3, joints))
        for _ in range(4)
    )
    unit = (waves - waves.min(axis=0)) / np.ptp(waves, axis=0)
    y = rng.uniform(-60, 60, joints) + rng.uniform(30, 120, joints) * (unit - 0.5)
    return rng, y, [f"joint_{j}" for j in range(joints - 1)] + ["gripper"], fps


def test_a_good_policy_is_left_alone_whatever_the_recording():
    alarms = Counter()
    for seed in range(60):
        rng, y, names, fps = draw(seed)
        findings = judge(y, noisy(y, rng.uniform(0.01, 0.1), seed), names=names, fps=fps)
        alarms.update(f.code for f in findings if f.status is Status.FAIL)
    assert not alarms


@pytest.mark.parametrize("code", ["OFFSET", "SCALE", "SIGN", "FLAT", "LAG", "PERMUTED"])
def test_faults_are_found_on_the_right_joint_whatever_the_recording(code):
    found, wrong = 0, Counter()
    for seed in range(1000, 1025):
        rng, y, names, fps = draw(seed)
        j = int(rng.integers(0, len(names) - 1))
        p = y.copy()
        guilty = {names[j]}
        if code == "OFFSET":
            p[:, j] += rng.choice([-1, 1]) * rng.uniform(0.15, 0.5) * np.ptp(y[:, j])
        elif code == "SCALE":
            p[:, j] = y[:, j].mean() + rng.choice([0.5, 1.8]) * (y[:, j] - y[:, j].mean())
        elif code == "SIGN":
            p[:, j] = -y[:, j]
        elif code == "FLAT":
            p[:, j] = y[:, j].mean()
        elif code == "LAG":
            p, guilty = late(y, int(rng.integers(3, 9))), {*names, "all joints"}
        else:
            p[:, [j, j + 1]] = p[:, [j + 1, j]]
            guilty = {names[j], names[j + 1]}
        findings = judge(y, noisy(p, rng.uniform(0.01, 0.05), seed), names=names, fps=fps)
        hits = [f for f in findings if f.code == code and f.status is Status.FAIL]
        found += any(set(f.subject.split(", ")) <= guilty for f in hits)
        wrong.update(n for f in hits for n in f.subject.split(", ") if n not in guilty)
    assert found >= 22 and not wrong  # of 25
