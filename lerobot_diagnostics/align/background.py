"""Slow work beside a loop that must answer a Ctrl-C within 200 ms."""

from __future__ import annotations

import threading
from collections.abc import Callable

POLL_S = 0.02


def unless_stopped[Result](work: Callable[[], Result], stopped: Callable[[], bool]) -> Result | None:
    """The result of ``work``, or None as soon as ``stopped`` says so; the work then ends by itself, unheard.

    Raises:
        BaseException: Whatever ``work`` raised.
    """
    results: list[Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # raised again below
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True, name="align-work")
    thread.start()
    while thread.is_alive() and not stopped():
        thread.join(POLL_S)
    if errors:
        raise errors[0]
    return results[0] if results and not stopped() else None
