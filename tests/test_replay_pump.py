"""Pictures never keep the arm waiting."""

import sys
import threading
import time

import numpy as np
import pytest
from fake_robot import KEYS
from make_dataset import make_dataset, picture, read_picture

from lerobot_diagnostics.recording import open_episode
from lerobot_diagnostics.replay.plan import make_plan
from lerobot_diagnostics.replay.pump import Pump
from lerobot_diagnostics.replay.sinks import Mp4
from lerobot_diagnostics.robot import Reading

PAIRS = {"front": "observation.images.front"}


@pytest.fixture
def plan(tmp_path):
    root = make_dataset(tmp_path / "data", lengths=(30,), fps=10, cameras={"front": "h264"})
    return make_plan(open_episode(root, 0), KEYS, speed=1.0)


def reading(frame):
    return Reading(frame / 10, dict.fromkeys(KEYS, float(frame)), {"front": picture(frame)})


class Sink:
    def __init__(self, gate=None):
        self.moments, self.gate, self.opened, self.closed = [], gate, 0, 0

    def open(self):
        self.opened += 1

    def show(self, moment):
        if self.gate is not None:
            self.gate.wait(5)
        self.moments.append(moment)

    def close(self):
        self.closed += 1


def offer_slowly(pump, frames):
    for frame in frames:
        while pump._queue.qsize():
            time.sleep(0.001)
        pump(frame, reading(frame))


def test_live_and_recorded_pictures_of_one_instant_come_together(plan):
    sink = Sink()
    before = sys.getswitchinterval()
    with Pump([sink], PAIRS) as pump:
        pump.plan(plan)
        offer_slowly(pump, (0, 1, 5))
    assert (sink.opened, sink.closed, pump.dropped) == (1, 1, 0)
    assert [moment.frame for moment in sink.moments] == [0, 1, 5]
    for moment in sink.moments:
        live, recorded = moment.pictures["front"]
        assert read_picture(live) == read_picture(recorded) == (moment.frame, 0)
        assert moment.joints[KEYS[0]] == moment.frame
        assert moment.recorded[KEYS[0]] == pytest.approx(plan.states[moment.frame, 0])
    assert sys.getswitchinterval() == before


def test_a_sink_that_hangs_costs_pictures_and_no_time(plan):
    gate = threading.Event()
    sink = Sink(gate)
    with Pump([sink], PAIRS) as pump:
        pump.plan(plan)
        started = time.perf_counter()
        for frame in range(30):
            pump(frame, reading(frame))
        assert time.perf_counter() - started < 1.0  # the sink is held for up to 5 s a picture
        gate.set()
    assert pump.seen == 30 and pump.dropped == 30 - len(sink.moments) >= 26


def test_a_sink_that_fails_is_left_out_and_said(plan):
    good, bad = Sink(), Sink()
    bad.show = lambda _moment: 1 / 0
    with Pump([bad, good], PAIRS) as pump:
        pump.plan(plan)
        offer_slowly(pump, (0, 1))
    assert len(good.moments) == 2 and bad.closed == 1
    assert pump.errors == ["ZeroDivisionError: division by zero"]


def test_the_mp4_shows_three_panels_at_the_time_they_were_seen(plan, tmp_path):
    import av

    path = tmp_path / "out.mp4"
    with Pump([Mp4(path, 0.5)], PAIRS) as pump:
        pump.plan(plan)
        offer_slowly(pump, (0, 3, 10))
    assert pump.errors == []
    with av.open(str(path)) as container:
        frames = [(float(frame.time), frame.to_ndarray(format="rgb24")) for frame in container.decode(video=0)]
    assert [time for time, _ in frames] == pytest.approx([0.0, 0.3, 1.0], abs=2e-3)
    assert frames[0][1].shape == (48, 192, 3)
    panels = np.split(frames[2][1], 3, axis=1)
    assert {read_picture(panel)[0] for panel in panels} == {10}


def test_without_pictures_there_is_no_mp4(plan, tmp_path):
    path = tmp_path / "out.mp4"
    with Pump([Mp4(path, 0.5)], {}) as pump:
        pump.plan(plan)
        offer_slowly(pump, (0,))
    assert not path.exists() and list(tmp_path.glob(".out*")) == []
