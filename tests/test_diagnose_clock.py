"""Does the policy keep up: on hand-made latencies."""

import pytest

from lerobot_diagnostics.diagnose.clock import CALLS, WARM, Latency, judge_clock, measure
from lerobot_diagnostics.findings import Status


def latency(ms):
    return Latency(ms / 1e3, ms / 1e3, ms / 1e3)


@pytest.mark.parametrize(
    ("ms", "horizon", "expected"),
    [(10, 20, Status.PASS), (120, 20, Status.WARN), (120, 1, Status.FAIL), (900, 20, Status.FAIL)],
)
def test_a_look_fits_into_a_frame_into_its_chunk_or_not_at_all(ms, horizon, expected):
    outcome = judge_clock(latency(ms), horizon, fps=30)
    assert outcome.findings[0].status is expected
    assert outcome.findings[0].evidence["chunk_s"] == pytest.approx(horizon / 30)


def test_a_slow_computer_without_the_robot_is_only_a_warning():
    assert judge_clock(latency(900), 20, fps=30, here=False).findings[0].status is Status.WARN


def test_long_calls_are_timed_three_times():
    times = iter(range(0, 10_000, 4))
    assert measure(lambda: None, clock=lambda: float(next(times))) == Latency(4.0, 4.0, 4.0)
    assert next(times) == 6 * 4  # two readings a call


def test_what_would_help_depends_on_the_policy():
    assert "--inference.type=rtc" in judge_clock(latency(120), 20, fps=30).findings[0].fix
    assert "rtc" not in judge_clock(latency(120), 20, fps=30, rtc=False).findings[0].fix


def test_the_table_says_for_how_long_it_is_blind():
    rows = {row[0]: row[1] for row in judge_clock(latency(50), 20, fps=20, loop_hz=19.5).tables[0].rows}
    assert rows["acts without looking"] == "20 actions, 1.00 s"
    assert rows["arm and cameras alone"] == "19.5 Hz"
    # 50 ms for each frame of 50 ms: it waits all the time when it looks at every frame
    assert rows["with n_action_steps=1"] == "blind for 0.05 s, waiting 100% of the time"
    assert rows["with n_action_steps=20"] == "blind for 1.00 s, waiting 5% of the time"


def test_the_first_calls_are_not_timed():
    times = iter(range(1000))
    calls = []
    result = measure(lambda: calls.append(1), clock=lambda: next(times) / 8)
    assert len(calls) == CALLS + WARM
    assert result == Latency(0.125, 0.125, 0.125)
