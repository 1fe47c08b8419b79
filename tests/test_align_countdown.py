"""The countdown and warmer/colder."""

import math

from lerobot_diagnostics.align.countdown import Countdown, Trend


def test_it_counts_five_seconds_of_everything_in_place():
    countdown = Countdown()
    left = [countdown.update(t / 10, ready=True, moving=False) for t in range(51)]
    assert left[0] == left[1] == 5
    assert left[10] == 4 and left[49] == 1 and left[50] == 0


def test_motion_starts_it_over_and_leaving_the_band_ends_it():
    countdown = Countdown()
    assert countdown.update(0.0, ready=True, moving=False) == 5
    assert countdown.update(4.9, ready=True, moving=False) == 1
    assert countdown.update(5.0, ready=True, moving=True) == 5
    assert countdown.update(9.0, ready=True, moving=False) == 1
    assert countdown.update(9.5, ready=False, moving=False) is None
    assert countdown.update(20.0, ready=True, moving=False) == 5


def test_nothing_starts_while_something_moves():
    countdown = Countdown(1.0)
    assert all(countdown.update(t, ready=True, moving=True) == 1 for t in range(10))


def test_warmer_and_colder_need_a_real_change():
    def says(sizes):
        trend = Trend()
        return [trend.update(0.1 * k, size) for k, size in enumerate(sizes)]

    assert says([20.0 - k for k in range(12)])[-1] == "warmer"
    assert says([5.0 + k for k in range(12)])[-1] == "colder"
    assert set(says([7.0, 7.4] * 10)) == {""}  # scatter
    assert says([math.inf] * 8 + [30.0])[-1] == "warmer"  # found again
    assert set(says([math.inf] * 12)) == {""}
