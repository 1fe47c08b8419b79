"""How fast lerobot-open-loop-eval predicts, beside the loops people write, in one process.

    python benchmarks/open_loop.py                # about 10 minutes on two cores
    python benchmarks/open_loop.py --quick        # smaller pictures and policy: a minute

Measured in turn, several rounds, median of the ratios:

    ours   lerobot_diagnostics.openloop.evaluate: looks batched, only their pictures decoded, in the background
    (a)    the loop people write: dataset[i], preprocessor, select_action, postprocessor, every frame
    (b)    one look per horizon, batch 1, but every frame of every camera read
    (c)    the forward passes alone, batched, on observations already in memory: the limit of what reading and
           batching can do (ours also folds ACT's frozen normalisation into its convolutions, so it can go below)

The policy is LeRobot's default ACT with random weights (its speed does not depend on them), executing 100 or 20 actions
per look; the videos are written by LeRobot's own recorder, with its usual two-frame GOP and with a long one.
"""

from __future__ import annotations

import argparse
import logging
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch

from lerobot_diagnostics.openloop.checkpoint import CheckpointRef, LoadedPolicy
from lerobot_diagnostics.openloop.evaluate import bind, evaluate, look_batches
from lerobot_diagnostics.openloop.predict import plan_execution, to_policy_batch
from lerobot_diagnostics.recording import open_recording

