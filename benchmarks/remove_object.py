"""The remove-the-object test on the simulated arm: policies that look at the cube, and policies that do not.

    python benchmarks/remove_object.py --draws 20          # about ten minutes on two cores

Demonstrations are recorded with the cube in another place each time, and policies are trained on them: with the
pictures as they are ("looks"), with those of other moments ("shuffled"), without any ("blind"), and hardly at all
("untrained"). A draw takes half of the episodes, other light, noise on joints and pictures, and somebody who puts the
cube up to a centimetre off; as a control the cube stays. Printed: what was judged, and the figures that the thresholds
of ``diagnose.removal`` rest on.
"""

from __future__ import annotations

import argparse
import functools
import logging
import re
import tempfile
from collections import Counter
from collections.abc import Mapping
from itertools import repeat
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from fault_injection import Clock
from lerobot.datasets.lerobot_dataset import LeRobotDataset

import lerobot_diagnostics.plugin  # noqa: F401  (registers the arm and the policy)
from lerobot_diagnostics.diagnose.motion import Driver
from lerobot_diagnostics.diagnose.removal import judge_removal
from lerobot_diagnostics.findings import Finding
from lerobot_diagnostics.openloop.checkpoint import find_checkpoints, load_policy
from lerobot_diagnostics.recording import open_recording
from lerobot_diagnostics.replay.desk import Desk
from lerobot_diagnostics.replay.play import Player
from lerobot_diagnostics.robot.arm import Arm
from lerobot_diagnostics.robot.keys import ENTER, ScriptedKeys
from lerobot_diagnostics.sim import train as training
from lerobot_diagnostics.sim.config_so101_sim import SimCameraConfig, SimFaults, SO101SimConfig
from lerobot_diagnostics.sim.configuration_sim_policy import SimConfig
from lerobot_diagnostics.sim.modeling_sim_policy import SimPolicy
from lerobot_diagnostics.sim.record import record
from lerobot_diagnostics.sim.scene import CUBE_HALF_M, CUBE_XY_M
from lerobot_diagnostics.sim.so101_sim import SO101Sim

REPO_ID, FPS, EPISODES = "local/remove_object", 10, 24
CAMERAS = ("front", "top")
LIGHT, PICTURE_NOISE, PLACING_M = 0.12, 3.0, 0.01
AWAY_M = (0.5, -1.5)

FORWARD = SimPolicy.forward


def shuffled(policy: SimPolicy, batch: dict[str, torch.Tensor]) -> Any:
    """Every frame with the pictures of another."""
    order = torch.randperm(len(batch["action"]))
    return FORWARD(policy, batch | {camera: batch[camera][order] for camera in policy.cameras})


def blind(policy: SimPolicy, batch: dict[str, torch.Tensor]) -> Any:
    """Without pictures: the eyes say nothing."""
    for eye in policy.eyes:
        eye.requires_grad_(False)
        eye[-2].weight.zero_()
        eye[-2].bias.zero_()
    return FORWARD(policy, batch)


POLICIES: Mapping[str, tuple[Any, int]] = {
    "looks": (FORWARD, 600), "shuffled": (shuffled, 600), "blind": (blind, 600), "untrained": (FORWARD, 2),
}  # fmt: skip


def fit(data: Path, folder: Path, kind: str, chunk: int) -> Path:
    """A checkpoint of the demonstration's policy that predicts ``chunk`` actions and executes one."""
    forward, steps = POLICIES[kind]
    if not folder.exists():
        config = functools.partial(SimConfig, chunk_size=chunk, n_action_steps=1)
        with patch.object(training, "SimConfig", config), patch.object(SimPolicy, "forward", forward):
            training.train(LeRobotDataset(REPO_ID, root=data), list(range(EPISODES)), folder, steps=steps)
    return folder


