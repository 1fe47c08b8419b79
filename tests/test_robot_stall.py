"""Stalls, and what looks like one."""

from lerobot_diagnostics.robot import StallMonitor


def run(lag, seconds, *, key="elbow_flex.pos", allowed=None, loads=None):
    monitor = StallMonitor()
    found = [
        monitor.update(t / 30, {key: lag}, {key: 0.0}, allowed=allowed, loads=loads) for t in range(round(30 * seconds))
    ]
    return next(((n / 30, stall) for n, stall in enumerate(found) if stall), None)


def test_a_joint_16_degrees_behind_is_stalled_after_three_tenths_of_a_second():
    when, stall = run(16.0, 1.0)
    assert 0.3 <= when < 0.34
    assert (stall.joint, stall.lag) == ("elbow_flex.pos", 16.0)


def test_look_alikes_are_not():
    assert run(3.0, 5.0) is None  # P = 16 stands 2–3° off
    assert run(20.0, 0.25) is None  # a quick motion
    assert run(20.0, 5.0, allowed={"elbow_flex.pos": 10.0}) is None  # the demonstration lagged so, too
    assert run(60.0, 5.0, key="gripper.pos") is None  # it holds something


def test_load_at_the_limit_counts_without_a_lag():
    when, stall = run(6.0, 1.0, loads={"elbow_flex.pos": 1.0})
    assert 0.3 <= when < 0.34 and stall.load == 1.0
    assert run(6.0, 1.0, loads={"elbow_flex.pos": 0.6}) is None


def test_catching_up_starts_the_count_again():
    monitor = StallMonitor()
    lags = [20.0] * 8 + [0.0] + [20.0] * 8
    assert not any(monitor.update(t / 30, {"a": lag}, {"a": 0.0}) for t, lag in enumerate(lags))
