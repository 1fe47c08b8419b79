"""The simulated arm photographed at poses of our choice: no physics, so a picture costs 10 ms."""

import numpy as np

from lerobot_diagnostics.sight import Poses
from lerobot_diagnostics.sight.model import JOINTS
from lerobot_diagnostics.sim.config_so101_sim import SimFaults
from lerobot_diagnostics.sim.world import World

import mujoco  # isort: skip  (after world, which chooses how it renders)

LOW = np.array([-45.0, -80.0, 20.0, 10.0, -60.0, 5.0])
HIGH = np.array([45.0, 0.0, 85.0, 80.0, 60.0, 60.0])


def some_poses(count: int = 24) -> np.ndarray:
    """[count, 6] readings, spread at random, the tool above the table."""
    return np.random.default_rng(5).uniform(LOW, HIGH, (count, len(JOINTS)))


def photograph(faults: SimFaults, readings: np.ndarray, camera: str = "front", width: int = 240) -> Poses:
    """What a camera sees while the encoders show ``readings``."""
    world = World(faults)
    pictures = []
    for reading in readings:
        world.data.qpos[: len(JOINTS)] = world._radians(reading - world._encoder_error)
        mujoco.mj_forward(world.model, world.data)
        pictures.append(world.render(camera, width, width * 3 // 4))
    world.close()
    return Poses(readings, {camera: pictures})