class Person:
    """Does what the command asks."""

    def __init__(self, robot: SO101Sim, rng: np.random.Generator, *, takes_away: bool) -> None:
        self.robot, self.rng, self.takes_away = robot, rng, takes_away

    def __call__(self, text: str) -> None:
        if "Put the object" in text:
            number = int(re.search(r"episode (\d+)", text)[1])
            jitter = np.random.default_rng(number).uniform(-1, 1, 2) * self.robot.config.cube_jitter_m
            self.put(np.add(CUBE_XY_M, jitter) + self.rng.uniform(-PLACING_M, PLACING_M, 2))
        elif "take the object away" in text and self.takes_away:
            self.put(AWAY_M)

    def put(self, place_m: Any) -> None:
        self.robot.world.data.joint("cube").qpos[:3] = [*place_m, CUBE_HALF_M]


class NoisyArm(SO101Sim):
    """Its cameras add noise, every picture another."""

    def _picture(self, name: str) -> Any:
        picture = super()._picture(name)
        noise = self._rng.normal(0.0, PICTURE_NOISE, picture.shape)
        return np.clip(picture + noise, 0, 255).astype(np.uint8)


def one(data: Path, policy: Path, jitter_m: float, rng: np.random.Generator, out: Path, *, takes_away: bool) -> Finding:
    """A draw."""
    faults = SimFaults(light_level=float(rng.uniform(1 - LIGHT, 1 + LIGHT)), noise_deg=0.05)
    cameras = {name: SimCameraConfig(fps=FPS) for name in CAMERAS}
    clock = Clock()
    config = SO101SimConfig(cameras=cameras, seed=int(rng.integers(1e6)), faults=faults, cube_jitter_m=jitter_m)
    robot = NoisyArm(config, clock=clock, sleep=clock.sleep)
    robot.connect()
    try:
        person = Person(robot, rng, takes_away=takes_away)
        desk = Desk(ScriptedKeys(repeat(ENTER)), stopped=lambda: False, say=person, sleep=clock.sleep)
        player = Player(Arm(robot, clock=clock), stopped=lambda: False, clock=clock, sleep=clock.sleep)
        loaded = load_policy(find_checkpoints(str(policy))[-1], device="cpu")
        recording = open_recording(repo_id=REPO_ID, root=str(data))
        episodes = sorted(rng.choice(EPISODES, EPISODES // 2, replace=False).tolist())
        live = {f"observation.images.{name}": name for name in CAMERAS}
        outcome = judge_removal(Driver(player, desk), loaded, recording, episodes, live, out)
        return outcome.findings[0]
    finally:
        robot.disconnect()


def main() -> None:
    """Draw, judge, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=20, help="of each policy")
    parser.add_argument(
        "--jitter", type=float, default=0.03, help="the cube lies within this of its usual place, metres"
    )
    parser.add_argument("--chunks", default="10,20", help=f"actions predicted at a look, at {FPS} Hz")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "remove_object")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    logging.getLogger().setLevel(logging.ERROR)
    torch.set_num_threads(1)
    work = options.work / f"{options.jitter:g}"
    data, out = work / "dataset", work / "pictures"
    if not data.exists():
        config = SO101SimConfig(
            cameras={name: SimCameraConfig() for name in CAMERAS}, cube_jitter_m=options.jitter,
            faults=SimFaults(noise_deg=0.05),
        )  # fmt: skip
        record(data, REPO_ID, config, seeds=range(EPISODES), fps=FPS)
    out.mkdir(exist_ok=True)
    for chunk in map(int, options.chunks.split(",")):
        for kind, takes_away in (*((kind, True) for kind in POLICIES), ("looks", False)):
            policy = fit(data, work / f"{kind}_{chunk}", kind, chunk)
            rng = np.random.default_rng(options.seed)
            found = [one(data, policy, options.jitter, rng, out, takes_away=takes_away) for _ in range(options.draws)]
            print(f"\n{kind}, {chunk / FPS:g} s{'' if takes_away else ', not taken away'}: ", end="")
            print(dict(Counter(f.status.value for f in found)), found[0].summary)
            measured = [f.evidence for f in found if f.evidence]
            figures = {key: [evidence[key] for evidence in measured] for key in (measured or [{}])[0]}
            if measured:
                figures["apart / differ"] = [e["apart_mm"] / e["recorded_differ_mm"] for e in measured]
            for key, values in figures.items():
                print(f"  {key:24} {np.min(values):8.3f} {np.median(values):8.3f} {np.max(values):8.3f}")


if __name__ == "__main__":
    main()
