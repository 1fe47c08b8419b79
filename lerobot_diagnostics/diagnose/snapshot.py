"""What the setup is, kept while it works: cameras, calibration, registers, versions, a picture of each view.

A snapshot is a folder: ``snapshot.json`` and a PNG a camera. It is read from the robot, nothing is written to it, and
nothing leaves the machine.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from lerobot_diagnostics.diagnose.live import Arm, LiveRobot, Picture, settled
from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Cause, Finding, Status, Table
from lerobot_diagnostics.report.write import atomic_file, file_name
from lerobot_diagnostics.robot import calibration as calibrations
from lerobot_diagnostics.vision import Comparer, ReferenceViews, is_dead

SCHEMA = 1
FILE = "snapshot.json"

REGISTERS = (
    "Firmware_Major_Version", "Firmware_Minor_Version", "Operating_Mode", "P_Coefficient", "I_Coefficient",
    "D_Coefficient", "Max_Torque_Limit", "Torque_Limit", "Protection_Current", "Overload_Torque", "Protection_Time",
    "Acceleration", "Maximum_Acceleration", "Return_Delay_Time", "Max_Voltage_Limit", "Min_Voltage_Limit",
)  # fmt: skip
"""Of Feetech servos; what a motor does not have is left out."""

CAMERA_SETTINGS = {
    "exposure": "CAP_PROP_EXPOSURE", "auto_exposure": "CAP_PROP_AUTO_EXPOSURE", "gain": "CAP_PROP_GAIN",
    "white_balance_k": "CAP_PROP_WB_TEMPERATURE", "auto_white_balance": "CAP_PROP_AUTO_WB",
    "focus": "CAP_PROP_FOCUS", "autofocus": "CAP_PROP_AUTOFOCUS", "zoom": "CAP_PROP_ZOOM",
}  # fmt: skip

IDENTITY = ("type", "index_or_path", "serial_number_or_name", "server_address", "port", "camera_name")
MODE = ("width", "height", "fps", "color_mode", "rotation", "fourcc")

TRIES = 3
"""More readings after one that failed."""

REST_DEG = 3.0
"""Degrees (or units) within which a joint stands where it stood; servos at P = 16 stand 2–3° off their goal."""


def take(
    live: LiveRobot, versions: Mapping[str, str], folder: Path, now: Callable[[], datetime] = datetime.now
) -> dict[str, Any]:
    """Read a snapshot and write its pictures.

    Args:
        live: The robot, open for reading.
        versions: Installed versions.
        folder: Where the pictures go.
        now: The clock.
    """
    reading = live.read()
    for _ in range(TRIES):
        if not reading.failed:
            break
        reading = live.read()
    cameras = {}
    for name in sorted({*reading.pictures, *live.cameras}):
        cameras[name] = _camera(live.cameras.get(name))
        picture = reading.pictures.get(name)
        if picture is not None:
            cameras[name]["picture"] = f"{file_name(name)}.png"
            cameras[name]["size"] = [int(picture.shape[1]), int(picture.shape[0])]
            with atomic_file(folder / cameras[name]["picture"]) as temporary:
                Image.fromarray(picture).save(temporary)
    return {
        "schema": SCHEMA,
        "taken": now().isoformat(timespec="seconds"),
        "robot": {"type": str(live.robot.name), "id": live.robot.id},
        "versions": dict(versions),
        "joints": {name: round(value, 3) for name, value in reading.joints.items()},
        "arms": {arm.prefix: _arm(arm) for arm in live.arms},
        "cameras": cameras,
        "failed": {**live.dead_cameras, **reading.failed},
    }


def save(snapshot: Mapping[str, Any], folder: Path) -> Path:
    """Write ``snapshot.json``."""
    path = folder / FILE
    with atomic_file(path) as temporary:
        temporary.write_text(json.dumps(snapshot, indent=2) + "\n", encoding="utf-8")
    return path


def file_of(path: str | Path) -> Path:
    """``snapshot.json``, given as itself or by its folder."""
    file = Path(path).expanduser()
    return file / FILE if file.is_dir() else file


def load(path: str | Path) -> tuple[dict[str, Any], dict[str, Picture]]:
    """A snapshot and its pictures.

    Args:
        path: ``snapshot.json`` or its folder.

    Raises:
        UsageError: If it is not there or is no snapshot.
    """
    file = file_of(path)
    fix = "Give the snapshot.json that lerobot-setup-snapshot wrote."
    try:
        snapshot = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror or error}.", fix) from error
    except ValueError as error:
        raise UsageError(f"{file} is not JSON: {error}.", fix) from error
    if not isinstance(snapshot, dict) or snapshot.get("schema") != SCHEMA:
        raise UsageError(f"{file} is no setup snapshot.", fix)
    pictures = {}
    for name, camera in snapshot["cameras"].items():
        picture = file.parent / str(camera.get("picture", ""))
        if picture.is_file():
            with Image.open(picture) as image:
                pictures[name] = np.array(image.convert("RGB"))
    return snapshot, pictures


def _arm(arm: Arm) -> dict[str, Any]:
    file = getattr(arm.part, "calibration", None) or {}
    registers: dict[str, dict[str, int]] = {}
    for name in arm.answering:
        for register in REGISTERS:
            value = settled(functools.partial(arm.bus.read, register, name, normalize=False, num_retry=2))
            if value is not None:
                registers.setdefault(name, {})[register] = int(value)
    motors = (settled(arm.bus.read_calibration) if not arm.silent else None) or {}
    return {
        "port": str(arm.bus.port),
        "calibration_file": str(arm.part.calibration_fpath),
        "calibration": {name: dataclasses.asdict(entry) for name, entry in file.items()},
        "motors": {name: dataclasses.asdict(entry) for name, entry in motors.items()},
        "registers": registers,
    }


def _camera(camera: Any) -> dict[str, Any]:
    config = getattr(camera, "config", None)
    values = {key: _plain(value) for key, value in vars(config).items()} if config is not None else {}
    values["type"] = str(getattr(config, "type", ""))
    capture = getattr(camera, "videocapture", None)
    settings = {}
    if capture is not None:
        import cv2

        settings = {name: float(capture.get(getattr(cv2, key))) for name, key in CAMERA_SETTINGS.items()}
    return {
        "identity": {key: values[key] for key in IDENTITY if values.get(key) not in (None, "")},
        "links": _links(values.get("index_or_path")),
        "mode": {key: values[key] for key in MODE if values.get(key) is not None},
        "settings": settings,
    }


def _links(device: Any) -> list[str]:
    """Linux' lasting names of a video device: by-id and by-path."""
    number = f"/dev/video{device}" if isinstance(device, int) else str(device)
    folders = (Path("/dev/v4l/by-id"), Path("/dev/v4l/by-path"))
    links = [link for folder in folders if folder.is_dir() for link in sorted(folder.iterdir())]
    return [str(link) for link in links if link.resolve() == Path(number).resolve()]


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)


