"""The cameras as the operating system sees them, and the lines that keep them apart for good.

Everything here is text in, text out: what the system says comes from :func:`list_devices`, which a test replaces.
"""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MACOS = ("system_profiler", "-json", "SPCameraDataType")
WINDOWS = (
    "powershell",
    "-NoProfile",
    "-Command",
    "Get-CimInstance Win32_PnPEntity | Where-Object PNPClass -in 'Camera','Image' | "
    "Select-Object Name,DeviceID | ConvertTo-Json -Compress",
)
COMMAND_LIMIT_S = 15.0


@dataclass(frozen=True)
class Device:
    """One camera.

    Args:
        index: What ``index_or_path`` may be as a number; it changes with the order of plugging in.
        name: The product's name.
        by_id, by_path: Linux's stable links: by serial number, by USB port. None where there is none.
        unique_id: What macOS and Windows tell two cameras of one kind apart by.
    """

    index: int
    name: str
    by_id: str | None = None
    by_path: str | None = None
    unique_id: str | None = None


def run(command: Sequence[str]) -> str:
    """A system command's output, empty when it cannot be run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def list_devices(
    system: str | None = None, root: Path = Path("/"), run: Callable[[Sequence[str]], str] = run
) -> list[Device]:
    """All cameras of this machine, in the order of their indices.

    Args:
        system: ``platform.system()``.
        root: Where Linux's ``dev`` and ``sys`` are.
        run: Runs a system command and returns its output (macOS, Windows).
    """
    system = system or platform.system()
    if system == "Linux":
        return linux_devices(root)
    if system == "Darwin":
        return macos_devices(run(MACOS))
    return windows_devices(run(WINDOWS))


def linux_devices(root: Path) -> list[Device]:
    """From ``/sys/class/video4linux`` and ``/dev/v4l``. A camera's further nodes (metadata) are left out."""
    links = {kind: _links(root / "dev/v4l" / kind) for kind in ("by-id", "by-path")}
    found = []
    for node in (root / "sys/class/video4linux").glob("video*"):
        number = node.name.removeprefix("video")
        if not number.isdigit() or _text(node / "index") not in ("0", ""):
            continue
        by_id, by_path = (links[kind].get(node.name) for kind in ("by-id", "by-path"))
        found.append(Device(int(number), _text(node / "name") or node.name, by_id, by_path))
    return sorted(found, key=lambda device: device.index)


def _links(folder: Path) -> dict[str, str]:
    """{device file's name: the link to it}, the first in alphabetical order where there are several."""
    found: dict[str, str] = {}
    for link in sorted(folder.glob("*")) if folder.is_dir() else []:
        found.setdefault(link.readlink().name, f"/dev/v4l/{folder.name}/{link.name}")
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def macos_devices(text: str) -> list[Device]:
    """From ``system_profiler -json SPCameraDataType``. OpenCV numbers cameras in the order of their unique ids."""
    cameras = _parsed(text).get("SPCameraDataType", [])
    ordered = sorted(cameras, key=lambda camera: str(camera.get("spcamera_unique-id", "")))
    return [
        Device(i, str(camera.get("_name", "camera")), unique_id=camera.get("spcamera_unique-id"))
        for i, camera in enumerate(ordered)
    ]


def windows_devices(text: str) -> list[Device]:
    """From Windows' list of plug-and-play devices; its order is usually, not surely, that of OpenCV's indices."""
    try:
        listed = json.loads(text)
    except ValueError:
        return []
    return [
        Device(i, str(camera.get("Name", "camera")), unique_id=camera.get("DeviceID"))
        for i, camera in enumerate(listed if isinstance(listed, list) else [listed])
    ]


def _parsed(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def stable_paths(devices: Sequence[Device]) -> dict[int, str | int]:
    """{index: what to write as ``index_or_path``}: by-id where serial numbers differ, else by-path, else the index.

    Identical cameras without serial numbers share one by-id link, which then leads to whichever came last.
    """
    chosen: dict[int, str | int] = {}
    for device in devices:
        alike = [d for d in devices if d.name == device.name]
        serials = all(d.by_id for d in alike)
        chosen[device.index] = (device.by_id if serials else None) or device.by_path or device.index
    return chosen


def robot_cameras(
    devices: Mapping[str, Device], paths: Mapping[int, str | int], modes: Mapping[int, tuple[int, int, float]]
) -> str:
    """The ready-made flag, ``{camera name: device}`` with (width, height, fps) by index."""
    parts = []
    for name, device in devices.items():
        width, height, fps = modes[device.index]
        parts.append(
            f"{name}: {{type: opencv, index_or_path: {paths[device.index]}, "
            f"width: {width}, height: {height}, fps: {round(fps)}}}"
        )
    return f'--robot.cameras="{{{", ".join(parts)}}}"'


def udev_rules(devices: Mapping[str, Device], paths: Mapping[int, str | int], serial_ports: Sequence[str]) -> list[str]:
    """Lines for ``/etc/udev/rules.d/99-lerobot.rules`` that give cameras and arms names of their own.

    Args:
        devices: {camera name: device}.
        paths: From :func:`stable_paths`.
        serial_ports: Names in ``/dev/serial/by-path``: the arms' adapters, whose serial numbers are often identical.
    """
    rules = []
    for name, device in devices.items():
        link = str(paths[device.index])
        key = "ID_SERIAL" if "/by-id/" in link else "ID_PATH"
        value = Path(link).name.removesuffix("-video-index0")
        if key == "ID_SERIAL":
            value = value.removeprefix("usb-")
        if link.startswith("/dev/v4l/"):
            rules.append(
                f'SUBSYSTEM=="video4linux", ATTR{{index}}=="0", ENV{{{key}}}=="{value}", SYMLINK+="cam_{name}"'
            )
    for k, port in enumerate(sorted(serial_ports)):
        rules.append(f'SUBSYSTEM=="tty", ENV{{ID_PATH}}=="{port.removesuffix("-port0")}", SYMLINK+="arm_{k}"')
    return rules


def lock_lines(devices: Sequence[Device], paths: Mapping[int, str | int]) -> list[str]:
    """``v4l2-ctl`` lines that hold exposure and white balance: read while the picture is right, then set."""
    lines = []
    for device in devices:
        path = paths[device.index] if isinstance(paths[device.index], str) else f"/dev/video{device.index}"
        lines += [
            f"v4l2-ctl -d {path} --get-ctrl=exposure_time_absolute,white_balance_temperature",
            f"v4l2-ctl -d {path} --set-ctrl=auto_exposure=1,white_balance_automatic=0",
            f"v4l2-ctl -d {path} --set-ctrl=exposure_time_absolute=<that>,white_balance_temperature=<that>",
        ]
    return lines
