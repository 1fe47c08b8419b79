"""Pictures from a robot's cameras: opened alone, without the arm, each with a time limit and a reason when it fails."""

from __future__ import annotations

import contextlib
import os
import platform
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Cause, Finding, Status

OPEN_LIMIT_S = 15.0
"""A USB camera takes 1-3 s, a slow Windows driver up to 10 s; after this it hangs."""
PICTURES = 5
INTERVAL_S = 0.1
"""Enough pictures to see that a camera is frozen, in half a second."""

Reason = tuple[str, str]
"""Why a camera did not open, and what to do."""


def camera_configs(robot: Any) -> dict[str, Any]:
    """A robot config's cameras by their names in its observations: a two-armed robot prefixes those of an arm."""
    found = dict(getattr(robot, "cameras", None) or {})
    for side in ("left", "right"):
        arm = getattr(robot, f"{side}_arm_config", None)
        found |= {f"{side}_{name}": config for name, config in (getattr(arm, "cameras", None) or {}).items()}
    return found


def unstable_indices(configs: Mapping[str, Any]) -> list[Finding]:
    """INDEX_UNSTABLE when two or more cameras are told apart by nothing but the order in which they were plugged in."""
    by_number = {}
    for name, config in configs.items():
        device = getattr(config, "index_or_path", None)
        if isinstance(device, int) or (device is not None and Path(str(device)).name.removeprefix("video").isdigit()):
            by_number[name] = str(device)
    if len(by_number) < 2:
        return []
    devices = ", ".join(f"{name}: {device}" for name, device in by_number.items())
    fix = "lerobot-camera-guard --list=true prints a --robot.cameras line with paths that stay."
    summary = f"{devices}: these numbers change when a camera is plugged in again"
    evidence = {"devices": by_number}
    return [Finding("INDEX_UNSTABLE", Status.WARN, Cause.CAMERAS, ", ".join(by_number), summary, evidence, fix)]


class Opened:
    """Open cameras and the reasons why others are not.

    Args:
        cameras: {name: with ``async_read(timeout_ms)``}.
        failed: {name: why}.
        pictures: How many :meth:`grab` takes of each.
    """

    def __init__(self, cameras: Mapping[str, Any], failed: Mapping[str, Reason], pictures: int = PICTURES) -> None:
        self.cameras = dict(cameras)
        self.failed = dict(failed)
        self.pictures = pictures

    def grab(self, sleep: Callable[[float], None] = time.sleep) -> dict[str, list[NDArray[np.uint8]]]:
        """Some pictures of every camera, oldest first; a camera that stops delivering goes to ``failed``."""
        pictures: dict[str, list[NDArray[np.uint8]]] = {name: [] for name in self.cameras}
        for k in range(self.pictures):
            if k:
                sleep(INTERVAL_S)
            for name, camera in self.cameras.items():
                if name in self.failed:
                    continue
                try:
                    pictures[name].append(np.array(camera.async_read(timeout_ms=1000), np.uint8))
                except Exception as error:  # each camera type has its own
                    self.failed[name] = (f"it opens and delivers no picture ({_line(error)})", _REPLUG)
        return {name: taken for name, taken in pictures.items() if taken and name not in self.failed}


@contextlib.contextmanager
def opened(
    configs: Mapping[str, Any],
    make: Callable[[Mapping[str, Any]], Mapping[str, Any]],
    *,
    limit_s: float = OPEN_LIMIT_S,
    why: Callable[[Any, str], Reason] | None = None,
) -> Iterator[Opened]:
    """Open cameras side by side, wait at most ``limit_s``, close them at the end.

    Args:
        configs: {name: LeRobot's camera config}.
        make: LeRobot's ``make_cameras_from_configs``.
        limit_s: One that takes longer is given up, and its thread left behind: a driver that hangs cannot be stopped.
        why: (config, error text) → reason; :func:`reason_here` by default.
    """
    why = why or reason_here
    cameras: dict[str, Any] = {}
    errors: dict[str, str] = {}

    def connect(name: str) -> None:
        try:
            camera = make({name: configs[name]})[name]
            camera.connect()
            cameras[name] = camera
        except Exception as error:  # each camera type has its own
            errors[name] = _line(error)

    threads = {n: threading.Thread(target=connect, args=(n,), daemon=True, name=f"open {n}") for n in configs}
    for thread in threads.values():
        thread.start()
    until = time.monotonic() + limit_s
    for thread in threads.values():
        thread.join(max(0.0, until - time.monotonic()))
    failed = {
        name: why(configs[name], errors.get(name, f"no answer within {limit_s:.0f} s"))
        for name in configs
        if name not in cameras
    }
    try:
        yield Opened({name: cameras[name] for name in configs if name not in failed}, failed)
    finally:
        for camera in list(cameras.values()):
            with contextlib.suppress(Exception):
                camera.disconnect()


