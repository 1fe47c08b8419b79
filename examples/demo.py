"""From nothing to a verdict: a simulated setup, a fault of your choice, and what the diagnosis says.

    python examples/demo.py --fault=camera_moved

Records a few pick-and-place demonstrations, trains a small policy on them, breaks the setup, then asks: does the
policy reproduce its demonstrations (``lerobot-open-loop-eval``), and do the cameras still show what was recorded?
Demonstrations and policy are kept in ``--output_dir`` and made once.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from lerobot.datasets.lerobot_dataset import LeRobotDataset

import lerobot_diagnostics.plugin  # noqa: F401  (registers the arm and the policy)
from lerobot_diagnostics.findings import Finding, Report, Status, Verdict, by_severity
from lerobot_diagnostics.sim.config_so101_sim import CameraFault, SimCameraConfig, SimFaults, SO101SimConfig
from lerobot_diagnostics.sim.record import record
from lerobot_diagnostics.sim.so101_sim import SO101Sim
from lerobot_diagnostics.sim.train import train

REPO_ID = "local/so101_sim_demo"
FPS = 10
TRAINED_ON, HELD_OUT = [0, 1, 2, 3], [4]
LOOKS, STRIDE = 8, 10
"""Reference frames taken of each episode: this many, this far apart (an episode has 83)."""

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
    codes = [judge_policy(dataset, checkpoint, options.output_dir / "open_loop")]
    codes.append(judge_cameras(dataset, options.fault, options.output_dir / f"cameras_{options.fault}"))
    return max(codes)


@contextlib.contextmanager
def phase(name: str) -> Iterator[None]:
    """Say what is being done and how long it took."""
    start = time.perf_counter()
    print(name, flush=True)
    yield
    print(f"  {time.perf_counter() - start:.1f} s", flush=True)


def judge_policy(dataset: Path, checkpoint: Path, output_dir: Path) -> int:
    """Run ``lerobot-open-loop-eval`` as a user would."""
    if (output_dir / "report.json").exists():  # this demonstration's own, from the run before
        shutil.rmtree(output_dir)
    with phase("lerobot-open-loop-eval"):
        return subprocess.run(
            [
                sys.executable, "-m", "lerobot_diagnostics.cli.open_loop_eval", f"--policy.path={checkpoint}",
                "--policy.device=cpu", f"--dataset.repo_id={REPO_ID}", f"--dataset.root={dataset}",
                f"--output_dir={output_dir}",
            ],
            check=False,
        ).returncode  # fmt: skip


def judge_cameras(dataset: Path, fault: str, output_dir: Path) -> int:
    """Drive the broken setup to where the recordings start and compare the cameras there."""
    from lerobot_diagnostics.report import print_report, write_report
    from lerobot_diagnostics.vision import Comparer, ReferenceViews, background_of, compare_workspace

    with phase(f"cameras, fault: {fault}"):
        recorded = LeRobotDataset(REPO_ID, root=dataset)
        starts = [int(episode["dataset_from_index"]) for episode in recorded.meta.episodes]
        spread = [start + offset for start in starts for offset in range(0, LOOKS * STRIDE, STRIDE)]
        frames = [recorded[index] for index in spread]
        pictures = {
            camera.removeprefix("observation.images."): [rgb(frame[camera]) for frame in frames]
            for camera in recorded.meta.camera_keys
        }
        states = np.stack([frame["observation.state"].numpy() for frame in frames])
        episodes = np.repeat(np.arange(len(starts)), LOOKS).tolist()
        pose = dict(zip(recorded.features["action"]["names"], states[0].tolist(), strict=True))
        live = live_pictures(FAULTS[fault], pose, list(pictures))
        comparer = Comparer(ReferenceViews.build(pictures, states=states, episodes=episodes))
        findings = comparer.compare(live, state=states[0])
        if not any(finding.status is Status.FAIL for finding in findings):  # the right views: now what stands in them
            at_start = {name: sequence[::LOOKS] for name, sequence in pictures.items()}
            backgrounds = {name: background_of(sequence) for name, sequence in pictures.items()}
            findings += compare_workspace(live, at_start, backgrounds)
    verdict = verdict_of(findings)
    output_dir.mkdir(parents=True, exist_ok=True)
    report = Report(
        command="examples/demo.py", verdict=verdict, findings=findings, inputs={"fault": fault, "dataset": str(dataset)}
    )
    print_report(report, write_report(report, output_dir))
    return report.exit_code


def rgb(picture: torch.Tensor) -> np.ndarray:
    """[3, H, W] float in 0–1, as LeRobot reads it, to [H, W, 3] uint8."""
    return (picture.permute(1, 2, 0).numpy() * 255).round().astype(np.uint8)


def live_pictures(faults: SimFaults, pose: dict[str, float], cameras: list[str]) -> dict[str, np.ndarray]:
    """What the cameras of the broken setup show once its encoders read ``pose``."""
    robot = SO101Sim(
        SO101SimConfig(cameras={name: SimCameraConfig() for name in cameras}, real_time=False, faults=faults)
    )
    robot.connect()
    try:
        for _ in range(30):  # a second, to arrive
            robot.send_action(pose)
        observation = robot.get_observation()
    finally:
        robot.disconnect()
    return {name: observation[name] for name in cameras}


def verdict_of(findings: list[Finding]) -> Verdict:
    """The gravest finding's cause. What could not be decided counts only where nothing else was found."""
    ranked = by_severity(findings)
    found = [finding for finding in ranked if finding.status in (Status.FAIL, Status.WARN)]
    unknown = list(dict.fromkeys(finding.summary for finding in ranked if finding.status is Status.UNKNOWN))
    if found:
        codes = list(dict.fromkeys(finding.code for finding in found))
        return Verdict(found[0].cause.value, found[0].summary, because=codes, cannot_tell=unknown)
    if unknown:
        return Verdict("undecided", unknown[0], cannot_tell=unknown)
    return Verdict("none_found", "The cameras show what was recorded.")


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    sys.exit(main())
