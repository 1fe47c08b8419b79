"""Demonstrations: what LeRobot reads back, and its stock commands on the simulated arm."""

import time
from importlib.util import find_spec

import numpy as np
import pytest

if not find_spec("mujoco"):  # not imported here: the package chooses the renderer first
    pytest.skip("extra sim", allow_module_level=True)

from lerobot.datasets.lerobot_dataset import LeRobotDataset
from rig import stock

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.sim.config_so101_sim import JOINTS, SimCameraConfig, SO101SimConfig
from lerobot_diagnostics.sim.record import record
from lerobot_diagnostics.sim.so101_sim import SO101Sim
from lerobot_diagnostics.sim.world import REST

SIM = ["--robot.type=so101_sim", "--robot.id=sim"]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    small = SimCameraConfig(width=96, height=72)
    config = SO101SimConfig(calibration_dir=folder, cameras={"front": small})
    record(folder / "sim", "local/sim", config, seeds=(5,), fps=10)
    return folder / "sim"


def test_the_data_set_loads_in_lerobot_and_is_laid_out_as_an_arms(root):
    dataset = LeRobotDataset("local/sim", root=root)
    assert (dataset.num_episodes, dataset.fps, dataset.meta.robot_type) == (1, 10, "so101_sim")
    assert dataset.features["action"]["names"] == [f"{joint}.pos" for joint in JOINTS]
    frame = dataset[20]
    assert tuple(frame["observation.images.front"].shape) == (3, 72, 96)
    assert float(frame["observation.images.front"].std()) > 0.05
    assert frame["task"].startswith("Put the red cube")


def test_frame_j_pairs_the_start_with_the_command_for_its_end(root):
    columns = LeRobotDataset("local/sim", root=root).hf_dataset.with_format("numpy")
    states, actions = np.stack(columns["observation.state"]), np.stack(columns["action"])
    assert states[0] == pytest.approx([REST[joint] for joint in JOINTS], abs=0.2)
    arm = slice(0, 5)  # the gripper is stopped by the cube
    at_end = np.abs(states[1:, arm] - actions[:-1, arm]).mean()
    at_start = np.abs(states[:, arm] - actions[:, arm]).mean()
    assert at_end < 0.35 * at_start


def test_an_existing_folder_is_left_alone(root):
    with pytest.raises(UsageError, match="exists"):
        record(root, "local/sim", SO101SimConfig(), seeds=(0,))


def test_stock_replay(root):
    done = stock.run(
        "replay",
        *SIM,
        "--robot.cameras={}",
        "--dataset.repo_id=local/sim",
        f"--dataset.root={root}",
        "--dataset.episode=0",
        "--play_sounds=false",
    )
    assert done.returncode == 0, done.stderr


def test_stock_rollout(tmp_path):
    policy = stock.checkpoint(tmp_path / "policy", {"front": (48, 64), "top": (48, 64)}, mean=REST)
    done = stock.run(
        "rollout",
        "--strategy.type=base",
        f"--policy.path={policy}",
        "--policy.device=cpu",
        *SIM,
        "--robot.cameras={front: {width: 64, height: 48}, top: {width: 64, height: 48}}",
        "--robot.faults.joint_zero_deg={elbow_flex: 4.0}",
        "--robot.faults.cameras={front: {move_m: [0.01, 0, 0]}}",
        "--duration=1",
        "--return_to_initial_position=false",
    )
    assert done.returncode == 0, done.stderr
    assert "Rollout finished" in done.stdout + done.stderr


def test_two_cameras_at_20_fps(tmp_path):
    robot = SO101Sim(SO101SimConfig(calibration_dir=tmp_path))  # two of 320×240
    robot.connect()
    robot.get_observation()
    laps = []
    for _ in range(40):
        start = time.perf_counter()
        robot.get_observation()
        robot.send_action({"shoulder_pan.pos": 5.0})
        laps.append(time.perf_counter() - start)
    robot.disconnect()
    assert np.median(laps) < 1 / 20  # 10 to 13 ms measured on two cores