def diff(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    pictures_before: Mapping[str, Picture],
    pictures_after: Mapping[str, Picture],
) -> tuple[list[Finding], list[Table]]:
    """What has changed between two snapshots, in words with numbers.

    Args:
        before, after: From :func:`take` or :func:`load`.
        pictures_before, pictures_after: By camera.
    """
    findings: list[Finding] = []
    for prefix, old in before["arms"].items():
        new = after["arms"].get(prefix)
        if new is None:
            fix = "Compare snapshots of the same --robot.type."
            summary = f"Arm {prefix or 'of the snapshot'} is not there now."
            findings.append(Finding("BUS_ERRORS", Status.FAIL, Cause.MOTORS, prefix or "arm", summary, {}, fix))
            continue
        findings += _arm_changes(prefix, old, new)
    findings += _pose(before["joints"], after["joints"])
    findings += _camera_changes(before["cameras"], after["cameras"])
    both = {name: picture for name, picture in pictures_after.items() if name in pictures_before}
    if both:
        findings += _views(both, pictures_before, before["joints"], after["joints"])
    return findings, _tables(before, after)


def _views(
    live: Mapping[str, Picture],
    reference: Mapping[str, Picture],
    joints_before: Mapping[str, float],
    joints_after: Mapping[str, float],
) -> list[Finding]:
    """The pictures compared; where the arm stands as it stood, so do cameras on it."""
    names = [name for name in joints_before if name in joints_after]
    pose = np.array([joints_before[name] for name in names])
    now = np.array([joints_after[name] for name in names])
    same = bool(names) and bool((np.abs(now - pose) <= REST_DEG).all())
    views = ReferenceViews(
        {
            name: ReferenceViews.build({name: [picture]}, states=pose[None], episodes=[0]).cameras[name]
            for name, picture in reference.items()
            if not is_dead(picture)
        }
    )
    return Comparer(views, "snapshot").compare(live, state=now if same else None) if views.cameras else []


