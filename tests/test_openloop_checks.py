"""Verdicts from pictures, splits, checkpoints, statistics and timing, each with its control."""

import numpy as np
import pytest

from lerobot_diagnostics.findings import Cause, Status
from lerobot_diagnostics.openloop.checks import (
    judge_checkpoints,
    judge_commit,
    judge_images,
    judge_splits,
    judge_stationary_prefix,
    judge_stats,
    quantity,
)


def status(findings, code):
    (found,) = {f.status for f in findings if f.code == code}
    return found


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (11.52, "°", "11.5°"),
        (203.4, "ticks", "203 ticks"),
        (0.0213, "rad", "0.0213 rad"),
        (0.0, "°", "0°"),
        (2.0, "°", "2°"),
    ],
)
def test_quantities_read_as_people_write_them(value, unit, text):
    assert quantity(value, unit) == text


def test_scatter_has_the_decimals_of_its_value():
    assert quantity(0.8132, "°", like=11.5) == "0.8°"


def test_unchanged_predictions_ignore_the_pictures():
    (finding,) = judge_images(0.1, 0.1, 0.1, 0.004, 0.006)
    assert finding.status is Status.FAIL and "0.4 %" in finding.summary and "--rename_map" in finding.fix


def test_pictures_that_matter_pass_and_those_that_gain_nothing_warn():
    assert status(judge_images(0.05, 0.3, 0.2, 0.9, 0.5), "IGNORES_IMAGES") is Status.PASS
    assert status(judge_images(0.1, 0.3, 0.1, 0.9, 0.2), "IGNORES_IMAGES") is Status.WARN
    assert status(judge_images(0.1, np.nan, 0.1, np.nan, 0.2), "IGNORES_IMAGES") is Status.UNKNOWN


def test_good_on_training_and_poor_on_held_out_is_overfit():
    (finding,) = judge_splits(0.03, 0.2, baseline=0.25)
    assert finding.status is Status.FAIL and "20.0 %" in finding.summary
    assert status(judge_splits(0.03, 0.04, baseline=0.25), "OVERFIT") is Status.PASS
    assert status(judge_splits(0.02, 0.05, baseline=0.25), "OVERFIT") is Status.PASS  # worse, and still good
    assert status(judge_splits(0.2, 0.21, baseline=0.25), "OVERFIT") is Status.PASS  # poor on both is not overfit
    assert status(judge_splits(0.03, float("nan"), baseline=0.25), "OVERFIT") is Status.UNKNOWN


def statuses(*args, **kwargs):
    return {f.code: f.status for f in judge_checkpoints(*args, **kwargs)}


STEPS = [1000, 2000, 3000, 4000]


def test_falling_and_poor_is_undertrained():
    found = statuses(STEPS, [0.28, 0.25, 0.22, 0.19], baseline=0.3)
    assert found == {"UNDERTRAINED": Status.FAIL, "WRONG_DATASET": Status.PASS, "OVERFIT": Status.UNKNOWN}


@pytest.mark.parametrize("errors", [[0.3, 0.31, 0.3, 0.3], [0.3, 0.33, 0.36, 0.4]])
def test_flat_or_rising_and_poor_is_another_data_set(errors):
    found = statuses(STEPS, errors, baseline=0.3)
    assert (found["WRONG_DATASET"], found["UNDERTRAINED"]) == (Status.FAIL, Status.PASS)


def test_converged_and_good_is_neither():
    found = statuses(STEPS, [0.2, 0.06, 0.03, 0.03], [0.2, 0.08, 0.06, 0.06], baseline=0.3)
    assert set(found.values()) == {Status.PASS}


def test_rising_held_out_error_names_the_better_checkpoint():
    findings = judge_checkpoints(STEPS, [0.2, 0.1, 0.05, 0.02], [0.2, 0.12, 0.15, 0.18], baseline=0.3)
    (finding,) = [f for f in findings if f.code == "OVERFIT"]
    assert finding.status is Status.WARN and "checkpoints/002000" in finding.fix


