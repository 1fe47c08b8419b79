"""Deadlines on a clock that only moves when told to."""

import gc
import sys

import pytest
from fake_robot import FakeClock

from lerobot_diagnostics.robot import Pacer
from lerobot_diagnostics.robot.pacing import SWITCH_S, punctual


def test_deadlines_are_absolute():
    clock = FakeClock()
    pacer = Pacer(0.1, clock=clock, sleep=clock.sleep)
    ends = []
    for k in range(1, 6):
        assert pacer.wait(k)
        ends.append(clock() - 100.0)
        clock.now += 0.04  # work within the period
    assert ends == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5], abs=1e-3)


def test_a_late_deadline_is_told_and_not_carried_on():
    clock = FakeClock()
    pacer = Pacer(0.1, clock=clock, sleep=clock.sleep)
    clock.now += 0.15
    pacer.wait(1)
    pacer.wait(2)
    assert pacer.late_s == pytest.approx([0.05, 0.0], abs=1e-3)
    pacer.delay(0.5)
    assert pacer.deadline(3) - 100.0 == pytest.approx(0.8)


def test_a_stop_ends_the_wait_within_a_slice():
    clock = FakeClock()
    pacer = Pacer(5.0, clock=clock, sleep=clock.sleep, stopped=lambda: clock() > 101.0)
    assert not pacer.wait(1)
    assert clock() - 101.0 < 0.021


def test_what_is_alive_is_not_collected_meanwhile_and_threads_give_way_sooner():
    before, interval_s = gc.get_freeze_count(), sys.getswitchinterval()
    with punctual():
        assert sys.getswitchinterval() == pytest.approx(SWITCH_S)
        assert gc.get_freeze_count() > before + 1000
        assert len(gc.get_objects(generation=2)) < 1000
    assert gc.get_freeze_count() == 0 and sys.getswitchinterval() == interval_s
