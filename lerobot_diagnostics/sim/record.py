"""Demonstrations of the scripted expert as a LeRobot v3.0 data set, through LeRobot's own writer."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from lerobot.datasets.lerobot_dataset import LeRobotDataset
from lerobot.utils.feature_utils import build_dataset_frame, hw_to_dataset_features

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.sim.config_so101_sim import JOINTS, SO101SimConfig
from lerobot_diagnostics.sim.expert import plan
from lerobot_diagnostics.sim.so101_sim import SO101Sim

TASK = "Put the red cube in the blue tray."


def record(
    root: Path, repo_id: str, config: SO101SimConfig, seeds: Iterable[int], *, fps: int = 30, use_videos: bool = True
) -> LeRobotDataset:
    """Record one pick-and-place a seed. Frame j pairs the observation at its start with the command at its end.

    Args:
        root: Folder to create.
        repo_id: The data set's name.
        config: Cameras, faults and cube placement; time passes as fast as possible, whatever it says.
        seeds: One episode each.
        fps: Frames a second.
        use_videos: Videos, else PNG pictures inside the parquet files (quicker to write, larger).

    Returns:
        The finalised data set.

    Raises:
        UsageError: ``root`` exists.
        RuntimeError: An episode failed to put the cube in the tray (nobody would keep such a demonstration).
    """
    if root.exists():
        raise UsageError(f"{root} exists.", "Choose another folder or delete this one.")
    config.real_time, config.fps = False, fps
    robot = SO101Sim(config)
    features = {
        **hw_to_dataset_features(robot.action_features, "action", use_videos),
        **hw_to_dataset_features(robot.observation_features, "observation", use_videos),
    }
    dataset = LeRobotDataset.create(
        repo_id, fps, features, root=root, robot_type=robot.name, use_videos=use_videos, streaming_encoding=use_videos
    )
    robot.connect()
    try:
        for seed in seeds:
            robot.reset(seed)
            truth = robot.truth()
            for values in plan(robot.world, truth.cube_m.tolist(), truth.tray_m.tolist(), fps):
                observation = build_dataset_frame(features, robot.get_observation(), "observation")
                action = dict(zip((f"{joint}.pos" for joint in JOINTS), values.tolist(), strict=True))
                robot.send_action(action)
                dataset.add_frame(observation | build_dataset_frame(features, action, "action") | {"task": TASK})
            if not robot.truth().success:
                raise RuntimeError(f"The expert failed with seed {seed}: {robot.truth()}")
            dataset.save_episode()
    finally:
        robot.disconnect()
        dataset.finalize()
    return dataset
