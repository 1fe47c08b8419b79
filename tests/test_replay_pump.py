"""Pictures never keep the arm waiting."""

import os
import signal
import sys
import time

import numpy as np
import pytest
from fake_robot import KEYS
from make_dataset import make_dataset, picture, read_picture

from lerobot_diagnostics.recording import open_episode
from lerobot_diagnostics.replay.plan import make_plan
from lerobot_diagnostics.replay.pump import Pump, Server
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
    note = ""

    def __init__(self):
        self.moments, self.opened, self.closed = [], 0, 0

    def open(self):
        self.opened += 1

    def show(self, moment):
        self.moments.append(moment)

    def close(self):
        self.closed += 1


class Apart:
    """A sink for another process: it tells what it saw in a file, by way of its note."""

    def __init__(self, slow_s=0.0, dies=False):
        self.note, self.slow_s, self.dies = "", slow_s, dies

    def open(self):
        self.note = f"process {os.getpid()}:"

    def show(self, moment):
        if self.dies:
            os._exit(3)
        time.sleep(self.slow_s)
        self.note += f" {moment.frame}"

    def close(self):
        self.note += " closed"


def serve(sinks, plan, frames):
    items = iter([plan, *((frame, reading(frame)) for frame in frames), None])
    server = Server(sinks, PAIRS)
    server.serve(lambda: next(items))
    return server


def offer_slowly(pump, frames):
    for frame in frames:
        while pump._queue.qsize():
            time.sleep(0.001)
        pump(frame, reading(frame))


def test_live_and_recorded_pictures_of_one_instant_come_together(plan):
    sink = Sink()
    serve([sink], plan, (0, 1, 5))
    assert (sink.opened, sink.closed) == (1, 1)
    assert [moment.frame for moment in sink.moments] == [0, 1, 5]
    for moment in sink.moments:
        live, recorded = moment.pictures["front"]
        assert read_picture(live) == read_picture(recorded) == (moment.frame, 0)
        assert moment.joints[KEYS[0]] == moment.frame
        assert moment.recorded[KEYS[0]] == pytest.approx(plan.states[moment.frame, 0])


def test_a_sink_that_fails_is_left_out_and_said(plan):
    good, bad = Sink(), Sink()
    bad.show = lambda _moment: 1 / 0
    server = serve([bad, good], plan, (0, 1))
    assert len(good.moments) == 2 and bad.closed == 1
    assert server.errors == ["ZeroDivisionError: division by zero"]


def test_a_lost_video_leaves_the_joints(plan):
    sink = Sink()
    next(plan.episode.recording.root.glob("videos/**/*.mp4")).write_bytes(b"nothing")
    server = serve([sink], plan, (0, 1))
    assert [moment.pictures for moment in sink.moments] == [{}, {}] and len(server.errors) == 1


def test_sinks_work_in_another_process_and_report_back(plan):
    with Pump([Apart()], PAIRS) as pump:
        pump.plan(plan)
        offer_slowly(pump, (0, 4))
    assert pump.errors == [] and (pump.seen, pump.dropped) == (2, 0)
    (note,) = pump.notes
    assert note.endswith(": 0 4 closed") and str(os.getpid()) not in note


class Told(Apart):
    def open(self):
        self.note = str(os.sched_getscheduler(0))


@pytest.mark.skipif(sys.platform != "linux", reason="idle processes are Linux's")
def test_the_process_runs_only_when_nothing_else_wants_to(plan):
    pump = Pump([Told()], PAIRS)
    with pump:
        pump.plan(plan)
    assert pump.notes == [f"{os.SCHED_IDLE} closed"] and os.sched_getscheduler(0) != os.SCHED_IDLE


def test_a_slow_sink_costs_pictures_and_no_time(plan):
    large = np.zeros((480, 640, 3), np.uint8)  # more than the pipe between the processes holds
    with Pump([Apart(slow_s=0.5)], PAIRS) as pump:
        pump.plan(plan)
        started = time.perf_counter()
        for frame in range(30):
            pump(frame, Reading(frame / 10, {}, {"front": large}))
        assert time.perf_counter() - started < 1.0  # the sink takes 15 s
    shown = pump.notes[0].split(":")[1].split()[:-1]
    assert pump.seen == 30 and len(shown) == 30 - pump.dropped and 1 <= len(shown) <= 8


def test_a_process_that_dies_is_said_and_the_rest_goes_on(plan):
    with Pump([Apart(dies=True)], PAIRS) as pump:
        pump.plan(plan)
        offer_slowly(pump, (0, 1))
        pump._process.join()
        offer_slowly(pump, (2, 3))
    assert pump.errors == ["the process that shows and records ended early"] and pump.dropped >= 1


@pytest.mark.skipif(os.name == "nt", reason="os.kill ends the process on Windows")
def test_the_process_outlives_ctrl_c(plan):
    with Pump([Apart()], PAIRS) as pump:
        pump.plan(plan)
        os.kill(pump._process.pid, signal.SIGINT)
        offer_slowly(pump, (0, 1))
    assert pump.errors == [] and pump.notes[0].endswith(": 0 1 closed")


def test_the_mp4_shows_three_panels_at_the_time_they_were_seen(plan, tmp_path):
    import av

    path = tmp_path / "out.mp4"
    assert serve([Mp4(path, 0.5)], plan, (0, 3, 10)).errors == []
    with av.open(str(path)) as container:
        frames = [(float(frame.time), frame.to_ndarray(format="rgb24")) for frame in container.decode(video=0)]
    assert [time for time, _ in frames] == pytest.approx([0.0, 0.3, 1.0], abs=2e-3)
    assert frames[0][1].shape == (48, 192, 3)
    panels = np.split(frames[2][1], 3, axis=1)
    assert {read_picture(panel)[0] for panel in panels} == {10}


def test_without_pictures_there_is_no_mp4(plan, tmp_path):
    path = tmp_path / "out.mp4"
    server = Server([Mp4(path, 0.5)], {})
    items = iter([plan, (0, reading(0)), None])
    server.serve(lambda: next(items))
    assert not path.exists() and list(tmp_path.glob(".out*")) == []
