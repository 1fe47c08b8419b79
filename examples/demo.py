"""From nothing to a verdict: a simulated setup, a fault of your choice, and what the diagnosis says.

    python examples/demo.py --fault=camera_moved

Records a few pick-and-place demonstrations, trains a small policy on them, breaks the setup, and runs
``lerobot-diagnose`` on it: files, devices, cameras, clock and predictions, one verdict.
Demonstrations and policy are kept in ``--output_dir`` and made once.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from lerobot.datasets.lerobot_dataset import LeRobotDataset

import lerobot_diagnostics.plugin  # noqa: F401  (registers the arm and the policy)
from lerobot_diagnostics.sim.config_so101_sim import CameraFault, SimCameraConfig, SimFaults, SO101SimConfig
from lerobot_diagnostics.sim.record import record
from lerobot_diagnostics.sim.train import train

REPO_ID = "local/so101_sim_demo"
FPS = 10
TRAINED_ON, HELD_OUT = [0, 1, 2, 3], [4]
FAULTS: dict[str, SimFaults] = {
    "none": SimFaults(),
    "camera_moved": SimFaults(cameras={"front": CameraFault(move_m=[0.02, 0.01, 0.0], turn_deg=[0.0, 1.5, 2.0])}),
    "cameras_swapped": SimFaults(swap=["front", "top"]),
    "camera_rotated": SimFaults(cameras={"top": CameraFault(rotate_deg=180)}),
    "camera_channels": SimFaults(cameras={"front": CameraFault(swap_red_blue=True)}),
    "camera_dead": SimFaults(cameras={"top": CameraFault(dead_from_s=0.0)}),
    "light": SimFaults(light_level=0.55, light_color=[1.0, 0.95, 0.8]),
    "tray_moved": SimFaults(tray_move_m=[-0.03, 0.03]),
    "base_moved": SimFaults(base_move_m=[0.0, 0.03], base_turn_deg=5.0),
    "joint_zero": SimFaults(joint_zero_deg={"elbow_flex": 10.0}),
}


def main() -> int:
    """Exit codes: 0 nothing failed, 1 a finding failed, 2 could not run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fault", choices=FAULTS, default="camera_moved")
    parser.add_argument("--output_dir", type=Path, default=Path("outputs/demo"))
    options = parser.parse_args()
    logging.getLogger().setLevel(logging.ERROR)
    torch.set_num_threads(1)  # the network is tiny: 21 s to train with one thread, 69 s with two on two busy cores
    dataset, checkpoint = options.output_dir / "dataset", options.output_dir / "policy"
    with phase(f"demonstrations: {dataset}"):
        if not (dataset / "done").exists():
            cameras = dict.fromkeys(("front", "top"), SimCameraConfig())
            record(dataset, REPO_ID, SO101SimConfig(cameras=cameras), seeds=(*TRAINED_ON, *HELD_OUT), fps=FPS)
            (dataset / "done").touch()
    with phase(f"policy: {checkpoint}"):
        if not (checkpoint / "train_config.json").exists():
            loss = train(LeRobotDataset(REPO_ID, root=dataset), TRAINED_ON, checkpoint)
            print(f"  training loss {loss:.3f} of a standard deviation")
    return judge(dataset, checkpoint, options.fault, options.output_dir / f"diagnose_{options.fault}")


@contextlib.contextmanager
def phase(name: str) -> Iterator[None]:
    """Say what is being done and how long it took."""
    start = time.perf_counter()
    print(name, flush=True)
    yield
    print(f"  {time.perf_counter() - start:.1f} s", flush=True)


def judge(dataset: Path, checkpoint: Path, fault: str, output_dir: Path) -> int:
    """Run ``lerobot-diagnose`` on the broken setup as a user would."""
    if (output_dir / "report.json").exists():  # this demonstration's own, from the run before
        shutil.rmtree(output_dir)
    with phase(f"lerobot-diagnose, fault: {fault}"):
        return subprocess.run(
            [
                sys.executable, "-m", "lerobot_diagnostics.cli.diagnose", f"--policy.path={checkpoint}",
                "--policy.device=cpu", f"--dataset.repo_id={REPO_ID}", f"--dataset.root={dataset}",
                "--robot.type=so101_sim", "--robot.cameras={front: {}, top: {}}", *fault_flags(FAULTS[fault]),
                f"--output_dir={output_dir}",
            ],
            check=False,
        ).returncode  # fmt: skip


def fault_flags(faults: SimFaults) -> list[str]:
    """What differs from a healthy setup, as flags."""
    given, healthy = dataclasses.asdict(faults), dataclasses.asdict(SimFaults())
    return [f"--robot.faults.{name}={json.dumps(value)}" for name, value in given.items() if value != healthy[name]]


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    sys.exit(main())
