"""The cover test: what pictures cannot decide, a hand over the lens does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from lerobot_diagnostics.findings import Cause, Finding, Status
from lerobot_diagnostics.vision.views import swap_fix

DARK = 0.5
LIT = 0.75
"""A covered camera's brightness falls below half (a hand lets through a tenth; automatic exposure gives some back), the
others' stay above three quarters (they may see the hand)."""

Pictures = Mapping[str, Sequence[NDArray[np.uint8]]]


def darkened(before: Pictures, after: Pictures) -> tuple[str | None, dict[str, float]]:
    """The one camera that has become dark, None when it is not exactly one; and every camera's ratio of brightness."""
    ratios = {
        name: (float(np.mean(after[name][-1])) + 1.0) / (float(np.mean(before[name][-1])) + 1.0)
        for name in before
        if name in after
    }
    dark = [name for name, ratio in ratios.items() if ratio < DARK]
    others_lit = all(ratio > LIT for name, ratio in ratios.items() if name not in dark)
    return (dark[0] if len(dark) == 1 and others_lit else None), ratios


def cover_test(
    cameras: Sequence[str], grab: Callable[[], Pictures], ask: Callable[[str], object], attempts: int = 3
) -> list[Finding]:
    """Have the user cover each camera in turn and see which picture darkens.

    Args:
        cameras: Recorded names to decide.
        grab: Current pictures, {live camera: [..., [H, W, 3] uint8 RGB]}.
        ask: Shows a text and returns when the user has pressed ENTER.
        attempts: Tries a camera.

    Returns:
        A SWAPPED finding a camera: ``pass`` when the camera of that name darkened, ``fail`` when another did,
        ``unknown`` when none or several did.
    """
    findings = []
    for camera in cameras:
        which: str | None = None
        ratios: dict[str, float] = {}
        for _ in range(attempts):
            ask(f"Leave every camera free, then press ENTER. (Next: {camera})")
            before = grab()
            ask(f"Cover the camera that was {camera} in the recording with your hand, keep it there, press ENTER.")
            which, ratios = darkened(before, grab())
            if which is not None:
                break
        evidence = {"shows": None, "brightness_ratio": ratios}
        if which is None:
            summary = f"{camera}: not exactly one picture darkened when it was covered"
            fix = "Cover the lens fully, with nothing in front of the others, and run the test again."
            findings.append(Finding("SWAPPED", Status.UNKNOWN, Cause.CAMERAS, camera, summary, evidence, fix))
        elif which == camera:
            summary = f"{camera} is the camera that was covered (brightness ×{ratios[camera]:.2f})"
            findings.append(
                Finding("SWAPPED", Status.PASS, Cause.CAMERAS, camera, summary, {**evidence, "shows": camera})
            )
        else:
            summary = f"{which} darkened when the recorded {camera} was covered (brightness ×{ratios[which]:.2f})"
            fix = swap_fix(which, camera, mutual=False)
            # The subject is the live camera, as in every SWAPPED finding: it shows the recorded one that was covered.
            findings.append(
                Finding("SWAPPED", Status.FAIL, Cause.CAMERAS, which, summary, {**evidence, "shows": camera}, fix)
            )
    return findings
