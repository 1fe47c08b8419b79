"""Ctrl-C and SIGTERM as a flag that loops look at: nothing is torn down in the middle of a packet."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any, Self


class StopSignals:
    """While entered, the first SIGINT or SIGTERM sets :attr:`name`; a second one raises ``KeyboardInterrupt``.

    Outside the main thread, where Python allows no handlers, nothing is caught.

    Attributes:
        name: ``"SIGINT"`` or ``"SIGTERM"`` once it came, else None.
    """

    def __init__(self) -> None:
        self.name: str | None = None
        self._before: dict[int, Any] = {}

    def __call__(self) -> bool:
        """Whether to stop."""
        return self.name is not None

    def __enter__(self) -> Self:
        import signal
        import threading

        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._caught)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        import signal

        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def _caught(self, number: int, _frame: FrameType | None) -> None:
        import signal

        if self.name is not None:
            raise KeyboardInterrupt
        self.name = signal.Signals(number).name


@contextlib.contextmanager
def shielded() -> Iterator[None]:
    """Processes started in here are not ended by Ctrl-C; here it is only heard a moment later."""
    import signal

    if not hasattr(signal, "pthread_sigmask"):  # Windows: the process has to ignore it by itself
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ignore_interrupts() -> None:
    """Ctrl-C in the terminal goes to every process in it; this one is ended by the one that started it."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
