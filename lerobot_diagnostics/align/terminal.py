"""The terminal view: the lines of the loop, rewritten in place, or printed when they change where output is a pipe."""

from __future__ import annotations

import math
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from lerobot_diagnostics.align.loop import KEYS, Shown

REFRESH_S = 0.2
PIPE_S = 1.0
"""Seconds between two prints: on a terminal, and into a pipe or a file."""
REPEAT_S = 5.0
"""Where nobody is there to press a key: seconds until the same is printed again, so that a log shows it still waits."""
COLOURS = {True: "green", False: "yellow", None: "magenta"}
MARKS = {True: "✓", False: "→", None: "?"}


class TerminalView:
    """Shows the loop on a console. A context manager.

    Args:
        console: Where to.
        keys: Whether somebody can press keys: then they are listed.
        waits: Whether it goes on only once all is in place: then what it waits for is said, again and again.
    """

    def __init__(self, console: Console, *, keys: bool, waits: bool = False) -> None:
        self._console, self._keys, self._waits = console, keys, waits
        self._at = self._printed_at = -math.inf
        self._printed = ""
        self._live = Live(console=console, auto_refresh=False, transient=False) if console.is_terminal else None

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._live:
            self._live.stop()

    def update(self, shown: Shown) -> None:
        """Print a tick, unless one was printed just before."""
        if shown.time_s - self._at < (REFRESH_S if self._live else PIPE_S) and shown.countdown != 0:
            return
        self._at = shown.time_s
        text = render(shown)
        if self._waits and not shown.aligned:
            open_ = ", ".join(dict.fromkeys(line.subject for line in shown.lines if line.ok is not True))
            text.append(f"\nwaiting until this is in place: {open_ or 'base and objects'}")
        if self._live:
            self._live.update(text.append(f"\n{KEYS}", "dim") if self._keys else text, refresh=True)
        elif text.plain != self._printed or (self._waits and shown.time_s - self._printed_at >= REPEAT_S):
            self._printed, self._printed_at = text.plain, shown.time_s
            self._console.print(text, soft_wrap=True)


def render(shown: Shown) -> Text:
    """One line each; green in the target band, yellow outside, magenta where nothing can be said."""
    text = Text()
    if shown.reference is not None:
        text.append(f"against episode {shown.reference.episode}", "bold")
    for line in shown.lines:
        text.append(f"\n{MARKS[line.ok]} {line.subject}: {line.text}", COLOURS[line.ok])
    if shown.aligned:
        text.append("\nALIGNED", "bold green")
        if shown.countdown is not None:
            text.append(f", starting in {shown.countdown} s; any motion in view starts the countdown again")
    return text
