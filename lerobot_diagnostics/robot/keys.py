"""Keys as they are pressed, without ever waiting for one: ``input()`` would keep Ctrl-C and the pictures waiting.

The one seam between POSIX and Windows terminals; both are imported inside functions.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any, Protocol, Self

from lerobot_diagnostics.errors import UsageError

ENTER = "\n"


class Keys(Protocol):
    """Where keys come from. A context manager: the terminal is put back at the end."""

    interactive: bool
    """Whether somebody can press one."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...

    def poll(self) -> str | None:
        """The next key pressed since, ENTER as ``"\\n"``; None when there is none. Never waits."""
        ...


class NoKeys:
    """No terminal: no key ever comes."""

    interactive = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def poll(self) -> str | None:
        """Never a key."""
        return None


def need_terminal(keys: Keys, yes: bool) -> None:
    """See that somebody can confirm a motion.

    Args:
        keys: From :func:`open_keys`.
        yes: ``--yes=true``: nobody is asked.

    Raises:
        UsageError: There is no terminal, and nobody said that none is needed.
    """
    if not keys.interactive and not yes:
        raise UsageError("there is no terminal to press ENTER on.", "To move without asking: --yes=true.")


class ScriptedKeys(NoKeys):
    """Keys for tests: one an item, None for "nothing was pressed this time"."""

    interactive = True

    def __init__(self, keys: Iterable[str | None]) -> None:
        self._keys = iter(keys)

    def poll(self) -> str | None:
        """The next item."""
        return next(self._keys, None)


class _PosixKeys(NoKeys):
    """A POSIX terminal, each key at once instead of a line at ENTER; Ctrl-C stays a signal."""

    interactive = True

    def __enter__(self) -> Self:
        import termios
        import tty

        self._fd = sys.stdin.fileno()
        self._before: list[Any] = termios.tcgetattr(self._fd)
        tty.setcbreak(self._fd)
        return self

    def __exit__(self, *error: object) -> None:
        import termios

        termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)

    def poll(self) -> str | None:
        import os
        import select

        if not select.select([self._fd], [], [], 0)[0]:
            return None
        key = os.read(self._fd, 1).decode(errors="replace")
        return ENTER if key == "\r" else key or None


class _WindowsKeys(NoKeys):
    """A Windows console."""

    interactive = True

    def poll(self) -> str | None:
        import importlib

        msvcrt: Any = importlib.import_module("msvcrt")
        if not msvcrt.kbhit():
            return None
        key: str = msvcrt.getwch()
        if key == "\x03":  # getwch takes Ctrl-C as a character
            raise KeyboardInterrupt
        return ENTER if key == "\r" else key


def open_keys() -> Keys:
    """The keys of this process's terminal; of none where standard input is no terminal."""
    if sys.stdin is None or not sys.stdin.isatty():
        return NoKeys()
    return _WindowsKeys() if sys.platform == "win32" else _PosixKeys()


def read_line(
    keys: Keys, prompt: str, *, stopped: Callable[[], bool], sleep: Callable[[float], None], echo: Callable[[str], None]
) -> str:
    """Ask for a line, key by key. Empty when nobody can answer or ``stopped`` says so.

    Args:
        keys: An entered :class:`Keys`.
        prompt: Shown first.
        stopped: Asked twenty times a second.
        sleep: Waits.
        echo: Writes text to the terminal without a line end.
    """
    if not keys.interactive:
        return ""
    echo(prompt)
    line = ""
    while not stopped():
        key = keys.poll()
        if key is None:
            sleep(0.05)
        elif key == ENTER:
            echo("\n")
            return line.strip()
        elif key in "\x7f\b":
            line = line[:-1]
            echo("\b \b")
        else:
            line += key
            echo(key)
    return ""
