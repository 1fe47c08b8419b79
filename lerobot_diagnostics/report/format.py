"""Text that the console and the HTML page share: numbers, units taken from key names, commands inside a fix."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

UNITS: Mapping[str, str] = {
    "px": "px",
    "deg": "°",
    "rad": "rad",
    "ticks": "ticks",
    "mm": "mm",
    "cm": "cm",
    "ms": "ms",
    "s": "s",
    "hz": "Hz",
    "fps": "fps",
    "pct": "%",
    "percent": "%",
    "frames": "frames",
    "steps": "steps",
    "events": "events",
    "mb": "MB",
}
"""Unit shown for the last word of an evidence key: ``shift_px`` reads "shift … px"."""

_TIGHT = {"°", "%"}

MAX_DECIMALS = 4

_COMMAND = re.compile(
    r"`([^`]+)`|(?:^|(?<=: ))("
    r"(?:lerobot-[a-z0-9-]+(?= +-| *$)|(?:python3? -m|pip3? install|uv pip install|hf|sudo) )"
    r"[^\n`]*?(?=(?:(?<=\w)\.)?\s*$))",
    re.MULTILINE,
)
"""A name alone makes no command: "lerobot-diagnose says more" is a sentence. A full stop stays outside."""


def is_number(value: Any) -> bool:
    """Whether a table or evidence cell is a number (a bool is not)."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def decimals_for(values: Iterable[Any]) -> int:
    """Decimals that give the median magnitude of ``values`` three significant digits, 0 to 4."""
    sizes = [abs(v) for v in values if isinstance(v, float) and math.isfinite(v) and v != 0]
    if not sizes:
        return 0
    return min(MAX_DECIMALS, max(0, 2 - math.floor(math.log10(statistics.median(sizes)))))


def hundredths(value: float) -> float:
    """``value`` for a table, where what is smaller was computed but not measured. Never a negative zero."""
    return round(value, 2) + 0.0


def _column_decimals(values: Sequence[Any]) -> int:
    """:func:`decimals_for`, but no further digits where all values are whole :func:`hundredths`."""
    whole = all(value == round(value, 2) for value in values if isinstance(value, float) and math.isfinite(value))
    return min(decimals_for(values), 2 if whole else MAX_DECIMALS)


def format_value(value: Any, decimals: int | None = None) -> str:
    """One cell as text: floats with ``decimals`` (else three significant digits), None and NaN as a dash."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        if math.isinf(value):
            return "∞" if value > 0 else "−∞"
        # Beside figures that need fewer decimals what is so small is none.
        tiny = abs(value) < 1e-4 and (decimals is None or decimals == MAX_DECIMALS)
        if value != 0 and (tiny or abs(value) >= 1e7):
            text = f"{value:.2e}"
        else:
            digits = decimals_for([value]) if decimals is None else decimals
            text = f"{round(value, digits) + 0.0:.{digits}f}"  # never a negative zero
        return text.replace("-", "−", 1) if text.startswith("-") else text
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {format_value(item)}" for key, item in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return ", ".join(format_value(item) for item in value)
    return str(value)


def format_columns(rows: Sequence[Sequence[Any]], columns: int) -> tuple[list[list[str]], list[bool]]:
    """Cells of a table as text, one number of decimals a column, and which columns are numeric (right-aligned)."""
    decimals = [_column_decimals([row[c] for row in rows if c < len(row)]) for c in range(columns)]
    numeric = [
        any(is_number(row[c]) for row in rows if c < len(row))
        and all(row[c] is None or is_number(row[c]) for row in rows if c < len(row))
        for c in range(columns)
    ]
    cells = [[format_value(row[c] if c < len(row) else "", decimals[c]) for c in range(columns)] for row in rows]
    return cells, numeric


def evidence_items(evidence: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Evidence as (label, value with unit): ``{"shift_px": 14.2}`` becomes ``[("shift", "14.2 px")]``."""
    items = []
    for key, value in evidence.items():
        if isinstance(value, str) and not value:  # the unit of a joint that does not tell it
            continue
        head, _, tail = key.rpartition("_")
        unit = UNITS.get(tail.lower(), "") if head else ""
        label = (head if unit else key).replace("_", " ")
        text = format_value(value)
        has_unit = unit and value is not None and not isinstance(value, str | bool)
        items.append((label, f"{text}{'' if unit in _TIGHT else ' '}{unit}" if has_unit else text))
    return items


def headline(summary: str) -> tuple[str, str]:
    """A verdict's first sentence, and what follows it: more of it, and what to do."""
    match = re.match(r"(.+?[.!?])\s+(?=[A-Z`])(.+)", summary, re.DOTALL)
    return (match.group(1), match.group(2)) if match else (summary, "")


def fix_parts(fix: str) -> list[tuple[bool, str]]:
    """A fix cut into (is a command, text), spaces kept. A command is in backticks, starts a line or follows ": "."""
    parts: list[tuple[bool, str]] = []
    end = 0
    for match in _COMMAND.finditer(fix):
        parts += [(False, fix[end : match.start()]), (True, match.group(1) or match.group(2))]
        end = match.end()
    parts.append((False, fix[end:]))
    return [(is_command, text) for is_command, text in parts if text]


def count_of(number: int, singular: str, plural: str = "") -> str:
    """A number of things in words: ``1 frame``, ``3 frames``."""
    return f"{number} {singular if number == 1 else plural or singular + 's'}"
