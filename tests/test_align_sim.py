"""The printed correction, applied to the simulated camera, brings it back: the loop closed without a hand."""

import io
import re
from importlib.util import find_spec

import numpy as np
import pytest

if not find_spec("mujoco"):  # not imported here: the package chooses the renderer first
    pytest.skip("extra sim", allow_module_level=True)

from rich.console import Console
from test_align_loop import Inline

from lerobot_diagnostics.align.loop import Settings, align
from lerobot_diagnostics.align.misalignment import Tolerance
from lerobot_diagnostics.align.reference import Reference
from lerobot_diagnostics.align.terminal import TerminalView
from lerobot_diagnostics.sim.config_so101_sim import CameraFault, SimFaults
from lerobot_diagnostics.sim.world import World
from lerobot_diagnostics.vision import register

WIDTH, HEIGHT = 640, 480
DISTANCE_M = {"front": 0.605, "top": 0.80}
"""From the camera to what its picture's centre shows (sim/scene.py); a person would measure the width with a ruler."""
VIEW_WIDTH_MM = {name: 2000 * d * np.tan(np.radians(45) / 2) * WIDTH / HEIGHT for name, d in DISTANCE_M.items()}
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
