"""A report on the terminal: verdict first, then the findings gravest first, the tables, and where the files are."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO, cast

from rich import box
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table as RichTable
from rich.text import Text

from lerobot_diagnostics.findings import Finding, Report, Status, Table, by_severity
from lerobot_diagnostics.report.format import evidence_items, fix_parts, format_columns, headline

STYLE: Mapping[Status, str] = {
    Status.FAIL: "bold red",
    Status.UNKNOWN: "bold magenta",
    Status.WARN: "bold yellow",
    Status.INFO: "bold cyan",
    Status.PASS: "bold green",
}

NARROW_COLUMNS = 76
"""Below this width a finding's subject gets no column of its own: its summary would wrap after every third word."""

_PLAIN = str.maketrans(
    {"−": "-", "–": "-", "—": "-", "→": "->", "±": "+/-", "×": "x", "°": "deg", "…": "...", "≥": ">=", "≤": "<=",
     "∞": "inf", "·": "-", "•": "*", "µ": "u", "“": '"', "”": '"', "‘": "'", "’": "'", "≈": "~"}
)  # fmt: skip


class _EncodableStream:
    """A text stream that writes what its encoding has, and something readable in place of what it has not."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        try:
            text.encode(encoding)
        except UnicodeError:
            kept = "".join(c if _encodes(c, encoding) else c.translate(_PLAIN) for c in text)
            text = kept.encode(encoding, "replace").decode(encoding)
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _encodes(character: str, encoding: str) -> bool:
    try:
        character.encode(encoding)
    except UnicodeError:
        return False
    return True


class _Console(Console):
    """Rich's console, but a reader that went away (``| head``) ends the printing, not the program."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        silence_stdout()