def _arm_changes(prefix: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Finding]:
    findings: list[Finding] = []
    for what, said in (("calibration", "calibration file"), ("motors", "motors")):
        if old[what] and new[what]:
            changed = calibrations.compare(old[what], new[what])
            findings += [
                dataclasses.replace(f, subject=f"{prefix}{f.subject} ({said})", summary=f"{said}: {f.summary}")
                for f in changed
            ]
        elif old[what]:
            summary = f"{said}: cannot be read now, was there in the snapshot."
            findings.append(Finding("ZERO_CHANGED", Status.UNKNOWN, Cause.CALIBRATION, f"{prefix}{said}", summary, {}))
    changes = [
        (name, register, value, new["registers"][name][register])
        for name, registers in old["registers"].items()
        for register, value in registers.items()
        if new["registers"].get(name, {}).get(register, value) != value
    ]
    for name, register, was, now in changes:
        summary = f"{prefix}{name}: {register} was {was}, is {now}."
        fix = "LeRobot sets its own gains on connecting; other tools and firmware updates change the rest."
        evidence = {"register": register, "before": was, "after": now}
        findings.append(Finding("TRACKING", Status.WARN, Cause.MOTORS, f"{prefix}{name}", summary, evidence, fix))
    lost = [name for name in old["registers"] if name not in new["registers"]]
    if lost:
        summary = f"{', '.join(lost)} answered then and {'does' if len(lost) == 1 else 'do'} not now."
        fix = "Check power and cables."
        findings.append(Finding("BUS_ERRORS", Status.FAIL, Cause.MOTORS, f"{prefix}{lost[0]}", summary, {}, fix))
    if not changes and not lost:
        summary = "The servos' registers are as they were."
        findings.append(Finding("TRACKING", Status.PASS, Cause.MOTORS, f"{prefix}servos", summary))
    return findings


def _pose(before: Mapping[str, float], after: Mapping[str, float]) -> list[Finding]:
    moved = {name: after[name] - value for name, value in before.items() if name in after}
    away = {name: change for name, change in moved.items() if abs(change) > REST_DEG}
    if not away:
        return []
    said = ", ".join(f"{name} by {change:+.1f}" for name, change in away.items()).replace("-", "−")
    summary = (
        f"The arm stands elsewhere than in the snapshot: {said}. In the same rest pose this would be a moved zero."
    )
    return [Finding("JOINT_OFFSET", Status.INFO, Cause.CALIBRATION, "pose", summary, dict(away))]


def _camera_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Finding]:
    findings = []
    for name, old in before.items():
        new = after.get(name)
        if new is None:
            summary = f"{name} is not there now."
            fix = "Check its cable, and --robot.cameras."
            findings.append(Finding("MISSING_CAMERA", Status.FAIL, Cause.CAMERAS, name, summary, {}, fix))
            continue
        for what, code, cause, said in (
            ("identity", "INDEX_UNSTABLE", Cause.CAMERAS, "is another device"),
            ("mode", "RESOLUTION", Cause.CAMERAS, "runs in another mode"),
            ("settings", "LIGHTING", Cause.LIGHTING, "has other settings"),
        ):
            changes = _differences(old[what], new[what])
            if what == "identity" and old["links"] and old["links"] == new["links"]:
                continue  # another number, the same plug
            if what == "mode" and old.get("size") and new.get("size") and old["size"] != new["size"]:
                changes["picture"] = ("×".join(map(str, old["size"])), "×".join(map(str, new["size"])))
            if changes:
                text = ", ".join(f"{key} was {was}, is {now}" for key, (was, now) in changes.items())
                fix = f"Set {name} in --robot.cameras as it was."
                evidence = {key: f"{was} → {now}" for key, (was, now) in changes.items()}
                summary = f"{name} {said}: {text}."
                findings.append(Finding(code, Status.WARN, cause, name, summary, evidence, fix))
    return findings


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {key: (value, new[key]) for key, value in old.items() if key in new and new[key] != value}


def _tables(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Table]:
    changed = _differences(before["versions"], after["versions"])
    rows: list[Sequence[Any]] = [[name, was, now] for name, (was, now) in changed.items()]
    when = f"snapshot of {before['taken']}, now {after['taken']}"
    return [Table("Versions that changed", ["package", "then", "now"], rows, when)] if rows else []


def restore(snapshot: Mapping[str, Any], robot_id: str | None = None) -> list[tuple[Path, str]]:
    """Write the snapshot's calibration as *new* files beside those it came from; nothing is overwritten.

    Args:
        snapshot: From :func:`load`.
        robot_id: ``--robot.id``; the snapshot's by default.

    Returns:
        Each file, with the id that makes LeRobot find it.

    Raises:
        UsageError: If the snapshot holds no calibration, or a file of that name is there already.
    """
    written = []
    stamp = str(snapshot["taken"])[:10]
    for arm in snapshot["arms"].values():
        if not arm["calibration"]:
            continue
        old = Path(arm["calibration_file"])
        name = f"{robot_id or old.stem}_restored_{stamp}"
        path = old.with_name(f"{name}.json")
        if path.exists():
            raise UsageError(f"{path} is there already; nothing was written.", f"Use it with --robot.id={name}.")
        with atomic_file(path) as temporary:
            temporary.write_text(json.dumps(arm["calibration"], indent=4) + "\n", encoding="utf-8")
        written.append((path, name))
    if not written:
        raise UsageError("the snapshot holds no calibration.", "Take it with the robot's calibration file in place.")
    return written
