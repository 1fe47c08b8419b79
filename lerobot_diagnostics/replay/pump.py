"""Pictures to the viewer and the recorder, in a process of their own: when it is busy, pictures are dropped."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import queue
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from multiprocessing.connection import Connection
from types import TracebackType
from typing import NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from lerobot_diagnostics.replay.pictures import RecordedFrames
from lerobot_diagnostics.replay.plan import Plan
from lerobot_diagnostics.robot.arm import Reading
from lerobot_diagnostics.robot.stop import ignore_interrupts, shielded

Image8 = NDArray[np.uint8]

WAITING = 2
"""Frames that may wait. More would only make what is seen older."""

NICENESS = 10
"""What the pictures' process adds to its niceness where the system knows no idle processes."""

READY_S = 60.0
"""How long the viewer and the recorder may take to open, and to close: 4 s here to open, most of it imports."""


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
    """Takes moments. It is opened, used and closed in the pictures' process, so it is sent there before it is opened.

    Attributes:
        note: What to tell the user in the end, or nothing.
    """

    note: str

    def open(self) -> None:
        """Before the first moment."""
        ...

    def show(self, moment: Moment) -> None:
        """One moment."""
        ...

    def close(self) -> None:
        """After the last."""
        ...


Shot = tuple[int, Reading]


class Pump:
    """A :class:`~lerobot_diagnostics.replay.play.Watcher` that hands frames to sinks in another process.

    Args:
        sinks: Where to.
        pairs: ``{live camera: recorded key}``.

    Attributes:
        seen, dropped: Frames offered, and those that found the queue full.
        errors: What made a sink give up; the arm never hears of it.
        notes: What the sinks have to say, once closed.
    """

    def __init__(self, sinks: Sequence[Sink], pairs: Mapping[str, str]) -> None:
        self.seen = self.dropped = 0
        self.errors: list[str] = []
        self.notes: list[str] = []
        self._sinks, self._pairs = list(sinks), pairs
        self._plan: Plan | None = None
        self._queue: queue.Queue[tuple[Plan, Shot] | None] = queue.Queue(WAITING)
        self._thread = threading.Thread(target=self._forward, name="pictures", daemon=True)

    def __enter__(self) -> Self:
        if self._sinks:
            spawning = multiprocessing.get_context("spawn")
            self._connection, theirs = spawning.Pipe()
            arguments = (theirs, self._sinks, dict(self._pairs))
            self._process = spawning.Process(target=_apart, args=arguments, name="pictures", daemon=True)
            with shielded():  # Ctrl-C is for the arm's process, which then ends this one
                self._process.start()
            theirs.close()
            if not self._hear(READY_S):
                self._process.kill()
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._sinks:
            hangs = threading.Timer(READY_S, self._process.kill)
            hangs.daemon = True
            hangs.start()
            self._queue.put(None)
            self._thread.join()
            self._process.join()
            hangs.cancel()

    def plan(self, plan: Plan) -> None:
        """The episode that frames belong to from now on."""
        self._plan = plan

    def __call__(self, frame: int, reading: Reading) -> None:
        """Offer a frame; never waits."""
        if not self._sinks or self._plan is None:
            return
        self.seen += 1
        try:
            self._queue.put_nowait((self._plan, (frame, reading)))
        except queue.Full:
            self.dropped += 1

    def _forward(self) -> None:
        plan = None
        while (item := self._queue.get()) is not None:
            if not self._send(*([item[0]] if item[0] is not plan else []), item[1]):
                self.dropped += 1
            plan = item[0]
        if not self._send(None) or not self._hear(None):
            self.errors.append("the process that shows and records ended early")
        self._connection.close()

    def _send(self, *items: Plan | Shot | None) -> bool:
        try:
            for item in items:
                _send(self._connection, item)
        except OSError:  # it has ended; that is said once, when all is over
            return False
        return True

    def _hear(self, within_s: float | None) -> bool:
        """Take what the process has to say: errors and notes. False if it says nothing."""
        try:
            if not self._connection.poll(within_s):
                return False
            errors, notes = self._connection.recv()
        except (EOFError, OSError):
            return False
        self.errors += errors
        self.notes += notes
        return True


def _send(connection: Connection, item: Plan | Shot | None) -> None:
    """Pictures go as they lie in memory: pickling 2 MB would keep the interpreter from the arm's thread for 1 ms."""
    if not isinstance(item, tuple):
        connection.send(item)
        return
    frame, reading = item
    pictures = {name: np.ascontiguousarray(picture) for name, picture in reading.pictures.items()}
    shapes = {name: picture.shape for name, picture in pictures.items()}
    connection.send((frame, reading.time_s, reading.joints, shapes))
    for picture in pictures.values():
        connection.send_bytes(memoryview(picture).cast("B"))


def _receive(connection: Connection) -> Plan | Shot | None:
    """Inverse of :func:`_send`."""
    item = connection.recv()
    if not isinstance(item, tuple):
        received: Plan | None = item
        return received
    frame, time_s, joints, shapes = item
    pictures = {name: np.frombuffer(connection.recv_bytes(), np.uint8).reshape(shape) for name, shape in shapes.items()}
    return frame, Reading(time_s, joints, pictures)


def _apart(connection: Connection, sinks: Sequence[Sink], pairs: Mapping[str, str]) -> None:
    """What the pictures' process does: say that it is ready, serve, say what there was."""
    import cv2

    ignore_interrupts()
    _step_back()  # first, because threads and a viewer started later inherit it
    cv2.setNumThreads(1)

    def receive() -> Plan | Shot | None:
        try:
            return _receive(connection)
        except EOFError:  # the arm's process is gone: finish what there is
            return None

    server = Server(sinks, pairs)
    connection.send((server.errors, []))
    server.errors = []
    server.serve(receive)
    try:
        connection.send((server.errors, [sink.note for sink in sinks if sink.note]))
    except OSError:  # nobody is left to hear it
        return


def _step_back() -> None:
    """Let every other process go first: the arm's may not wait for this one's time slice of some 3 ms to end."""
    with contextlib.suppress(OSError):  # where that is forbidden it competes, and pictures are still what is dropped
        if sys.platform == "linux":
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        elif hasattr(os, "nice"):
            os.nice(NICENESS)


class Server:
    """Opens sinks, gives them moments, closes them; one that fails is left out.

    Args:
        sinks: Where to.
        pairs: ``{live camera: recorded key}``.

    Attributes:
        errors: What made a sink give up.
    """

    def __init__(self, sinks: Sequence[Sink], pairs: Mapping[str, str]) -> None:
        self.errors: list[str] = []
        self._sinks, self._pairs = list(sinks), pairs
        self._open = [sink for sink in self._sinks if self._safely(sink.open)]

    def serve(self, receive: Callable[[], Plan | Shot | None]) -> None:
        """Show until None is received: a plan, then the shots that belong to it, then perhaps another."""
        plan = frames = None
        while (item := receive()) is not None:
            if isinstance(item, Plan):
                plan, frames = item, RecordedFrames(item.episode, self._pairs)
            elif plan is not None and frames is not None and self._open:
                moment = self._moment(frames, plan, *item)
                self._open = [sink for sink in self._open if self._safely(partial(sink.show, moment))]
        for sink in self._sinks:
            self._safely(sink.close)

    def _moment(self, frames: RecordedFrames, plan: Plan, frame: int, reading: Reading) -> Moment:
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
