"""On the simulated arm: the printed correction brings a camera back, and stock rollout hands over."""

import io
import json
import re
from importlib.util import find_spec

import numpy as np
import pytest

if not find_spec("mujoco"):  # not imported here: the package chooses the renderer first
    pytest.skip("extra sim", allow_module_level=True)

import align_stock
from rich.console import Console
from rig import stock
from test_align_loop import Inline

from lerobot_diagnostics.align.loop import Settings, align
from lerobot_diagnostics.align.misalignment import Tolerance
from lerobot_diagnostics.align.reference import Reference
from lerobot_diagnostics.align.terminal import TerminalView
from lerobot_diagnostics.sim.config_so101_sim import CameraFault, SimCameraConfig, SimFaults, SO101SimConfig
from lerobot_diagnostics.sim.record import record
from lerobot_diagnostics.sim.world import REST, World
from lerobot_diagnostics.vision import register

WIDTH, HEIGHT = 640, 480
DISTANCE_M = {"front": 0.605, "top": 0.80}
"""From the camera to what its picture's centre shows (sim/scene.py); a person would measure the width with a ruler."""
VIEW_WIDTH_MM = {name: 2000 * d * np.tan(np.radians(45) / 2) * WIDTH / HEIGHT for name, d in DISTANCE_M.items()}
SEEDS = (5, 6)
TIGHT = Tolerance(shift_px=1.0, rotation_deg=0.2, zoom=0.003)


def view(camera: str, fault: CameraFault) -> np.ndarray:
    world = World(SimFaults(cameras={camera: fault}))
    try:
        return world.render(camera, WIDTH, HEIGHT).copy()
    finally:
        world.close()


class Reading:
    joints: dict[str, float] = {}  # noqa: RUF012

    def __init__(self, pictures):
        self.pictures = pictures


class Start:
    def __init__(self, pictures):
        self.pictures = pictures

    def load(self, episode):
        return Reference(episode, self.pictures)


def printed(camera: str, live: np.ndarray, recorded: np.ndarray) -> tuple[str, bool]:
    """What the terminal tells a person about this view, and whether it is in the band."""
    out = io.StringIO()
    with TerminalView(Console(file=out, width=300), keys=False) as terminal:
        outcome = align(
            lambda: Reading({camera: live}),
            Start({camera: recorded}),
            0,
            Inline(),
            settings=Settings(TIGHT, mm_per_px={camera: VIEW_WIDTH_MM[camera] / WIDTH}),
            displays=[terminal],
            poll=lambda: None,
            wait=lambda tick: tick < 3,
            clock=iter(np.arange(0.0, 60.0, 2.0)).__next__,
        )
    return [line for line in out.getvalue().splitlines() if f" {camera}: " in line][-1], outcome.aligned


def obeyed(text: str, camera: str, fault: CameraFault) -> CameraFault:
    """The camera after somebody did what the line says."""
    move, turn = list(fault.move_m), list(fault.turn_deg)
    for number, way in re.findall(r"≈ ([\d.]+) mm (to the left|to the right|up|down)", text):
        axis, sign = {"to the right": (0, 1), "to the left": (0, -1), "up": (1, 1), "down": (1, -1)}[way]
        move[axis] += sign * float(number) / 1000
    for number, way in re.findall(r"([\d.]+)° (clockwise|counter-clockwise)", text):
        turn[2] += float(number) * (1 if way == "counter-clockwise" else -1)
    for number, way in re.findall(r"([\d.]+) % (back|closer)", text):
        move[2] += (1 if way == "back" else -1) * float(number) / 100 * DISTANCE_M[camera]
    return CameraFault(move_m=move, turn_deg=turn)


@pytest.mark.parametrize(
    ("camera", "fault"),
    [
        ("front", CameraFault(move_m=[0.02, -0.012, 0.015], turn_deg=[0, 0, 3.0])),
        ("top", CameraFault(move_m=[-0.015, 0.02, -0.01], turn_deg=[0, 0, -2.5])),
        ("front", CameraFault(turn_deg=[1.0, -1.5, 2.0])),  # knocked round on its mount: sliding makes up for it
    ],
    ids=["front pushed", "top pushed", "front turned"],
)
def test_three_rounds_of_doing_what_it_says_bring_the_camera_back(camera, fault):
    recorded = view(camera, CameraFault())
    before = register(view(camera, fault), recorded)
    assert np.hypot(before.dx_px, before.dy_px) > 10  # it was moved indeed
    for done in range(4):
        live = view(camera, fault)
        text, aligned = printed(camera, live, recorded)
        print(f"round {done}: {text}")
        if aligned:
            break
        assert "slide the camera" in text or "turn the camera" in text or "move the camera" in text
        fault = obeyed(text, camera, fault)
    assert aligned and done <= 3
    after = register(live, recorded)  # the exact registration, not the loop's own
    assert np.hypot(after.dx_px, after.dy_px) < 1.0
    assert abs(after.rotation_deg) < 0.2


def test_a_camera_nobody_moved_is_aligned_at_once():
    recorded = view("front", CameraFault())
    assert printed("front", view("front", CameraFault()), recorded)[1]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Two demonstrations by the expert and a policy that stays at rest, as LeRobot writes both."""
    folder = tmp_path_factory.mktemp("sim")
    cameras = {name: SimCameraConfig() for name in DISTANCE_M}
    config = SO101SimConfig(calibration_dir=folder, cameras=cameras)
    record(folder / "data", "local/sim", config, seeds=SEEDS, fps=10, use_videos=False)
    stock.checkpoint(folder / "policy", dict.fromkeys(cameras, (240, 320)), REST)
    return folder


def flags(recorded, tmp_path) -> list[str]:
    return [
        f"--policy.path={recorded / 'policy'}",
        "--policy.device=cpu",
        "--robot.type=so101_sim",
        "--robot.id=sim",
        f"--robot.seed={SEEDS[0]}",  # the cube lies where episode 0 had it
        f"--strategy.reference.root={recorded / 'data'}",
        f"--strategy.output_dir={tmp_path / 'out'}",
        "--return_to_initial_position=false",
        "--duration=1",
    ]


def test_stock_rollout_hands_the_simulated_arm_over_once_it_is_aligned(recorded, tmp_path):
    with align_stock.Rollout(*flags(recorded, tmp_path)) as rollout:
        rollout.wait_for("ALIGNED")
        rollout.press("n")  # the other demonstration, with the cube elsewhere
        rollout.wait_for("against episode 1")
        rollout.wait_for("move the object")
        rollout.press("p")
        rollout.wait_for("ALIGNED", after="move the object")
        rollout.press("\n")
        assert rollout.ended() == 0, rollout.out
    assert "Base strategy control loop started" in rollout.out
    assert json.loads((tmp_path / "out" / "report.json").read_text())["results"]["aligned"]
