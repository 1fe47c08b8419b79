"""LeRobot's stock commands against the rig: what the user types is what reaches the wire."""

import numpy as np
import pytest

pytest.importorskip("pty", reason="the rig needs a pseudo-terminal")

from rig import JOINTS, FramePublisher, ServoRig, stock
from rig.servos import REST

ARM = ["--robot.type=so101_follower", "--robot.id=rig"]


def test_replay_sends_the_recorded_episode(tmp_path):
    episode = [{**REST, "shoulder_pan": 2.0 * step, "gripper": 10.0 + step} for step in range(12)]
    root = stock.dataset(tmp_path / "data", episode, fps=50)
    with ServoRig() as rig:
        rig.save_calibration(tmp_path)
        done = stock.run(
            "replay",
            *ARM,
            f"--robot.port={rig.port}",
            f"--robot.calibration_dir={tmp_path}",
            "--dataset.repo_id=local/tiny",
            f"--dataset.root={root}",
            "--dataset.episode=0",
            "--play_sounds=false",
        )
    assert done.returncode == 0, done.stderr
    goals = rig.bank.goals()
    assert len(goals) == len(episode)
    for sent, recorded in zip(goals, episode, strict=True):
        assert sent == pytest.approx(recorded, abs=0.1)  # a tick is 0.09°


def test_rollout_drives_the_arm_from_a_network_camera(tmp_path):
    policy = stock.checkpoint(tmp_path / "policy", {"front": (48, 64)}, mean=REST)
    picture = np.full((48, 64, 3), 90, np.uint8)
    with ServoRig() as rig, FramePublisher(lambda _seconds: {"front": picture}) as publisher:
        rig.save_calibration(tmp_path)
        done = stock.run(
            "rollout",
            "--strategy.type=base",
            f"--policy.path={policy}",
            "--policy.device=cpu",
            *ARM,
            f"--robot.port={rig.port}",
            f"--robot.calibration_dir={tmp_path}",
            f"--robot.cameras={{front: {publisher.config('front', 48, 64)}}}",
            "--duration=1",
            "--return_to_initial_position=false",
        )
    assert done.returncode == 0, done.stderr
    goals = rig.bank.goals()
    assert len(goals) > 10
    assert set(goals[0]) == set(JOINTS)
    assert all(goal == pytest.approx(REST, abs=3.0) for goal in goals)
