"""Pictures to the viewer and the recorder, in a thread of their own: when it is busy, pictures are dropped."""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from lerobot_diagnostics.replay.pictures import RecordedFrames
from lerobot_diagnostics.replay.plan import Plan
from lerobot_diagnostics.robot.arm import Reading

Image8 = NDArray[np.uint8]

WAITING = 2
"""Frames that may wait. More would only make what is seen older."""

SWITCH_S = 2e-4
"""How long the pictures' thread may keep the interpreter once the arm's thread wants it. Python's own 5 ms would be how
late a command is."""


class Moment(NamedTuple):
    """One instant, live and recorded.

    Attributes:
        time_s: On the arm's clock.
        frame: The recorded frame.
        joints: Live joints by key.
        recorded: Recorded joints by key.
        pictures: ``{camera: (live, recorded)}``.
    """

    time_s: float
    frame: int
    joints: Mapping[str, float]
    recorded: Mapping[str, float]
    pictures: Mapping[str, tuple[Image8, Image8]]


class Sink(Protocol):
    """Takes moments; called in the pump's thread, opened and closed there too."""

    def open(self) -> None:
        """Before the first moment."""
        ...

    def show(self, moment: Moment) -> None:
        """One moment."""
        ...

    def close(self) -> None:
        """After the last."""
        ...


class Pump:
    """A :class:`~lerobot_diagnostics.replay.play.Watcher` that hands frames to sinks in a thread.

    Args:
        sinks: Where to.
        pairs: ``{live camera: recorded key}``.

    Attributes:
        seen, dropped: Frames offered, and those that found the queue full.
        errors: What made a sink give up; the arm never hears of it.
    """

    def __init__(self, sinks: Sequence[Sink], pairs: Mapping[str, str]) -> None:
        self.seen = self.dropped = 0
        self.errors: list[str] = []
        self._sinks, self._pairs = list(sinks), pairs
        self._plan: Plan | None = None
        self._queue: queue.Queue[tuple[Plan, int, Reading] | None] = queue.Queue(WAITING)
        self._thread = threading.Thread(target=self._work, name="pictures", daemon=True)

    def __enter__(self) -> Self:
        self._switch_interval_s = sys.getswitchinterval()
        if self._sinks:
            sys.setswitchinterval(SWITCH_S)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._queue.put(None)
        self._thread.join()
        sys.setswitchinterval(self._switch_interval_s)

    def plan(self, plan: Plan) -> None:
        """The episode that frames belong to from now on."""
        self._plan = plan

    def __call__(self, frame: int, reading: Reading) -> None:
        """Offer a frame; never waits."""
        if not self._sinks or self._plan is None:
            return
        self.seen += 1
        try:
            self._queue.put_nowait((self._plan, frame, reading))
        except queue.Full:
            self.dropped += 1

    def _work(self) -> None:
        sinks = [sink for sink in self._sinks if self._safely(sink.open)]
        plan, frames = None, None
        while (item := self._queue.get()) is not None:
            if item[0] is not plan or frames is None:
                plan = item[0]
                frames = RecordedFrames(plan.episode, self._pairs)
            if sinks and (moment := self._moment(frames, *item)) is not None:
                sinks = [sink for sink in sinks if self._safely(partial(sink.show, moment))]
        for sink in self._sinks:
            self._safely(sink.close)

    def _moment(self, frames: RecordedFrames, plan: Plan, frame: int, reading: Reading) -> Moment | None:
        try:
            pairs = {c: (reading.pictures[c], frames.get(c, frame)) for c in frames.pairs if c in reading.pictures}
        except Exception as error:  # a damaged video: the viewer goes on without recorded pictures
            self._note(error)
            frames.pairs = {}
            pairs = {}
        recorded = dict(zip(plan.keys, plan.states[frame].tolist(), strict=True))
        return Moment(reading.time_s, frame, reading.joints, recorded, pairs)

    def _safely(self, do: Callable[[], None]) -> bool:
        try:
            do()
        except Exception as error:  # whatever an encoder or a viewer finds wrong must not reach the arm
            self._note(error)
            return False
        return True

    def _note(self, error: Exception) -> None:
        self.errors.append(f"{type(error).__name__}: {error}")
