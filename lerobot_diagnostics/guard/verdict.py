"""From findings to a decision: what blocks, what is only said, and the line that says how to mend it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lerobot_diagnostics.camera_names import camera_key
from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Finding, Status, by_severity

BLOCK, WARN, IGNORE = "block", "warn", "ignore"

DEFAULT_ACTIONS: Mapping[str, str] = {
    "SWAPPED": BLOCK,
    "UNKNOWN_VIEW": BLOCK,
    "UNDECIDED": BLOCK,
    "DEAD": BLOCK,
    "FROZEN": BLOCK,
    "MISSING_CAMERA": BLOCK,
    "CHANNELS": BLOCK,
    "ROTATED": BLOCK,
    "MIRRORED": BLOCK,
    "MOVED": WARN,
    "FRAMING": WARN,
    "RESOLUTION": WARN,
    "LIGHTING": WARN,
}
"""What each finding leads to unless the checkpoint says otherwise."""


@dataclass(frozen=True)
class Limits:
    """How much motion and light is only warned of; more blocks.

    The defaults are where the evidence of ``lerobot_diagnostics.vision`` ends: its thresholds were measured under
    motions up to 6 % of the width, 5° and 8 % zoom and light between ×0.5 and ×1.6 (benchmarks/vision.py). Beyond
    those nobody has measured whether a policy, or this guard, still sees what it should.

    Args:
        moved_share: Shift as a share of the picture's width.
        moved_deg: Rotation.
        moved_zoom: Relative change of size.
        light_ratio: Exposure, red and blue between 1/light_ratio and light_ratio.
    """

    moved_share: float = 0.06
    moved_deg: float = 5.0
    moved_zoom: float = 0.08
    light_ratio: float = 2.0

    def exceeded(self, finding: Finding) -> bool:
        """Whether a MOVED or LIGHTING finding is beyond its limit."""
        evidence = finding.evidence
        if finding.code == "MOVED" and "shift_px" in evidence:
            return (
                float(evidence["shift_px"]) > self.moved_share * float(evidence["width_px"])
                or abs(float(evidence["rotation_deg"])) > self.moved_deg
                or abs(float(evidence["zoom"]) - 1) > self.moved_zoom
            )
        if finding.code == "LIGHTING":
            ratios = [float(evidence[k]) for k in ("exposure_ratio", "red_ratio", "blue_ratio") if k in evidence]
            return any(abs(math.log(max(r, 1e-6))) > math.log(self.light_ratio) for r in ratios)
        return False


class Decision(NamedTuple):
    """Findings sorted by what they lead to, the gravest first."""

    block: list[Finding]
    warn: list[Finding]


def checked_actions(actions: Mapping[str, str]) -> dict[str, str]:
    """:data:`DEFAULT_ACTIONS` with changes.

    Raises:
        UsageError: On an unknown code or action.
    """
    for code, action in actions.items():
        if code not in DEFAULT_ACTIONS or action not in (BLOCK, WARN, IGNORE):
            raise UsageError(
                f"--actions: {code}: {action} is not known.",
                f"Codes: {', '.join(DEFAULT_ACTIONS)}; actions: {BLOCK}, {WARN}, {IGNORE}.",
            )
    return {**DEFAULT_ACTIONS, **actions}


def decide(findings: Iterable[Finding], actions: Mapping[str, str], limits: Limits) -> Decision:
    """Which findings block and which are warned of.

    UNDECIDED is blocked as such. Other findings whose status is unknown are one degree milder than the same finding
    established: what would block is warned of, what would be warned of is left out.
    """
    block, warn = [], []
    for finding in by_severity(findings):
        if finding.status in (Status.PASS, Status.INFO):
            continue
        action = actions.get(finding.code, WARN)
        if action == IGNORE:
            continue
        if finding.status is Status.UNKNOWN and finding.code != "UNDECIDED":
            if action == BLOCK:
                warn.append(finding)
        elif action == BLOCK or limits.exceeded(finding):
            block.append(finding)
        else:
            warn.append(finding)
    return Decision(block, warn)


def verdict(block: Sequence[Finding]) -> tuple[str, str]:
    """(what is wrong, how to mend it), one line each, of findings that block; exchanged cameras come first."""
    shown = {f.subject: str(f.evidence["shows"]) for f in block if f.code == "SWAPPED"}
    if shown and set(shown) == set(shown.values()):
        from lerobot_diagnostics.vision.views import swap_fix  # heavy, and loaded by whoever found a swap

        what = ", ".join(f"{name} shows the view recorded as {shows}" for name, shows in shown.items())
        mapping = json.dumps({camera_key(name): camera_key(shows) for name, shows in shown.items()})
        fix = (
            swap_fix(*shown, mutual=True)
            if len(shown) == 2
            else f"Give each name its device back in --robot.cameras, or pass --rename_map='{mapping}'."
        )
        return f"SWAPPED: {what}.", fix
    first = block[0]
    fix = first.fix
    if first.code == "UNDECIDED":
        fix += (
            " lerobot-camera-guard --policy.path=<this one> --robot.cameras=<the same> --cover_test=true decides "
            'it; views this alike need --attach_to=<new folder> --actions="{UNDECIDED: warn}".'
        )
    return f"{first.code}: {first.summary}.", fix.strip()


def refusal_text(block: Sequence[Finding]) -> str:
    """All that blocks, a line each, and the verdict with its mending flag as the last line."""
    what, fix = verdict(block)
    lines = ["the pictures are not those this policy was trained on; no action was computed."]
    lines += [f"  {f.code}: {f.summary}" for f in block]
    return "\n".join([*lines, f"camera-swap guard: {what} {fix}".strip()])
