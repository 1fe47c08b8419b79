"""The person in front of the arm: what they are told, and what they answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Table
from lerobot_diagnostics.replay.judge import Outcome, parse_miss
from lerobot_diagnostics.robot.keys import ENTER, Keys, read_line

POLL_S = 0.05


class Desk:
    """Says, shows and asks.

    Args:
        keys: An entered :class:`~lerobot_diagnostics.robot.keys.Keys`.
        stopped: Whether the user wants to stop; ends every wait.
        yes: Wait for nobody.
        outcome: The answer to whether the motion landed; None asks.
        say: Prints a line.
        echo: Writes without a line end.
        show: Draws a table over the last one; None draws none.
        sleep: Waits.
    """

    def __init__(
        self,
        keys: Keys,
        *,
        stopped: Callable[[], bool],
        yes: bool = False,
        outcome: Outcome | None = None,
        say: Callable[[str], None] = lambda text: print(text, flush=True),
        echo: Callable[[str], Any] = lambda text: print(text, end="", flush=True),
        show: Callable[[Table | None], None] | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._keys, self._stopped, self._yes, self._outcome = keys, stopped, yes, outcome
        self.say, self._echo, self._show, self._sleep = say, echo, show, sleep

    def confirm(self, prompt: str, look: Callable[[], Table | None] = lambda: None) -> bool:
        """Wait for ENTER.

        Args:
            prompt: What ENTER does.
            look: Called again and again while waiting, once with ``yes``; a table it returns is shown.

        Returns:
            Whether to go on; at once with ``yes``.
        """
        if self._yes:
            table = look()
            if self._show is not None:
                self._show(table)
            return not self._stopped()
        self.say(prompt)
        try:
            while not self._stopped():
                table = look()
                if self._show is not None:
                    self._show(table)
                if self._keys.poll() == ENTER:
                    return True
                self._sleep(POLL_S)
        finally:
            if self._show is not None:
                self._show(None)
        return False

    def outcome(self) -> Outcome:
        """Whether the motion landed, and where it missed."""
        if self._outcome is not None:
            return self._outcome
        answer = self._line("Did it land as recorded? [y/n, ENTER if you cannot tell] ").lower()
        if answer[:1] not in {"y", "n"}:
            return Outcome(None)
        if answer.startswith("y"):
            return Outcome(True)
        while True:
            answer = self._line(
                "How far did it miss, seen from the base? (e.g. 20 left 10 forward, in mm; ENTER skips) "
            )
            try:
                return Outcome(False, parse_miss(answer))
            except UsageError as error:
                self.say(str(error))

    def _line(self, prompt: str) -> str:
        return read_line(self._keys, prompt, stopped=self._stopped, sleep=self._sleep, echo=self._echo)
