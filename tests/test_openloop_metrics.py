"""Figures with a known answer; nothing is compared across an episode's border."""

import numpy as np
import pytest

from lerobot_diagnostics.openloop.metrics import (
    MeanTrajectory,
    best_lag,
    correlation,
    delayed,
    episode_slices,
    gripper_events,
    hold_state,
    resampled,
    score_gripper,
    score_joints,
)

FPS = 10.0


def test_figures_of_a_shifted_joint():
    recorded = np.array([[0.0, 1.0], [10.0, 1.0], [20.0, 1.0], [10.0, 1.0]])
    predicted = recorded + np.array([2.0, 0.0])
    lift, still = score_joints(recorded, predicted, names=["lift", "still"], fps=FPS, units=["°", "°"])
    assert (lift.mae, lift.rmse, lift.bias, lift.spread) == (2.0, 2.0, 2.0, 0.0)
    assert lift.range_of_motion == 20 and lift.error_over_range == 0.1 and lift.correlation == pytest.approx(1)
    assert lift.unit == "°" and lift.frames == 4
    assert still.range_of_motion == 0 and still.mae == 0
    assert np.isnan([still.error_over_range, still.correlation, still.lag_frames]).all()


def test_rmse_is_bias_and_spread():
    recorded, predicted = np.zeros((4, 1)), np.array([[1.0], [3.0], [1.0], [3.0]])
    (score,) = score_joints(recorded, predicted, names=["a"], fps=FPS)
    assert (score.bias, score.spread) == (2.0, 1.0)
    assert score.rmse**2 == pytest.approx(score.bias**2 + score.spread**2)


def test_not_finite_frames_are_left_out_of_their_joint_only():
    recorded = np.arange(8.0).reshape(4, 2)
    predicted = recorded + 1
    predicted[2, 0] = np.nan
    recorded[3, 1] = np.inf
    first, second = score_joints(recorded, predicted, names=["a", "b"], fps=FPS)
    assert (first.frames, first.not_finite, first.mae) == (3, 1, 1.0)
    assert (second.frames, second.not_finite, second.mae) == (3, 1, 1.0)


def test_all_nan_scores_nan():
    (score,) = score_joints(np.zeros((3, 1)), np.full((3, 1), np.nan), names=["a"], fps=FPS)
    assert score.frames == 0 and np.isnan(score.mae) and np.isnan(score.bias)


def test_delay_stays_inside_the_episode():
    episodes = episode_slices(6, [0, 0, 0, 5, 5, 5])
    assert episodes == [slice(0, 3), slice(3, 6)]
    values = np.arange(6.0)
    np.testing.assert_array_equal(delayed(values, 1, episodes), [np.nan, 0, 1, np.nan, 3, 4])
    np.testing.assert_array_equal(delayed(values, -2, episodes), [2, np.nan, np.nan, 5, np.nan, np.nan])
    assert np.isnan(delayed(values, 3, episodes)).all()


def test_episode_slices_of_nothing_and_of_a_wrong_length():
    assert episode_slices(0) == []
    with pytest.raises(ValueError, match="episode_index"):
        episode_slices(3, [0, 1])


@pytest.mark.parametrize("lag", [-3, 0, 4])
def test_best_lag_is_found_under_offset_and_scale(lag):
    y = np.sin(np.arange(200) / 7) + 0.3 * np.sin(np.arange(200) / 2.3)
    episodes = [slice(0, 90), slice(90, 200)]
    predicted = 5 + 0.5 * np.nan_to_num(delayed(y, lag, episodes))
    assert best_lag(y, predicted, episodes, 8) == lag


def test_correlation_of_a_constant_is_undefined():
    assert np.isnan(correlation(np.full(9, 1e6 + 0.1), np.arange(9.0)))
    assert correlation(np.arange(9.0), -np.arange(9.0)) == pytest.approx(-1)


def test_hold_state_restarts_at_each_look_and_episode():
    states = np.arange(6.0)[:, None]
    held = hold_state(states, [0, 2, 4], [0, 0, 0, 1, 1, 1])
    np.testing.assert_array_equal(held[:, 0], [0, 0, 2, np.nan, 4, 4])


def test_mean_trajectory_leaves_the_own_episode_out():
    mean = MeanTrajectory({0: [[0.0], [10.0]], 1: [[2.0], [4.0], [6.0]], 7: [[4.0], [8.0]]})
    np.testing.assert_allclose(mean.at(0, 3), [[3.0], [5.0], [7.0]], atol=1e-9)  # of 1 and 7
    np.testing.assert_allclose(mean.at(99, 2), [[2.0], [8.0]], atol=1e-9)  # of all three
    assert MeanTrajectory({0: [[0.0], [1.0]]}).at(0, 2) is None


def test_resampled_keeps_both_ends():
    np.testing.assert_allclose(resampled([[0.0], [1.0], [4.0]], 5)[:, 0], [0, 0.5, 1, 2.5, 4])


def test_baselines_stand_beside_the_figures():
    recorded = np.array([[0.0], [2.0], [4.0]])
    (score,) = score_joints(
        recorded,
        recorded,
        names=["a"],
        fps=FPS,
        baselines={"train_mean": [2.0], "hold_state": [[np.nan], [2.0], [1.0]]},
    )
    assert score.baselines["train_mean"].mae == pytest.approx(4 / 3)
    assert score.baselines["hold_state"].mae == 1.5  # the frame without a held state is left out


def pulses(*edges: int, length: int = 100) -> np.ndarray:
    """Open (100), then switching at each edge."""
    return 100.0 * (1 - np.searchsorted(edges, np.arange(length), side="right") % 2)


def test_gripper_timing_in_frames_and_ms():
    score = score_gripper(pulses(20, 60), pulses(23, 61), name="gripper", fps=FPS)
    assert [(e.frame, e.kind) for e in score.recorded] == [(20, "close"), (60, "open")]
    assert score.matched == [(20, 23), (60, 61)]
    assert (score.missed, score.extra, score.timing_error_frames, score.timing_error_ms) == (0, 0, 2.0, 200.0)


def test_gripper_missed_and_extra():
    never = score_gripper(pulses(20, 60), np.full(100, 100.0), name="g", fps=FPS)
    assert (never.missed, never.extra) == (2, 0) and np.isnan(never.timing_error_ms)
    twice = score_gripper(pulses(20, 60), pulses(20, 35, 45, 60), name="g", fps=FPS)
    assert (twice.missed, twice.extra, len(twice.matched)) == (0, 2, 2)
    far = score_gripper(pulses(20), pulses(60), name="g", fps=FPS)  # four seconds apart
    assert (far.missed, far.extra) == (1, 1)


def test_gripper_border_between_episodes_is_no_event():
    values = np.r_[np.full(30, 100.0), np.zeros(30)]
    kwargs = {"closed": 33.0, "opened": 66.0, "fps": FPS}
    assert len(gripper_events(values, **kwargs)) == 1
    assert gripper_events(values, **kwargs, episode_index=np.repeat([0, 1], 30)) == []


def test_gripper_hysteresis_and_one_bad_frame():
    wobble = 50 + 10 * np.sin(np.arange(200.0))
    spike = np.r_[np.full(40, 100.0), 0.0, np.full(40, 100.0)]
    for values in (wobble, spike):
        assert gripper_events(values, closed=33, opened=66, fps=30) == []
    score = score_gripper(np.full(50, 3.0), pulses(20, length=50), name="g", fps=FPS)
    assert (len(score.recorded), len(score.predicted)) == (0, 0)  # no recorded range to go by
