"""Versions of the packages that decide what a run measured, read from their metadata without importing them."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

DISTRIBUTIONS = (
    "lerobot-diagnostics",
    "lerobot",
    "torch",
    "torchvision",
    "torchcodec",
    "av",
    "opencv-python-headless",
    "opencv-python",  # not ours: two owners of cv2 are worth seeing in a report
    "numpy",
    "rerun-sdk",
)


def collect_versions() -> dict[str, str]:
    """Installed versions by distribution name, then ``python`` and ``platform``; what is not installed is left out."""
    found: dict[str, str] = {}
    for name in DISTRIBUTIONS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return {**found, "python": platform.python_version(), "platform": platform.platform()}