def test_one_checkpoint_has_no_trend():
    assert set(statuses([1000], [0.2], baseline=0.3).values()) == {Status.UNKNOWN}
    assert set(statuses([], [], baseline=0.3).values()) == {Status.UNKNOWN}


ACTIONS = np.random.default_rng(0).normal([10.0, -5.0], [20.0, 4.0], size=(2000, 2))


def stats_of(values):
    return {
        "mean": values.mean(axis=0),
        "std": values.std(axis=0),
        "min": values.min(axis=0),
        "max": values.max(axis=0),
        "q01": np.quantile(values, 0.01, axis=0),
        "q99": np.quantile(values, 0.99, axis=0),
    }


def test_statistics_that_match_pass():
    findings = judge_stats(
        {"action": stats_of(ACTIONS)}, {"action": "MEAN_STD"}, {"action": ACTIONS.astype(np.float32)}
    )
    assert {(f.code, f.status) for f in findings} == {("STATS_MISSING", Status.PASS), ("STATS_STALE", Status.PASS)}


def test_a_little_more_data_is_not_stale():
    assert (
        status(
            judge_stats({"action": stats_of(ACTIONS[:1700])}, {"action": "MEAN_STD"}, {"action": ACTIONS}),
            "STATS_STALE",
        )
        is Status.PASS
    )


def test_missing_key_is_named_with_those_there_are():
    findings = judge_stats({"actions": stats_of(ACTIONS)}, {"action": "MEAN_STD"}, {"action": ACTIONS})
    (finding,) = [f for f in findings if f.code == "STATS_MISSING"]
    assert (
        finding.status is Status.FAIL
        and finding.subject == "action"
        and "no mean and std" in finding.summary
        and "statistics: actions" in finding.summary
    )
    assert status(findings, "STATS_STALE") is Status.UNKNOWN


def test_stale_mean_names_the_joint():
    stats = stats_of(ACTIONS)
    stats["mean"] = stats["mean"] + np.array([0.0, 3.0])
    findings = judge_stats(
        {"action": stats}, {"action": "MEAN_STD"}, {"action": ACTIONS}, {"action": ["lift", "elbow"]}
    )
    (finding,) = [f for f in findings if f.code == "STATS_STALE"]
    assert finding.status is Status.FAIL and "mean of elbow" in finding.summary and "1 of 2" in finding.summary


@pytest.mark.parametrize("mode", ["MEAN_STD", "MIN_MAX"])
def test_statistics_in_another_order_are_exchanged_joints_and_not_stale(mode):
    rng = np.random.default_rng(0)
    actions = rng.normal([0.0, 40.0, -30.0, 5.0], [10.0, 5.0, 20.0, 1.0], (2000, 4))
    exchanged = {stat: np.asarray(value)[[2, 1, 0, 3]] for stat, value in stats_of(actions).items()}
    names = {"action": ["pan", "lift", "elbow", "roll"]}
    findings = judge_stats({"action": exchanged}, {"action": mode}, {"action": actions}, names)
    (finding,) = [f for f in findings if f.code == "PERMUTED"]
    assert (finding.status, finding.cause, finding.subject) == (Status.FAIL, Cause.CONFIG, "pan, elbow")
    assert "that of elbow holds pan's, that of pan holds elbow's" in finding.summary
    assert not [f for f in findings if f.code == "STATS_STALE"]
    exchanged["mean"][0] += 100.0  # one of them stale too: no order of the data's
    exchanged["min"][0] -= 100.0
    findings = judge_stats({"action": exchanged}, {"action": mode}, {"action": actions}, names)
    assert {f.code for f in findings} == {"STATS_MISSING", "STATS_STALE"}


