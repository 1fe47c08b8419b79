"""Acting at absolute times: an error in one period is not carried into the next."""

from __future__ import annotations

import contextlib
import gc
import sys
import time
from collections.abc import Callable, Iterator

SLICE_S = 0.02
"""Longest sleep between two looks at the stop flag: a fifth of the 100 ms within which the last goal must be out."""

FINE_S = 0.002
"""From here on sleeps halve the rest, because a sleep ends late: 0.06 ms typically, 1 ms on a busy machine."""


SWITCH_S = 2e-4
"""How long another thread may keep the interpreter once the arm's thread wants it. Python's own 5 ms would be how late
a command is."""


@contextlib.contextmanager
def punctual() -> Iterator[None]:
    """Keep what stops or delays a thread away from the one that commands the arm.

    Python's garbage collector leaves what is alive now alone: with LeRobot and torch imported (420 000 objects) one
    full collection stops every thread for 0.3 s on a busy machine. Threads that decode the cameras' pictures give the
    interpreter up after :data:`SWITCH_S`.
    """
    interval_s = sys.getswitchinterval()
    gc.freeze()
    sys.setswitchinterval(SWITCH_S)
    try:
        yield
    finally:
        sys.setswitchinterval(interval_s)
        gc.unfreeze()


class Pacer:
    """Waits for deadline ``start + k · period``.

    Args:
        period_s: Seconds between two deadlines.
        stopped: Asked every :data:`SLICE_S`; waiting ends at once when it is true.
        clock, sleep: Injected by tests.

    Attributes:
        late_s: How late each wait ended, in order.
    """

    def __init__(
        self,
        period_s: float,
        *,
        stopped: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.period_s = period_s
        self.late_s: list[float] = []
        self._stopped, self._clock, self._sleep = stopped, clock, sleep
        self._start = clock()

    def restart(self) -> None:
        """Deadline 0 is now."""
        self._start = self._clock()

    def delay(self, seconds: float) -> None:
        """Move all deadlines to come: what was missed is not caught up with in a rush."""
        self._start += seconds

    def deadline(self, k: int) -> float:
        """Time of deadline ``k`` on the clock."""
        return self._start + k * self.period_s

    def wait(self, k: int) -> bool:
        """Wait for deadline ``k``.

        Returns:
            Whether to go on: false when stopped.
        """
        deadline = self.deadline(k)
        while not self._stopped():
            left = deadline - self._clock()
            if left <= 0:
                self.late_s.append(-left)
                return True
            self._sleep(min(left - FINE_S / 2, SLICE_S) if left > FINE_S else max(left / 2, 5e-5))
        return False
