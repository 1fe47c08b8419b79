"""Whatever starts by itself counts down first and starts over when anything moves: the hand is still in there."""

from __future__ import annotations

import math
from collections import deque


class Countdown:
    """Seconds until the start.

    Args:
        seconds: How long everything must be in place and still.
    """

    def __init__(self, seconds: float = 5.0) -> None:
        self._seconds = seconds
        self._since: float | None = None

    def update(self, now: float, *, ready: bool, moving: bool) -> int | None:
        """Whole seconds left (0: start now), or None while it does not count.

        Args:
            now: Seconds, any origin.
            ready: Whether everything is within tolerance; when not, counting ends.
            moving: Whether anything moves in any view; then it starts over.
        """
        if not ready:
            self._since = None
            return None
        if self._since is None or moving:
            self._since = now
        return max(0, math.ceil(self._seconds - (now - self._since) - 1e-6))


TREND_S = 0.7
"""How long ago "before" is: shorter than a deliberate push, longer than the scatter between two measurements."""
TREND_PX = 1.0
"""Least change that means anything; the fast registration scatters by a few tenths of a pixel."""


class Trend:
    """Warmer or colder: whether a misalignment shrinks or grows."""

    def __init__(self) -> None:
        self._past: deque[tuple[float, float]] = deque()

    def update(self, now: float, size_px: float) -> str:
        """``"warmer"``, ``"colder"`` or nothing, against :data:`TREND_S` ago."""
        self._past.append((now, size_px))
        while len(self._past) > 1 and now - self._past[1][0] >= TREND_S:
            self._past.popleft()
        then, before = self._past[0]
        if now - then < TREND_S or not (math.isfinite(before) or math.isfinite(size_px)):
            return ""
        if size_px < before - TREND_PX:
            return "warmer"
        return "colder" if size_px > before + TREND_PX else ""
