"""Configuration of the simulated SO-101, its cameras and its faults. Imported by discovery: no mujoco here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from lerobot.robots.config import RobotConfig

JOINTS = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper")
CAMERAS = ("front", "top", "wrist")


@dataclass
class SimCameraConfig:
    """One camera: ``front``, ``top`` or ``wrist``; a picture is up to 1/``fps`` old, as a real camera's."""

    width: int = 320
    height: int = 240
    fps: int = 30


@dataclass
class CameraFault:
    """What is wrong with one camera.

    Args:
        move_m: Displacement along the camera's own axes: right, up, away from the scene.
        turn_deg: Rotation about the camera's own axes, in this order: pitch (up), yaw (left), roll (counter-clockwise).
        swap_red_blue: Red and blue channels exchanged.
        rotate_deg: The picture turned counter-clockwise by 90, 180 or 270.
        mirror: Left and right exchanged.
        width, height: Size served instead of the configured one; 0 is the configured one.
        crop: Central part of the picture that is served, scaled up to the full size; 1 is all of it.
        frozen_from_s: From then on the same picture again and again.
        dead_from_s: From then on black pictures.
        fails_from_s: From then on every read raises ``TimeoutError``.

    Times count from connecting (or the last ``reset``).
    """

    move_m: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    turn_deg: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    swap_red_blue: bool = False
    rotate_deg: int = 0
    mirror: bool = False
    width: int = 0
    height: int = 0
    crop: float = 1.0
    frozen_from_s: float | None = None
    dead_from_s: float | None = None
    fails_from_s: float | None = None

    def __post_init__(self) -> None:
        if self.rotate_deg not in (0, 90, 180, 270):
            raise ValueError(f"rotate_deg must be 0, 90, 180 or 270, not {self.rotate_deg}")
        if not 0 < self.crop <= 1:
            raise ValueError(f"crop must be in (0, 1], not {self.crop}")


@dataclass
class SimFaults:
    """What has changed since the demonstrations. Everything at its default is a healthy setup.

    Args:
        cameras: Faults by camera name.
        swap: Two camera names whose pictures arrive under each other's name.
        light_level: Brightness of all lights, 1 as recorded.
        light_color: Factors of red, green and blue of all lights.
        cube_move_m, tray_move_m, base_move_m: Displacement on the table, x and y.
        base_turn_deg: Rotation of the arm's base about the vertical.
        joint_zero_deg: By joint, encoder reading minus true angle (gripper: in its 0–100).
        overload_from_s: By joint, the time from which its servo's overload protection holds the torque at 20 %.
        noise_deg: Standard deviation of the noise on every joint reading.
        late_s: How old the joint readings are.
        fail_every: Every N-th observation raises ``ConnectionError``, as LeRobot's bus does; 0 is none.
        slow_s: How much longer every observation takes.
    """

    cameras: dict[str, CameraFault] = field(default_factory=dict)
    swap: list[str] = field(default_factory=list)
    light_level: float = 1.0
    light_color: list[float] = field(default_factory=lambda: [1.0, 1.0, 1.0])
    cube_move_m: list[float] = field(default_factory=lambda: [0.0, 0.0])
    tray_move_m: list[float] = field(default_factory=lambda: [0.0, 0.0])
    base_move_m: list[float] = field(default_factory=lambda: [0.0, 0.0])
    base_turn_deg: float = 0.0
    joint_zero_deg: dict[str, float] = field(default_factory=dict)
    overload_from_s: dict[str, float] = field(default_factory=dict)
    noise_deg: float = 0.0
    late_s: float = 0.0
    fail_every: int = 0
    slow_s: float = 0.0


@RobotConfig.register_subclass("so101_sim")
@dataclass(kw_only=True)
class SO101SimConfig(RobotConfig):  # type: ignore[misc]
    """``--robot.type=so101_sim``: a simulated SO-101 with LeRobot's joint names, units and signs.

    Args:
        cameras: Cameras to serve, by name; all of ``front``, ``top`` and ``wrist`` exist.
        seed: Where the cube lies, and the noise.
        cube_jitter_m: The cube starts within this distance of its usual place along x and y, chosen by the seed.
        real_time: Follow the wall clock; otherwise time passes only with ``send_action``, 1/``fps`` each.
        fps: Actions a second when not in real time.
        faults: See :class:`SimFaults`.
    """

    use_degrees: ClassVar[bool] = True
    """As ``so101_follower`` by default; there is no other setting."""
    cameras: dict[str, SimCameraConfig] = field(
        default_factory=lambda: {"front": SimCameraConfig(), "top": SimCameraConfig()}
    )
    seed: int = 0
    cube_jitter_m: float = 0.02
    real_time: bool = True
    fps: int = 30
    faults: SimFaults = field(default_factory=SimFaults)
