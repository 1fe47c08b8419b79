"""Without flags: which ports, cameras and calibration files are here, and the command that uses them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Detected:
    """What was found.

    Args:
        ports: Serial ports on USB with their description.
        cameras: Index or path of each camera.
        calibrations: Calibration files of robots.
    """

    ports: Sequence[tuple[str, str]]
    cameras: Sequence[str]
    calibrations: Sequence[Path]


def serial_ports() -> list[tuple[str, str]]:
    """Serial ports on USB with their description; a computer's built-in ones drive no arm."""
    from serial.tools import list_ports

    return sorted((port.device, port.description or "") for port in list_ports.comports() if port.vid is not None)


def opencv_cameras() -> list[str]:
    """Cameras that OpenCV opens, by lasting name where Linux has one."""
    from lerobot.cameras.opencv import OpenCVCamera

    lasting = {}
    folder = Path("/dev/v4l/by-id")
    if folder.is_dir():
        lasting = {str(link.resolve()): str(link) for link in sorted(folder.iterdir(), reverse=True)}
    found = [str(camera["id"]) for camera in OpenCVCamera.find_cameras()]
    return [lasting.get(str(Path(name).resolve()), name) for name in found]


def robot_calibrations() -> list[Path]:
    """Calibration files of robots, newest first."""
    from lerobot.utils.constants import HF_LEROBOT_CALIBRATION

    files = (Path(HF_LEROBOT_CALIBRATION) / "robots").glob("*/*.json")
    return sorted(files, key=lambda path: path.stat().st_mtime, reverse=True)


def detect(
    ports: Callable[[], Any] = serial_ports,
    cameras: Callable[[], Any] = opencv_cameras,
    calibrations: Callable[[], Any] = robot_calibrations,
) -> Detected:
    """Look for devices; cameras are opened for a moment."""
    return Detected(ports(), cameras(), calibrations())


def describe(found: Detected) -> list[str]:
    """What was found and the command to run next, line by line."""
    lines = ["serial ports: " + (", ".join(f"{p} ({text})" if text else p for p, text in found.ports) or "none")]
    lines.append("cameras: " + (", ".join(found.cameras) or "none"))
    lines.append("calibration files: " + (", ".join(str(path) for path in found.calibrations) or "none"))
    command = ["lerobot-diagnose", "--policy.path=<checkpoint>", "--dataset.repo_id=<user/data>"]
    if found.ports:
        kind = found.calibrations[0].parent.name if found.calibrations else ""
        arm = "so101_follower" if kind in {"", "so_follower", "so101_follower", "so100_follower"} else kind
        command += [f"--robot.type={arm}", f"--robot.port={found.ports[0][0]}"]
        command += [f"--robot.id={found.calibrations[0].stem}"] if found.calibrations else []
    if found.cameras:
        entries = ", ".join(
            f"camera{number}: {{type: opencv, index_or_path: {camera}, width: 640, height: 480, fps: 30}}"
            for number, camera in enumerate(found.cameras, start=1)
        )
        command.append(f'--robot.cameras="{{{entries}}}"')
    lines.append("next: " + " ".join(command))
    if found.ports or found.cameras:
        lines.append("Name the cameras as in the recording (features side by side is the first table of the report).")
    return lines
