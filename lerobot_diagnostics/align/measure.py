"""Measuring beside a live loop: one camera after the other in a thread of its own, always on the newest picture."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from lerobot_diagnostics.align.misalignment import Misalignment, Tolerance
from lerobot_diagnostics.align.overlay import like
from lerobot_diagnostics.align.reference import Reference
from lerobot_diagnostics.vision.images import Picture, grey, shrink
from lerobot_diagnostics.vision.lighting import estimate_lighting
from lerobot_diagnostics.vision.registration import NO_FIT, Registrar, Registration
from lerobot_diagnostics.vision.workspace import Background, Change, locate_changes

SLOW_S = 1.0
"""Between two measurements that take 0.2 s or more: the exact registration, and base and objects."""
HOLD_S = 1.5
"""How long an answer stands when none comes after it: until the next exact one, which may be all that fits."""
GO_THERE = "moves with the arm: it can be judged once the arm is at the recorded start (--strategy.go_to_start=true)"


class Meter:
    """Measures one camera at a time against the current reference.

    Args:
        tolerance: The target band; base and objects are looked at inside it only.
        backgrounds: What stands still, by camera; without it the whole picture registers and base and objects are
            not judged.
        steady: Whether a camera stands still while the arm moves, by camera; None or absent where that is not known.
    """

    def __init__(
        self,
        tolerance: Tolerance,
        *,
        backgrounds: Mapping[str, Background] | None = None,
        steady: Mapping[str, bool | None] | None = None,
    ) -> None:
        self._tolerance = tolerance
        self._backgrounds, self._steady = dict(backgrounds or {}), dict(steady or {})
        self._registrars: dict[str, Registrar] = {}

    def use(self, reference: Reference) -> None:
        """Take another reference; forgets what was measured."""
        self.reference = reference
        self._registrars = {
            name: Registrar(picture, self._backgrounds[name].mask if name in self._backgrounds else None)
            for name, picture in reference.pictures.items()
        }
        self._last: dict[str, tuple[float, Registration]] = {}
        self._changes: dict[str, tuple[Change, ...]] = {}
        self._slow_at: dict[str, float] = {}

    def measure(self, camera: str, picture: Picture, *, now: float, still: bool, at_pose: bool) -> Misalignment:
        """One camera's misalignment: about 10 ms, and up to 0.5 s at most once in :data:`SLOW_S`.

        Args:
            camera: A camera of the reference.
            picture: [H, W, 3] uint8 RGB, of the recorded aspect ratio.
            now: Seconds, any origin.
            still: Whether nothing moves in any view: base and objects are looked at only then.
            at_pose: Whether the arm is at the recorded start.
        """
        recorded = self.reference.pictures[camera]
        height, width = recorded.shape[:2]
        if not at_pose and self._steady.get(camera) is not True:
            return Misalignment(camera, width, height, NO_FIT, unknown=GO_THERE)
        due = now - self._slow_at.get(camera, -math.inf) >= SLOW_S
        found_at, last = self._last.get(camera, (-math.inf, NO_FIT))
        motion = self._registrars[camera].fast(picture, last)
        if not motion.found and due:  # too far for the fast one, or seen from another side
            self._slow_at[camera] = now
            motion = self._registrars[camera].exact(picture)
        if motion.found:
            self._last[camera] = now, motion
        elif now - found_at <= HOLD_S:
            motion = last
        light = estimate_lighting(picture, recorded) if motion.found else None
        background = self._backgrounds.get(camera)
        judgeable = background is not None and background.mask is not None and at_pose
        measured = Misalignment(camera, width, height, motion, light, can_judge_changes=judgeable)
        if background is None or not judgeable or measured.camera_excess(self._tolerance) > 1.0:
            self._changes.pop(camera, None)
            return measured
        if still and due:
            self._slow_at[camera] = now
            others = self.reference.others.get(camera, ())
            self._changes[camera] = tuple(_displaced(like(picture, recorded), recorded, others, background))
        return replace(measured, changes=self._changes.get(camera))


def _displaced(live: Picture, recorded: Picture, others: Sequence[Picture], background: Background) -> list[Change]:
    """Base and objects against this very picture, wherever objects lay in other episodes.

    One picture alone calls its largest thing the arm; other episodes at the same pose then say whether it is.
    """
    changes = locate_changes(live, [recorded], background)[1]
    if others and any(c.kind == "arm" for c in changes):
        confirmed = any(c.kind == "arm" for c in locate_changes(live, [recorded, *others], background)[1])
        changes = [c if confirmed or c.kind != "arm" else replace(c, kind="object") for c in changes]
    return changes


class Worker:
    """A :class:`Meter` in a thread, so that the display never waits for it. A context manager.

    Args:
        meter: What measures.
        clock: Seconds, any origin.
    """

    def __init__(self, meter: Meter, clock: Callable[[], float] = time.monotonic) -> None:
        self._meter, self._clock = meter, clock
        self._wake = threading.Condition()
        self._pictures: dict[str, Picture] = {}
        self._still = self._at_pose = False
        self._loader: Callable[[], Reference] | None = None
        self._latest: dict[str, Misalignment] = {}
        self._error: BaseException | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._run, daemon=True, name="align-measure")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        with self._wake:
            self._closed = True
            self._wake.notify()
        # Not joined: a slow measurement must not delay a Ctrl-C, and the thread ends by itself after it.

    def use(self, load: Callable[[], Reference]) -> None:
        """Have another reference loaded and used; until then the old one stays."""
        with self._wake:
            self._loader = load
            self._wake.notify()

    def offer(self, pictures: Mapping[str, Picture], *, still: bool, at_pose: bool) -> None:
        """The newest pictures; those not yet measured are dropped for them."""
        with self._wake:
            self._pictures |= pictures
            self._still, self._at_pose = still, at_pose
            self._wake.notify()

    def latest(self) -> tuple[Reference | None, dict[str, Misalignment]]:
        """The reference in use (None before the first is loaded) and the newest measurement of each camera.

        Raises:
            BaseException: Whatever went wrong in the thread.
        """
        with self._wake:
            if self._error is not None:
                raise self._error
            return getattr(self._meter, "reference", None), dict(self._latest)

    def _run(self) -> None:
        try:
            while self._once():
                pass
        except BaseException as error:  # handed to whoever asks next
            with self._wake:
                self._error = error

    def _once(self) -> bool:
        with self._wake:
            while not (self._closed or self._loader or self._pictures):
                self._wake.wait()
            if self._closed:
                return False
            loader, self._loader = self._loader, None
        if loader is not None:
            reference = loader()
            with self._wake:
                self._meter.use(reference)
                self._latest.clear()
            return True
        with self._wake:
            camera = next(iter(self._pictures))  # the longest waiting: a measured one goes to the end of the row
            picture, still, at_pose = self._pictures.pop(camera), self._still, self._at_pose
        measured = self._meter.measure(camera, picture, now=self._clock(), still=still, at_pose=at_pose)
        with self._wake:
            self._latest[camera] = measured
        return True


THUMB = (64, 48)
STIR_LEVELS = 8.0
STIR_CELLS = 4
COMPARE_S = 0.25
"""Recorded pictures of four data sets, 0.25 s apart, while a joint moves by more than 3 % of its range: median 105 to
1668 of 3072 cells, and 4 or more in 92 to 99 % of the pairs (76 % with two arms, where one wrist may rest).
Sensor noise of 2 levels and flicker of 6 % stir none."""


class MotionDetector:
    """Whether anything moves in any view: against the pictures of :data:`COMPARE_S` ago, in 64 × 48 cells.

    A change of the whole picture by the same amount (flicker, automatic exposure) is not motion: the median change is
    taken off first.
    """

    def __init__(self) -> None:
        self._before: dict[str, tuple[float, NDArray[np.float32]]] = {}
        self._moving: dict[str, bool] = {}

    def moving(self, pictures: Mapping[str, Picture], now: float) -> bool:
        """Whether something moved since the last comparison; true until there is one."""
        for name, picture in pictures.items():
            before = self._before.get(name)
            if before is not None and now - before[0] < COMPARE_S:
                continue
            thumb = grey(shrink(picture, *THUMB))
            self._moving[name] = before is None or stirred_cells(before[1], thumb) >= STIR_CELLS
            self._before[name] = now, thumb
        return any(self._moving.values())


def stirred_cells(before: NDArray[np.float32], after: NDArray[np.float32]) -> int:
    """How many cells of [48, 64] grey pictures changed by more than :data:`STIR_LEVELS` beyond the median change."""
    change = after - before
    return int((np.abs(change - np.median(change)) > STIR_LEVELS).sum())
