"""Where a report goes and how it gets there: whole or not at all, and never over somebody's files."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Report
from lerobot_diagnostics.report.html import render_html

DEFAULT_ROOT = Path("outputs/diagnostics")


class ReportFiles(NamedTuple):
    """The files of a written report."""

    json: Path
    html: Path


def prepare_output_dir(
    path: str | Path | None, command: str, *, now: Callable[[], datetime] = datetime.now, root: Path = DEFAULT_ROOT
) -> Path:
    """Make the folder a command writes to, and prove that it can be written to.

    Args:
        path: What the user gave as ``--output_dir``; None for ``outputs/diagnostics/<date>/<time>_<command>``.
        command: The command's name; the leading ``lerobot-`` is left out of the folder's name.
        now: The clock.
        root: Where default folders go.

    Returns:
        An existing, empty, writable folder.

    Raises:
        UsageError: When the folder is not empty, a file is in the way, or the place cannot be written to.
    """
    folder = _choose(path, command, now, root)
    check_output_dir(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise _unwritable(folder, error) from error
    return folder


@contextmanager
def output_dir(path: str | Path | None, command: str) -> Iterator[Path]:
    """:func:`prepare_output_dir`; if nothing was written into the folder, it is gone afterwards."""
    folder = _choose(path, command, datetime.now, DEFAULT_ROOT)
    new = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        yield prepare_output_dir(folder, command)
    finally:
        with suppress(OSError):  # the first that holds something stays, and so do those above it
            for each in new:
                each.rmdir()


def _choose(path: str | Path | None, command: str, now: Callable[[], datetime], root: Path) -> Path:
    """The folder asked for, or the default one that nobody has yet."""
    if path is not None:
        return Path(path).expanduser()
    start = now()
    day, name = f"{start:%Y-%m-%d}", f"{start:%H-%M-%S}_{command.removeprefix('lerobot-')}"
    candidates = (root / day / (name if n == 1 else f"{name}_{n}") for n in range(1, 1000))
    return next(c for c in candidates if not c.exists())


def check_output_dir(folder: Path) -> None:
    """Refuse a folder that is in use, and make nothing.

    Raises:
        UsageError: When the folder is not empty or cannot be read, or a file is in the way.
    """
    try:
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"{folder} is a file.", "Give a new folder as --output_dir.")
        if folder.is_dir() and any(folder.iterdir()):
            raise UsageError(
                f"output folder {folder} exists and is not empty; nothing was overwritten.",
                "Give a new folder as --output_dir.",
            )
    except OSError as error:
        raise _unwritable(folder, error) from error


def _unwritable(folder: Path, error: OSError) -> UsageError:
    reason = error.strerror or str(error)
    where = f" ({error.filename})" if error.filename and Path(str(error.filename)) != folder else ""
    return UsageError(f"cannot write to {folder}: {reason}{where}.", "Give another folder as --output_dir.")


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """A temporary name beside ``path`` to write to; renamed to ``path`` at the end, removed after an error.

    The temporary name keeps the suffix, from which libraries choose the format.

    Raises:
        UsageError: When the place cannot be written to (full, read-only, a file in the way).
    """
    temporary = path.with_name(f".{path.stem}.{os.getpid()}.tmp{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        temporary.replace(path)
    except OSError as error:
        raise _unwritable(path.parent, error) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def file_name(*parts: object) -> str:
    """Parts joined to a file name that every operating system takes: ``observation.images.top`` keeps its dots."""
    return "_".join(re.sub(r"[^A-Za-z0-9.=+-]+", "-", str(part)).strip("-.") for part in parts)


def write_report(report: Report, output_dir: Path) -> ReportFiles:
    """Write ``report.json``, then ``report.html`` (pictures embedded), each whole or not at all.

    Args:
        report: Its pictures' paths are relative to ``output_dir``.
        output_dir: A folder from :func:`prepare_output_dir`. A report that this run wrote there before is replaced.

    Raises:
        UsageError: When the place cannot be written to.
    """
    files = ReportFiles(output_dir / "report.json", output_dir / "report.html")
    with atomic_file(files.json) as temporary:
        # A path that is not UTF-8 arrives as lone surrogates; "\\udc80" is how JSON spells one.
        temporary.write_text(report.to_json() + "\n", encoding="utf-8", errors="backslashreplace")
    page = render_html(report, output_dir)
    with atomic_file(files.html) as temporary:
        temporary.write_text(page, encoding="utf-8", errors="replace")
    return files