def test_of_two_exchanged_joints_that_lie_alike_only_one_departs():
    rng = np.random.default_rng(0)
    actions = rng.normal([0.0, 2.4, -30.0], [10.0, 9.0, 20.0], (20000, 3))
    exchanged = {stat: np.asarray(value)[[1, 0, 2]] for stat, value in stats_of(actions).items()}
    names = {"action": ["pan", "roll", "elbow"]}
    findings = judge_stats({"action": exchanged}, {"action": "MEAN_STD"}, {"action": actions}, names)
    assert {f.code: f.subject for f in findings if f.status is Status.FAIL} == {"PERMUTED": "roll, pan"}
    exchanged["mean"][1] -= 0.5  # not the very number: stale, and nobody's
    findings = judge_stats({"action": exchanged}, {"action": "MEAN_STD"}, {"action": actions}, names)
    assert {f.code for f in findings if f.status is Status.FAIL} == {"STATS_STALE"}


@pytest.mark.parametrize(("stat", "mode"), [("std", "MEAN_STD"), ("min", "MIN_MAX")])
def test_stale_spread_and_ends_matter_to_the_mode_that_reads_them(stat, mode):
    stats = stats_of(ACTIONS)
    stats[stat] = stats[stat] * 2
    other = {"MEAN_STD": "MIN_MAX", "MIN_MAX": "MEAN_STD"}[mode]
    assert status(judge_stats({"action": stats}, {"action": other}, {"action": ACTIONS}), "STATS_STALE") is Status.PASS
    assert status(judge_stats({"action": stats}, {"action": mode}, {"action": ACTIONS}), "STATS_STALE") is Status.FAIL


def test_averaged_quantiles_are_a_warning():
    # Two merged episodes in different places: LeRobot averages their quantiles.
    low, high = ACTIONS[:, :1], ACTIONS[:, :1] + 200
    stats = stats_of(np.concatenate([low, high]))
    for q in ("q01", "q99"):
        stats[q] = (stats_of(low)[q] + stats_of(high)[q]) / 2
    findings = judge_stats({"action": stats}, {"action": "QUANTILES"}, {"action": np.concatenate([low, high])})
    assert status(findings, "STATS_STALE") is Status.WARN
    assert all("quantile" in f.fix for f in findings if f.code == "STATS_STALE")


def test_resting_dimension_is_not_stale():
    values = np.c_[ACTIONS[:, 0], np.full(2000, 7.0)]
    assert (
        status(judge_stats({"action": stats_of(values)}, {"action": "MEAN_STD"}, {"action": values}), "STATS_STALE")
        is Status.PASS
    )


def test_commit_in_seconds():
    (long,) = judge_commit(100, 30)
    assert long.status is Status.WARN and "3.3 s" in long.summary and "--policy.n_action_steps=30" in long.fix
    assert status(judge_commit(20, 20), "LONG_COMMIT") is Status.PASS


def test_prefix_is_the_median_over_episodes():
    moving = np.c_[np.linspace(0, 50, 100), np.zeros(100)]
    paused = np.r_[np.repeat(moving[:1], 40, axis=0), moving]
    both = np.concatenate([paused, paused, moving])
    index = np.repeat([0, 1, 2], [140, 140, 100])
    (finding,) = judge_stationary_prefix(both, fps=20, episode_index=index)
    assert finding.status is Status.WARN and finding.evidence["median_s"] == pytest.approx(2.15, abs=0.1)
    assert status(judge_stationary_prefix(moving, fps=20), "STATIONARY_PREFIX") is Status.PASS
    assert status(judge_stationary_prefix(np.zeros((50, 2)), fps=20), "STATIONARY_PREFIX") is Status.UNKNOWN


def test_prefix_survives_jitter_and_nan():
    y = np.r_[np.zeros(60), np.linspace(0, 90, 100)][:, None] + 0.2 * np.random.default_rng(0).normal(size=(160, 1))
    y[5] = np.nan
    (finding,) = judge_stationary_prefix(y, fps=20)
    assert finding.status is Status.WARN and finding.evidence["median_s"] == pytest.approx(3.1, abs=0.2)


def test_identity_needs_no_statistics():
    findings = judge_stats({}, {"action": "IDENTITY"}, {"action": ACTIONS})
    assert {f.status for f in findings} == {Status.UNKNOWN}
