"""A report as one HTML page that needs nothing else: pictures inside it, no request to anywhere."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape
from PIL import Image

from lerobot_diagnostics.findings import SEVERITY, Picture, Report, Status, Table, by_severity
from lerobot_diagnostics.report.console import filled, passed, verdict_status, verdict_title
from lerobot_diagnostics.report.format import evidence_items, fix_parts, format_columns, format_value, headline

PAGE_LIMIT_BYTES = 10_000_000
"""A page mails and opens on a phone below this size."""

_MEDIA_TYPES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".svg": "image/svg+xml"}
_FLAG = re.compile(r"--[a-z][\w.]*|\blerobot-[a-z-]*[a-z]")
_JPEG_LADDER = ((1.0, 85), (0.75, 80), (0.5, 75), (0.35, 70), (0.2, 60))
"""(scale, JPEG quality) tried in turn until the pictures fit; even 0.2 of a 1200 px plot still shows its shape."""


@dataclass(frozen=True)
class _Embedded:
    """A picture as the page holds it; ``uri`` is empty when the file cannot be shown, and ``problem`` says why."""

    uri: str
    caption: str
    path: str
    problem: str = ""


def render_html(report: Report, base_dir: Path, limit_bytes: int = PAGE_LIMIT_BYTES) -> str:
    """The page as text.

    Args:
        report: Its pictures' paths are relative to ``base_dir``.
        base_dir: The folder of ``report.json``.
        limit_bytes: The page stays below this; pictures are re-encoded as JPEG, smaller and smaller, to get there,
            and left out (with their file name) when even that does not help.
    """
    # Without pictures, but with as many bytes around each as its caption (twice), path and markup can need.
    bare = {p: _Embedded("", p.caption, p.path, p.caption + 120 * " ") for p in report.pictures}
    page = _render(report, bare)
    room = limit_bytes - len(page.encode("utf-8", "replace"))
    return _render(report, _embed(report.pictures, base_dir, room))


def _flags(text: str) -> Markup:
    """Text whose flags and commands are kept in one piece: a browser breaks a line after any of their dashes."""
    return Markup(_FLAG.sub(r'<span class="flag">\g<0></span>', str(escape(text))))


def _render(report: Report, pictures: Mapping[Picture, _Embedded]) -> str:
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["value"] = format_value
    environment.filters["flags"] = _flags
    environment.globals.update(evidence_items=evidence_items, fix_parts=fix_parts)
    template = environment.from_string(files(__package__).joinpath("page.html.j2").read_text(encoding="utf-8"))
    open_findings = [f for f in by_severity(report.findings) if f.status is not Status.PASS]
    fine = passed(report)
    findings = [*open_findings, *fine]
    sections: dict[str, list[_Embedded]] = {}
    for picture in report.pictures:
        if picture in pictures:
            sections.setdefault(picture.section or "Pictures", []).append(pictures[picture])
    return template.render(
        report=report,
        headline=headline(report.verdict.summary),
        verdict_status=verdict_status(report).value,
        verdict_title=verdict_title(report),
        codes={f.code for f in findings},
        open_findings=open_findings,
        passed=fine,
        counts=[
            (s.value, sum(f.status is s for f in findings))
            for s in sorted(Status, key=SEVERITY.__getitem__)
            if any(f.status is s for f in findings)
        ],
        tables=[_table(table) for table in filled(report.tables)],
        sections=sections,
    )


def _table(table: Table) -> dict[str, Any]:
    cells, numeric = format_columns(table.rows, len(table.columns))
    # A table of statuses (diagnose's ladder) is drawn under the verdict, its statuses as the findings' are.
    status = list(table.columns).index("status") if "status" in table.columns else None
    return {
        "title": table.title, "columns": table.columns, "rows": cells, "numeric": numeric, "note": table.note,
        "status": status,
    }  # fmt: skip


def _embed(pictures: Sequence[Picture], base_dir: Path, room: int) -> dict[Picture, _Embedded]:
    """Every picture as a data URI, together below ``room`` bytes."""
    problems: dict[Picture, str] = {}
    contents: dict[Picture, tuple[str, bytes]] = {}
    for picture in pictures:
        suffix = Path(picture.path).suffix.lower()
        if suffix not in _MEDIA_TYPES:
            problems[picture] = f"a {suffix or 'file without suffix'} is not shown here"
            continue
        try:
            contents[picture] = (_MEDIA_TYPES[suffix], (base_dir / picture.path).read_bytes())
        except OSError as error:
            problems[picture] = error.strerror or str(error)
    originals = dict(contents)
    for step in _JPEG_LADDER:
        if _uri_bytes(contents) <= room:
            break
        contents = {picture: _shrink(*original, *step) for picture, original in originals.items()}
    while contents and _uri_bytes(contents) > room:
        largest = max(contents, key=lambda p: len(contents[p][1]))
        del contents[largest]
        problems[largest] = "left out to keep the page small"
    embedded = {}
    for picture in pictures:
        uri = ""
        if picture in contents:
            media_type, data = contents[picture]
            uri = f"data:{media_type};base64,{base64.b64encode(data).decode('ascii')}"
        embedded[picture] = _Embedded(uri, picture.caption, picture.path, problems.get(picture, ""))
    return embedded


def _uri_bytes(contents: Mapping[Picture, tuple[str, bytes]]) -> int:
    """Base64 makes four characters of three bytes."""
    return sum(-(-len(data) // 3) * 4 + 40 for _, data in contents.values())


def _shrink(media_type: str, data: bytes, scale: float, quality: int) -> tuple[str, bytes]:
    """The picture as JPEG at ``scale``, if that is smaller; an SVG, or what cannot be read, stays as it is."""
    if media_type == "image/svg+xml":
        return media_type, data
    try:
        with Image.open(io.BytesIO(data)) as image:
            size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
            flat = Image.new("RGB", image.size, "white")
            flat.paste(image, mask=image.convert("RGBA").getchannel("A"))
    except (OSError, ValueError):
        return media_type, data
    buffer = io.BytesIO()
    flat.resize(size, Image.Resampling.LANCZOS).save(buffer, "JPEG", quality=quality, optimize=True)
    return ("image/jpeg", buffer.getvalue()) if buffer.tell() < len(data) else (media_type, data)
