"""The one live loop: live view against recorded view, measured, until somebody is content.

``lerobot-rollout --strategy.type=align`` and ``lerobot-replay-compare --align_only=true`` both run it. It reads the
robot and shows; it never commands the arm.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Protocol

from lerobot_diagnostics.align.countdown import Countdown, Trend
from lerobot_diagnostics.align.measure import MotionDetector
from lerobot_diagnostics.align.misalignment import Line, Misalignment, Tolerance, lines, pose_line
from lerobot_diagnostics.align.reference import Reference
from lerobot_diagnostics.vision.images import Picture

ENTER = "\n"
NEXT, PREVIOUS, QUIT = "n", "p", "q"
KEYS = "ENTER: go on   n/p: next/previous reference episode   q: quit"


class Reading(Protocol):
    """What the robot said: joint values by key, and pictures [H, W, 3] uint8 RGB by camera."""

    @property
    def joints(self) -> Mapping[str, float]: ...

    @property
    def pictures(self) -> Mapping[str, Picture]: ...


class Starts(Protocol):
    """Where references come from, see :class:`~lerobot_diagnostics.align.reference.StartViews`."""

    def load(self, episode: int) -> Reference: ...

    def step(self, episode: int, by: int) -> int: ...


class Measuring(Protocol):
    """What measures beside the loop, see :class:`~lerobot_diagnostics.align.measure.Worker`."""

    def use(self, load: Callable[[], Reference]) -> None: ...

    def offer(self, pictures: Mapping[str, Picture], *, still: bool, at_pose: bool) -> None: ...

    def latest(self) -> tuple[Reference | None, dict[str, Misalignment]]: ...


@dataclass(frozen=True)
class Shown:
    """What displays show at one tick.

    Args:
        time_s: Of the loop's clock.
        pictures: The live ones.
        reference: What they are compared with; None until it is loaded.
        measured: The newest measurement of each camera.
        lines: The same for a person.
        aligned: Whether everything is in the target band.
        countdown: Seconds until the start, None while nothing counts.
    """

    time_s: float
    pictures: Mapping[str, Picture]
    reference: Reference | None
    measured: Mapping[str, Misalignment]
    lines: Sequence[Line]
    aligned: bool
    countdown: int | None


class Display(Protocol):
    """Shows ticks; thins them out by itself."""

    def update(self, shown: Shown) -> None: ...


class Ending(StrEnum):
    """Why the loop ended."""

    CONFIRMED = "confirmed"
    COUNTED_DOWN = "counted down"
    QUIT = "quit"
    STOPPED = "interrupted"
    TIMED_OUT = "time was up"


@dataclass(frozen=True)
class Outcome:
    """How the loop ended.

    Args:
        ending: Why.
        aligned: Whether everything was in the target band then.
        first, last: The first tick with a measurement of every camera (None when it never came), and the last.
        ticks: How often the live view was shown.
        duration_s: For how long.
    """

    ending: Ending
    aligned: bool
    first: Shown | None
    last: Shown | None
    ticks: int
    duration_s: float

    @property
    def fps(self) -> float:
        """Ticks a second."""
        return self.ticks / self.duration_s if self.duration_s > 0 else 0.0


@dataclass(frozen=True)
class Settings:
    """How to judge and when to go on.

    Args:
        tolerance: The target band.
        auto_start: Go on by itself once everything has been in the band and still for :attr:`countdown_s`.
        countdown_s: See there.
        mm_per_px: By camera, for corrections in millimetres.
        limit_s: Give up after so many seconds, or a countdown later where one runs by then; 0 for never.
    """

    tolerance: Tolerance = field(default_factory=Tolerance)
    auto_start: bool = False
    countdown_s: float = 5.0
    mm_per_px: Mapping[str, float] = field(default_factory=dict)
    limit_s: float = 0.0


def align(
    read: Callable[[], Reading | None],
    starts: Starts,
    episode: int,
    measuring: Measuring,
    *,
    settings: Settings,
    displays: Sequence[Display],
    poll: Callable[[], str | None],
    wait: Callable[[int], bool],
    clock: Callable[[], float],
    say: Callable[[str], None] = lambda _text: None,
) -> Outcome:
    """Run the live loop until ENTER, the end of the countdown, ``q``, a stop or the limit.

    Args:
        read: The robot's newest reading; None when a read failed and may be tried again.
        starts: The recorded starts.
        episode: The first to compare with.
        measuring: An entered :class:`~lerobot_diagnostics.align.measure.Worker`.
        settings: See :class:`Settings`.
        displays: Each is given every tick.
        poll: The next key pressed, or None; never waits.
        wait: Waits for tick k; false when the loop is to stop (``Pacer.wait``).
        clock: Seconds.
        say: Speaks; the countdown is counted aloud.

    Raises:
        UsageError: A reference cannot be loaded.
    """
    motion, countdown = MotionDetector(), Countdown(settings.countdown_s)
    trends: dict[str, Trend] = {}
    measuring.use(partial(starts.load, episode))
    started = clock()
    first: Shown | None = None
    last: Shown | None = None
    spoken: int | None = None
    tick = 0

    def outcome(ending: Ending) -> Outcome:
        return Outcome(ending, last is not None and last.aligned, first, last, tick, clock() - started)

    while wait(tick):
        reading = read()
        now = clock()
        if reading is not None:
            reference, measured = measuring.latest()
            moving = motion.moving(reading.pictures, now)
            arm = None if reference is None else pose_line(reading.joints, reference.state, settings.tolerance)
            if reference is not None:
                live = {name: picture for name, picture in reading.pictures.items() if name in reference.pictures}
                measuring.offer(live, still=not moving, at_pose=arm is None or arm.ok is True)
            told, aligned = _judge(reference, measured, arm, settings, trends, now)
            left = countdown.update(now, ready=aligned and settings.auto_start, moving=moving)
            last = Shown(now, reading.pictures, reference, measured, told, aligned, left)
            if first is None and reference is not None and measured.keys() >= reference.pictures.keys():
                first = last
            for display in displays:
                display.update(last)
            if left != spoken and left is not None:
                say(str(left) if left else "go")
            spoken = left
            if left == 0:
                return outcome(Ending.COUNTED_DOWN)
        tick += 1
        allowed = settings.limit_s + (settings.countdown_s if spoken is not None else 0.0)
        if settings.limit_s > 0 and clock() - started >= allowed:
            return outcome(Ending.TIMED_OUT)
        while (key := poll()) is not None:
            if key == ENTER:
                return outcome(Ending.CONFIRMED)
            if key == QUIT:
                return outcome(Ending.QUIT)
            if key in (NEXT, PREVIOUS):
                episode = starts.step(episode, 1 if key == NEXT else -1)
                measuring.use(partial(starts.load, episode))
                trends = {}
    return outcome(Ending.STOPPED)


def _judge(
    reference: Reference | None,
    measured: Mapping[str, Misalignment],
    arm: Line | None,
    settings: Settings,
    trends: dict[str, Trend],
    now: float,
) -> tuple[list[Line], bool]:
    """The lines for a person, with warmer and colder, and whether everything is in the target band."""
    if reference is None:
        return [Line("reference", "loading", None)], False
    told = [arm] if arm is not None else []
    complete = True
    for name in reference.pictures:
        if name not in measured:
            told.append(Line(name, "measuring", None))
            complete = False
            continue
        camera = measured[name]
        complete = complete and camera.within(settings.tolerance) and _judged(camera)
        mine = lines(camera, settings.tolerance, settings.mm_per_px.get(name))
        trend = trends.setdefault(name, Trend()).update(now, camera.size_px())
        if trend and mine[0].ok is not True:
            mine[0] = Line(name, f"{mine[0].text} ({trend})", mine[0].ok)
        told += mine
    return told, complete and (arm is None or arm.ok is True)


def _judged(camera: Misalignment) -> bool:
    """Whether base and objects have been looked at, where they can be."""
    return camera.changes is not None or not camera.can_judge_changes
