"""The record of one alignment: its pictures, its ``.rrd`` and its report, in the output folder."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lerobot_diagnostics.align import overlay
from lerobot_diagnostics.align.loop import Ending, Outcome, Shown
from lerobot_diagnostics.align.misalignment import Misalignment, Tolerance, findings
from lerobot_diagnostics.findings import Cause, Finding, Picture, Report, Status, Verdict, by_severity
from lerobot_diagnostics.report.versions import collect_versions
from lerobot_diagnostics.report.write import atomic_file, write_report


class Session:
    """Collects what happens and writes it.

    Args:
        folder: From ``prepare_output_dir``.
        command: What the user ran.
        inputs: Flags and what they led to.
        tolerance: The target band.
        strict: Whether what is outside it fails.

    Attributes:
        checks: Findings before the loop.
        outcome: How the loop ended, once it has.
        jump: Why the hand-over was refused, if it was.
        timings: Seconds by phase.
    """

    def __init__(
        self, folder: Path, *, command: str, inputs: Mapping[str, Any], tolerance: Tolerance, strict: bool
    ) -> None:
        self.folder, self._command, self._inputs = folder, command, dict(inputs)
        self._tolerance, self._strict = tolerance, strict
        self.checks: list[Finding] = []
        self.outcome: Outcome | None = None
        self.jump: Finding | None = None
        self.timings: dict[str, float] = {}

    def findings(self) -> list[Finding]:
        """All so far."""
        result = list(self.checks)
        if self.outcome is not None and self.outcome.last is not None:
            judged = self.outcome.ending in (Ending.CONFIRMED, Ending.COUNTED_DOWN)
            required = (self._strict and judged) or self.outcome.ending is Ending.TIMED_OUT
            measured = list(self.outcome.last.measured.values())
            result += findings(measured, self._tolerance, required=required)
            result += _pose_findings(self.outcome.last, required=required)
        return [*result, self.jump] if self.jump is not None else result

    def report(self) -> Report:
        """The report so far."""
        all_findings = self.findings()
        outcome = self.outcome
        results: dict[str, Any] = {}
        pictures = []
        if outcome is not None:
            results = {"ending": str(outcome.ending), "aligned": outcome.aligned, "fps": outcome.fps}
            for name, shown in (("start", outcome.first), ("end", outcome.last)):
                if shown is not None:
                    results[name] = {camera: _numbers(m) for camera, m in shown.measured.items()}
            pictures = [
                Picture(f"align_{name}.png", f"{name}: live, recorded, overlay, difference", "overlay")
                for name in ("start", "end")
                if (self.folder / f"align_{name}.png").is_file()
            ]
        return Report(
            self._command,
            _verdict(all_findings, outcome),
            all_findings,
            self._inputs,
            collect_versions(),
            self.timings,
            results,
            pictures=pictures,
        )

    def write(self) -> None:
        """Write pictures and report; what this session wrote there before is replaced.

        Raises:
            UsageError: The place cannot be written to.
        """
        if self.outcome is not None:
            for name, shown in (("start", self.outcome.first), ("end", self.outcome.last)):
                if shown is not None and shown.reference is not None:
                    sheet = overlay.sheet(shown.pictures, shown.reference.pictures)
                    with atomic_file(self.folder / f"align_{name}.png") as temporary:
                        temporary.write_bytes(overlay.encode_png(sheet))
        write_report(self.report(), self.folder)

    @contextlib.contextmanager
    def rrd(self, save: bool) -> Iterator[Any]:
        """A Rerun recording stream into ``align.rrd``, or None."""
        if not save:
            yield None
            return
        import rerun as rr

        with atomic_file(self.folder / "align.rrd") as temporary:
            stream = rr.RecordingStream("lerobot_diagnostics")
            stream.set_sinks(rr.FileSink(str(temporary)))
            try:
                yield stream
            finally:
                stream.flush()
                stream.disconnect()  # closes the file: only then may it get its name


def _numbers(m: Misalignment) -> dict[str, Any]:
    return {
        "dx_px": m.motion.dx_px,
        "dy_px": m.motion.dy_px,
        "rotation_deg": m.motion.rotation_deg,
        "zoom": m.motion.scale,
        "confidence": m.motion.confidence,
    }


def _pose_findings(shown: Shown, *, required: bool) -> list[Finding]:
    """START_JUMP for the arm's distance from the recorded start, where it is known."""
    off = Status.FAIL if required else Status.WARN
    result = []
    for line in shown.lines:
        if line.subject == "arm":
            status = Status.PASS if line.ok else off
            fix = "" if line.ok else "Pass --strategy.go_to_start=true."
            result.append(Finding("START_JUMP", status, Cause.WORKSPACE, "arm", f"arm: {line.text}", {}, fix))
    return result


def _verdict(all_findings: Sequence[Finding], outcome: Outcome | None) -> Verdict:
    unknown = [f.summary for f in all_findings if f.status is Status.UNKNOWN]
    grave = by_severity([f for f in all_findings if f.status in (Status.FAIL, Status.WARN)])
    if grave:
        codes = list(dict.fromkeys(f.code for f in grave))
        return Verdict(str(grave[0].cause), grave[0].summary, codes, unknown)
    if outcome is None or not outcome.aligned:
        return Verdict("undecided", "the alignment was not finished", [], unknown)
    return Verdict("none_found", "cameras, base and objects are where they were in the recording", [], unknown)