CAMERAS = ("observation.images.front", "observation.images.wrist")
NAMES = [f"{n}.pos" for n in ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper")]
J = len(NAMES)


def record(root: Path, episodes: int, frames: int, size: tuple[int, int], gop: int) -> Path:
    """A data set by LeRobot's own recorder: textured scenes that pan, with sensor noise."""
    from lerobot.configs.video import RGBEncoderConfig
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    height, width = size
    vector = {"dtype": "float32", "shape": (J,), "names": NAMES}
    image = {"dtype": "video", "shape": (height, width, 3), "names": ["height", "width", "channels"]}
    dataset = LeRobotDataset.create(
        "local/bench", 30, {"observation.state": vector, "action": vector} | dict.fromkeys(CAMERAS, image), root=root,
        robot_type="so_follower", image_writer_threads=4, rgb_encoder=RGBEncoderConfig(g=gop),
    )  # fmt: skip
    rng = np.random.default_rng(0)
    tiles = rng.integers(0, 256, (height // 16 + 1, (4 * width + 40) // 16 + 1, 3), dtype=np.uint8)
    scene = np.kron(tiles, np.ones((16, 16, 1), dtype=np.uint8))[:height].astype(np.int16)
    noise = rng.integers(-6, 7, (height, width, 3), dtype=np.int16)
    for episode in range(episodes):
        for t in range(frames):
            state = (60 * np.sin(t / 30 + episode + np.arange(J))).astype(np.float32)
            frame: dict[str, Any] = {"observation.state": state, "action": state + 2, "task": "pick"}
            for number, camera in enumerate(CAMERAS):
                left = 3 * (t % width) + 40 * number
                picture = scene[:, left : left + width] + np.roll(noise, t, axis=1)
                frame[camera] = np.clip(picture, 0, 255).astype(np.uint8)
            dataset.add_frame(frame)
        dataset.save_episode()
    dataset.finalize()
    return root


def make_act(size: tuple[int, int], steps: int, small: bool) -> LoadedPolicy:
    """LeRobot's default ACT with random weights (a smaller transformer with ``small``)."""
    from lerobot.configs import FeatureType, PolicyFeature
    from lerobot.policies.factory import get_policy_class, make_policy_config, make_pre_post_processors

    torch.manual_seed(0)
    shrink = {"dim_model": 64, "dim_feedforward": 64, "n_heads": 4} if small else {}
    config = make_policy_config(
        "act", device="cpu", push_to_hub=False, chunk_size=100, n_action_steps=steps, pretrained_backbone_weights=None,
        **shrink,
    )  # fmt: skip
    config.input_features = {"observation.state": PolicyFeature(FeatureType.STATE, (J,))} | {
        camera: PolicyFeature(FeatureType.VISUAL, (3, *size)) for camera in CAMERAS
    }
    config.output_features = {"action": PolicyFeature(FeatureType.ACTION, (J,))}
    joints = {"mean": torch.zeros(J), "std": torch.full((J,), 40.0)}
    picture = {"mean": torch.full((3, 1, 1), 0.5), "std": torch.full((3, 1, 1), 0.25)}
    stats = {"observation.state": joints, "action": joints} | dict.fromkeys(CAMERAS, picture)
    pre, post = make_pre_post_processors(config, dataset_stats=stats)
    policy = get_policy_class("act")(config).eval()
    return LoadedPolicy(CheckpointRef("made", steps, local=True), policy, pre, post, {}, "cpu")


def ours(root: Path, loaded: LoadedPolicy, episodes: int, batch_size: int) -> tuple[np.ndarray, dict[str, float]]:
    """Predicted actions [T, J] and where the time went."""
    recording = open_recording("local/bench", root=root)
    chosen = [(i, "train") for i in range(episodes)]
    result = evaluate(recording, chosen, [loaded.ref], lambda _ref: loaded, batch_size=batch_size)
    return np.concatenate([r.predicted[loaded.ref.label] for r in result.episodes]), result.timings


def frame_by_frame(root: Path, loaded: LoadedPolicy, episodes: int) -> np.ndarray:
    """(a)"""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    dataset = LeRobotDataset("local/bench", root=root, episodes=list(range(episodes)))
    out, episode = [], None
    for i in range(len(dataset)):
        item = dataset[i]
        if item["episode_index"].item() != episode:
            episode = item["episode_index"].item()
            loaded.policy.reset()
        batch = {key: value for key, value in item.items() if key.startswith("observation.")} | {"task": item["task"]}
        with torch.inference_mode():
            action = loaded.policy.select_action(loaded.preprocessor(batch))
            out.append(loaded.postprocessor(action).numpy())
    return np.concatenate(out)


def look_by_look(root: Path, loaded: LoadedPolicy, episodes: int) -> None:
    """(b)"""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    dataset = LeRobotDataset("local/bench", root=root, episodes=list(range(episodes)))
    horizon = loaded.config.n_action_steps
    for i in range(len(dataset)):
        item = dataset[i]
        if item["frame_index"].item() % horizon:
            continue
        batch = {key: value for key, value in item.items() if key.startswith("observation.")} | {"task": item["task"]}
        with torch.inference_mode():
            chunk = loaded.policy.predict_action_chunk(loaded.preprocessor(batch))[:, :horizon]
            loaded.postprocessor(chunk)


def prepared_looks(root: Path, loaded: LoadedPolicy, episodes: int, batch_size: int) -> list[dict[str, Any]]:
    """The observations of all looks, decoded and preprocessed, for (c)."""
    recording = open_recording("local/bench", root=root)
    binding, plan = bind(recording, loaded), plan_execution(loaded)
    batches = look_batches([recording.episode(i) for i in range(episodes)], plan, binding, batch_size)
    return [loaded.preprocessor(to_policy_batch(window[-1], torch.device("cpu"))) for _looks, window in batches]


def forward_only(loaded: LoadedPolicy, batches: list[dict[str, Any]]) -> None:
    """(c)"""
    with torch.inference_mode():
        for batch in batches:
            loaded.policy.predict_action_chunk(batch)


def timed[T](work: Callable[[], T]) -> tuple[float, T]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def compare(root: Path, size: tuple[int, int], options: argparse.Namespace, gop: int) -> None:
    for steps in (100, 20):
        loaded = make_act(size, steps, options.quick)
        batches = prepared_looks(root, loaded, options.episodes, options.batch_size)
        forward_only(loaded, batches[:1])
        rounds = []
        difference = magnitude = 0.0
        for _ in range(options.rounds):
            row: dict[str, float] = {}
            row["ours"], (mine, timings) = timed(lambda p=loaded: ours(root, p, options.episodes, options.batch_size))
            row |= {"decode_wait": timings["decode_wait_s"], "predict": timings["predict_s"]}
            row["c"], _ = timed(lambda p=loaded, b=batches: forward_only(p, b))
            row["a"], theirs = timed(lambda p=loaded: frame_by_frame(root, p, options.episodes))
            row["b"], _ = timed(lambda p=loaded: look_by_look(root, p, options.episodes))
            rounds.append(row)
            difference, magnitude = float(np.abs(mine - theirs).max()), float(np.abs(theirs).max())
        middle = {key: statistics.median(row[key] for row in rounds) for key in rounds[0]}
        times = {key: statistics.median(row[key] / row["ours"] for row in rounds) for key in ("a", "b")}
        over = statistics.median(row["ours"] / row["c"] for row in rounds)
        print(
            f"GOP {gop:2d}, {steps:3d} actions a look: ours {middle['ours']:.2f} s (waiting for pictures "
            f"{middle['decode_wait']:.2f}, predicting {middle['predict']:.2f}) = {over:.2f}x (c) {middle['c']:.2f} s | "
            f"(a) {middle['a']:.2f} s = {times['a']:.1f}x ours | (b) {middle['b']:.2f} s = {times['b']:.1f}x ours | "
            f"largest difference to (a) {difference:.0e} on values to ±{magnitude:.0f}",
            flush=True,
        )


def peak_memory(root: Path, episodes: int, options: argparse.Namespace) -> float:
    """Peak resident memory in MiB of a fresh process that evaluates ``episodes``."""
    command = [sys.executable, __file__, "--memory-of", str(root), "--episodes", str(episodes)]
    command += ["--size", *map(str, options.size), "--batch-size", str(options.batch_size)]
    command += ["--quick"] if options.quick else []
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small pictures and a small policy")
    parser.add_argument("--episodes", type=int, default=3)
    parser.add_argument("--frames", type=int, default=300, help="frames an episode")
    parser.add_argument("--size", type=int, nargs=2, default=(480, 640), metavar=("HEIGHT", "WIDTH"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--memory-of", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.quick:
        options.size = (96, 128)
    height, width = options.size
    logging.getLogger().setLevel(logging.ERROR)
    if options.memory_of:
        loaded = make_act((height, width), 20, options.quick)
        ours(Path(options.memory_of), loaded, options.episodes, options.batch_size)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        return
    print(
        f"{torch.get_num_threads()} threads, 2 cameras {width}x{height}, {options.episodes} episodes of "
        f"{options.frames} frames, median of {options.rounds}"
    )
    with tempfile.TemporaryDirectory() as folder:
        for gop in (2, 60):
            count = max(options.episodes, 8) if gop == 2 else options.episodes
            root = record(Path(folder) / f"gop{gop}", count, options.frames, (height, width), gop)
            compare(root, (height, width), options, gop)
            if gop == 2:
                few, many = (peak_memory(root, n, options) for n in (2, 8))
                print(f"peak memory: {few:.0f} MiB with 2 episodes, {many:.0f} MiB with 8", flush=True)


if __name__ == "__main__":
    main()
