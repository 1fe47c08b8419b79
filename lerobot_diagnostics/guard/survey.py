"""Every camera of the machine: a snapshot of each, which recorded view it shows, and the lines to copy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lerobot_diagnostics.findings import Status, Table
from lerobot_diagnostics.guard import devices as listing
from lerobot_diagnostics.guard.devices import Device
from lerobot_diagnostics.vision import Comparer


class Snapshot(NamedTuple):
    """One picture [H, W, 3] uint8 RGB and the frame rate, or why there is none."""

    picture: NDArray[np.uint8] | None
    fps: float
    why: str = ""


class Survey(NamedTuple):
    """What :func:`survey` found: a table, the pictures by the name a camera gets, and lines to copy."""

    table: Table
    pictures: dict[str, NDArray[np.uint8]]
    lines: list[str]


def shows(comparer: Comparer, picture: NDArray[np.uint8]) -> tuple[str | None, str]:
    """Which recorded view one picture shows, None when that is not clear; and that in words."""
    findings = comparer.compare({comparer.names[0]: picture}, geometry=False, light=False)
    mine = [f for f in findings if f.subject == comparer.names[0] and f.code in _TELLING]
    first = next((f for f in mine if f.status is not Status.PASS or f.code == "SWAPPED"), None)
    if first is None:
        return None, "not clear"
    if first.code == "SWAPPED":
        name = str(first.evidence["shows"])
        return name, name
    return None, {"DEAD": "black", "UNKNOWN_VIEW": "none of the recorded views"}.get(first.code, "undecided")


_TELLING = {"DEAD", "UNKNOWN_VIEW", "UNDECIDED", "SWAPPED"}


def survey(
    found: Sequence[Device],
    snapshots: Mapping[int, Snapshot],
    comparer: Comparer | None,
    *,
    linux: bool,
    serial_ports: Sequence[str] = (),
    show: Callable[[Comparer, NDArray[np.uint8]], tuple[str | None, str]] = shows,
) -> Survey:
    """Put together what is known of every camera.

    Args:
        found: From :func:`~lerobot_diagnostics.guard.devices.list_devices`.
        snapshots: By index.
        comparer: What was recorded; without it cameras are named ``cam0``, ``cam1``, …
        linux: Whether udev and v4l2 lines are of use.
        serial_ports: Names in ``/dev/serial/by-path``.
        show: See :func:`shows`.
    """
    paths = listing.stable_paths(found)
    rows: list[list[object]] = []
    named: dict[str, Device] = {}
    pictures, modes = {}, {}
    for device in found:
        shot = snapshots[device.index]
        name, words = None, shot.why
        if shot.picture is not None:
            height, width = shot.picture.shape[:2]
            modes[device.index] = (width, height, shot.fps)
            name, words = show(comparer, shot.picture) if comparer is not None else (None, "")
            name = name if name is not None and name not in named else f"cam{device.index}"
            named[name], pictures[name] = device, shot.picture
        mode = "" if device.index not in modes else "{}x{} at {:.0f}".format(*modes[device.index])
        rows.append([device.index, device.name, str(paths[device.index]), device.unique_id or "", mode, words])
    columns = ["index", "name", "stable path", "unique id", "mode", "shows" if comparer is not None else "note"]
    note = "" if found else "The operating system lists no camera."
    lines = [listing.robot_cameras(named, paths, modes)] if named else []
    unstable = [d for d in named.values() if isinstance(paths[d.index], int)]
    if len(unstable) >= 2:
        lines.append(
            "INDEX_UNSTABLE: here cameras are told apart by number only, and numbers change when one is plugged in "
            "again: run this command after every replugging, and keep the guard in the checkpoint."
        )
    if linux and named:
        lines += ["", "# /etc/udev/rules.d/99-lerobot.rules: names that stay"]
        lines += listing.udev_rules(named, paths, serial_ports)
        lines += ["", "# hold exposure and white balance at what they are while the picture is right"]
        lines += listing.lock_lines(list(named.values()), paths)
    return Survey(Table("Cameras", columns, rows, note), pictures, lines)