def failures(failed: Mapping[str, Reason]) -> list[Finding]:
    """A finding for each camera that did not open or deliver."""
    return [
        Finding("MISSING_CAMERA", Status.FAIL, Cause.CAMERAS, name, f"{name} gives no picture: {why}", fix=fix)
        for name, (why, fix) in failed.items()
    ]


def nothing_opened(failed: Mapping[str, Reason]) -> UsageError:
    """The error when no camera could be opened: the first one's reason."""
    name, (why, fix) = next(iter(failed.items()))
    return UsageError(f"no camera could be opened. {name}: {why}.", fix)


# ---- why a camera does not open

_REPLUG = "Unplug it and plug it in again; give it a USB port of its own."
_LIST = "lerobot-camera-guard --list=true shows the cameras there are."
_PRIVACY = {
    "Darwin": "System Settings > Privacy & Security > Camera: allow your terminal, then start it again.",
    "Windows": "Settings > Privacy & security > Camera: let desktop apps use it; close other programs that do.",
}


def reason_here(config: Any, error: str) -> Reason:
    """:func:`reason` on this machine."""
    return reason(config, error, system=platform.system(), root=Path("/"), may_use=_may_use)


def reason(config: Any, error: str, *, system: str, root: Path, may_use: Callable[[Path], bool]) -> Reason:
    """Why a camera did not open: missing, forbidden, busy, silent; and what to do about it.

    Args:
        config: LeRobot's camera config.
        error: What opening it said.
        system: ``platform.system()``.
        root: Where ``dev`` and ``proc`` are.
        may_use: Whether this user may read and write a device file.
    """
    if hasattr(config, "server_address"):
        return (
            f"nothing comes from {config.server_address}:{config.port} ({error})",
            "Start the camera server there, or correct server_address and port.",
        )
    device = getattr(config, "index_or_path", None)
    if device is None:
        return error, _REPLUG
    if system != "Linux":
        return f"{device} did not open ({error})", f"{_PRIVACY.get(system, _REPLUG)} {_LIST}"
    path = Path(f"/dev/video{device}" if isinstance(device, int) else str(device))
    there = root / path.relative_to("/") if path.is_absolute() else root / path
    if not there.exists():
        present = ", ".join(sorted(p.name for p in (root / "dev").glob("video*"))) or "none"
        return f"there is no {path} (present: {present})", _LIST
    if not may_use(there):
        return f"no permission to use {path}", "sudo usermod -aG video $USER, then log in again."
    holder = _holder(there.resolve(), root / "proc")
    if holder:
        return f"{path} is in use by {holder}", "Close that program; a camera serves one at a time."
    return f"{path} did not open ({error})", _REPLUG


def _may_use(path: Path) -> bool:
    return os.access(path, os.R_OK | os.W_OK)


def _holder(device: Path, proc: Path) -> str | None:
    """Another process that has a device open: name and id; those of other users cannot be seen."""
    for link in proc.glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if link.resolve() == device and link.parts[-3] != str(os.getpid()):
                name = (link.parent.parent / "comm").read_text(encoding="utf-8").strip()
                return f"{name} (process {link.parts[-3]})"
    return None


def _line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return text[0] if text else type(error).__name__