def silence_stdout() -> None:
    """Point standard output at the null device, so that Python's last flush does not complain either."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # not a real file: nothing will be flushed to a pipe
        return


def make_console(stream: TextIO | None = None, width: int | None = None) -> Console:
    """A console on ``stream`` (standard output) that cannot fail on a character or a closed pipe.

    Width, colour, NO_COLOR and the legacy Windows console are Rich's to find out.
    """
    target = cast(TextIO, _EncodableStream(stream if stream is not None else sys.stdout))
    return _Console(file=target, width=width, highlight=False, emoji=False)


def print_report(report: Report, files: Sequence[Path] = (), console: Console | None = None) -> None:
    """Print a report.

    Args:
        report: What to print; the codes that nothing was found of are counted in one line, the pictures are left to
            the page.
        files: What was written, named at the end.
        console: From :func:`make_console`; standard output by default.
    """
    console = console or make_console()
    console.print()
    console.print(_verdict(report))
    grave = [f for f in by_severity(report.findings) if f.status is not Status.PASS]
    if grave:
        console.print(_findings(grave, narrow=console.width < NARROW_COLUMNS))
    found = {f.code for f in grave}
    if counts := Counter(f.code for f in passed(report) if f.code not in found):
        codes = ", ".join(code if n == 1 else f"{code} ×{n}" for code, n in counts.items())
        console.print(Text.assemble(("PASS", STYLE[Status.PASS]), f"  looked for and not found: {codes}"))
    for table in filled(report.tables):
        console.print()
        console.print(render_table(table, console))
    if files:
        console.print()
        for path in files:
            # soft_wrap: a path broken over two lines can be neither clicked nor copied
            console.print(Text.assemble(("wrote ", "dim"), str(path)), soft_wrap=True)


def verdict_status(report: Report) -> Status:
    """The colour of the verdict: that of the gravest finding it rests on, or of its own words."""
    if report.verdict.cause == "undecided":
        return Status.UNKNOWN
    if report.verdict.cause == "none_found":
        return Status.PASS
    named = [
        f for f in by_severity(report.findings) if f.code in report.verdict.because and f.status is not Status.PASS
    ]
    return named[0].status if named else Status.FAIL if report.exit_code else Status.WARN


def verdict_title(report: Report) -> str:
    """The verdict in two or three words; where nothing was judged, ``results["done"]`` says what was done instead."""
    words = {"none_found": "no fault found", "undecided": "cannot tell"}
    if report.verdict.cause not in words:
        return f"cause: {report.verdict.cause}"
    return str(report.results.get("done", words[report.verdict.cause]))


def passed(report: Report) -> list[Finding]:
    """The passes to show: not those whose very fault another check found in the same subject."""
    found = {(f.code, f.subject) for f in report.findings if f.status is not Status.PASS}
    return [f for f in report.findings if f.status is Status.PASS and (f.code, f.subject) not in found]


def filled(tables: Sequence[Table]) -> list[Table]:
    """The tables to show: those with rows, and those whose note says why there are none."""
    return [table for table in tables if table.rows or table.note]


def _verdict(report: Report) -> RenderableType:
    style = STYLE[verdict_status(report)]
    first, more = headline(report.verdict.summary)
    lines: list[RenderableType] = [Text(first, style="bold")]
    if more:
        lines.append(_with_commands(Text(), more))
    if report.verdict.because:
        lines.append(Text.assemble(("because  ", "dim"), ", ".join(report.verdict.because)))
    lines += [Text.assemble(("cannot tell  ", "dim"), item) for item in report.verdict.cannot_tell]
    return Panel(
        Group(*lines),
        title=Text(f" {report.command}: {verdict_title(report)} ", style=style),
        title_align="left",
        border_style=style,
        padding=(0, 1),
    )


def _with_commands(before: Text, text: str) -> Text:
    """``text`` after what stands before it, its commands coloured."""
    for is_command, part in fix_parts(text):
        before.append(part, style="cyan" if is_command else "")
    return before


def _findings(findings: Sequence[Finding], narrow: bool) -> RichTable:
    """A grid: status, code, subject, and beside them the summary with evidence and fix below."""
    grid = RichTable.grid(padding=(0, 2, 1, 0))
    grid.add_column(no_wrap=True)
    if not narrow:
        grid.add_column(no_wrap=True)
        grid.add_column(max_width=26, overflow="fold")
    grid.add_column(ratio=1, overflow="fold")
    for finding in findings:
        label = Text(finding.status.value.upper(), style=STYLE[finding.status])
        words: list[RenderableType] = [Text(finding.summary)]
        evidence = evidence_items(finding.evidence)
        if evidence:
            words.append(Text(" · ".join(f"{key} {value}" for key, value in evidence), style="dim"))
        if finding.fix:
            words.append(_with_commands(Text.assemble(("fix  ", "dim")), finding.fix))
        if narrow:
            grid.add_row(label, Group(Text.assemble((finding.code, "bold"), "  ", finding.subject), *words))
        else:
            grid.add_row(label, Text(finding.code, style="bold"), Text(finding.subject), Group(*words))
    return grid


def render_table(table: Table, console: Console) -> RenderableType:
    """A table for ``console``, whose width decides how it is laid out; without rows its note alone."""
    if not table.rows:
        return Text(f"{table.title}: {table.note}")
    cells, numeric = format_columns(table.rows, len(table.columns))
    # Rich would rather fold a joint's name into a pillar of letters than break a heading between two words, so the
    # widths are set here: each column its longest word, then what room is left from the left to the right.
    texts = [(column, *(row[c] for row in cells)) for c, column in enumerate(table.columns)]
    widths = [min(30, max(cell_len(word) for text in column for word in text.split() or [""])) for column in texts]
    room = console.width - (sum(widths) + 3 * len(widths) - 1)  # two spaces and a rule between columns, a rule outside
    if room < 0:
        return _records(table, cells)
    for c, column in enumerate(texts):
        extra = min(room, max(cell_len(text) for text in column) - widths[c])
        widths[c] += extra
        room -= extra
    rich_table = RichTable(
        title=Text(table.title, style="bold"),
        title_justify="left",
        caption=Text(table.note, style="dim") if table.note else None,
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    for heading, right, width in zip(table.columns, numeric, widths, strict=True):
        rich_table.add_column(Text(heading), justify="right" if right else "left", overflow="fold", width=width)
    for row in cells:
        rich_table.add_row(*(Text(cell) for cell in row))
    return rich_table


def _records(table: Table, cells: Sequence[Sequence[str]]) -> RenderableType:
    """A table too wide for the terminal, row by row: the first cell as a heading, the others by name below it."""
    lines: list[RenderableType] = [Text(table.title, style="bold")]
    for row in cells:
        lines.append(Text(row[0], style="bold"))
        pairs = ", ".join(f"{name} {cell}" for name, cell in zip(table.columns[1:], row[1:], strict=True))
        lines.append(Padding(Text(pairs), (0, 0, 0, 2)))
    if table.note:
        lines.append(Text(table.note, style="dim"))
    return Group(*lines)
