"""LeRobot's own commands and files, for tests that run the stock commands: a data set, a checkpoint, a subprocess."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from rig.servos import JOINTS

NAMES = [f"{joint}.pos" for joint in JOINTS]


def run(command: str, *arguments: str, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
    """Run LeRobot's stock ``command`` (e.g. ``"replay"``) as a user would, in a process of its own."""
    code = f"from lerobot.scripts.lerobot_{command} import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=timeout_s, check=False
    )


_MANY = """
import importlib, json, sys, traceback
{preamble}
main = importlib.import_module("lerobot.scripts.lerobot_{command}").main
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["lerobot-{command}", *arguments]
    code = 0
    try:
        main()
    except SystemExit as error:
        code = error.code or 0
    except BaseException:
        traceback.print_exc()
        code = 1
    print("{mark}", code, file=sys.stderr, flush=True)
"""


def run_many(
    command: str, cases: Sequence[Sequence[str]], *, preamble: str = "", timeout_s: float = 240
) -> list[tuple[int, str]]:
    """Run the stock command once for each case, one after the other in one process: (exit code, standard error) each.

    Importing LeRobot takes longer than a short rollout; :func:`run` is what a user does.

    Args:
        command: As for :func:`run`.
        cases: The arguments of each run.
        preamble: Python to execute first.
        timeout_s: For all of them.
    """
    mark = "=== end of case"
    code = _MANY.format(command=command, preamble=preamble, mark=mark)
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps([list(case) for case in cases])],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    parts = re.split(rf"{mark} (\d+)\n", done.stderr)
    assert len(parts) == 2 * len(cases) + 1, done.stderr
    return [(int(code), said) for said, code in zip(parts[:-1:2], parts[1::2], strict=True)]


def dataset(root: Path, actions: Sequence[Mapping[str, float]], fps: int = 30) -> Path:
    """Write a LeRobot v3.0 data set without pictures, repo id ``local/tiny``: one episode, state = action."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    vector = {"dtype": "float32", "shape": (len(JOINTS),), "names": NAMES}
    writer = LeRobotDataset.create(
        "local/tiny", fps, root=root, features={"action": vector, "observation.state": vector}, use_videos=False
    )
    for action in actions:
        values = np.array([action[joint] for joint in JOINTS], np.float32)
        writer.add_frame({"action": values, "observation.state": values, "task": "move"})
    writer.save_episode()
    writer.finalize()
    return root


def checkpoint(root: Path, cameras: Mapping[str, tuple[int, int]], mean: Mapping[str, float]) -> Path:
    """Save an untrained ACT of a few thousand weights beside a ResNet, as LeRobot's training would.

    Its actions stay within about ±1 of ``mean`` (gripper and degrees), because that is how they are unnormalised.

    Args:
        root: Folder to write to; its path is the ``--policy.path``.
        cameras: Height and width by camera name.
        mean: Action mean by joint.
    """
    import torch
    from lerobot.configs import FeatureType, PolicyFeature
    from lerobot.policies.act.configuration_act import ACTConfig
    from lerobot.policies.act.modeling_act import ACTPolicy
    from lerobot.policies.factory import make_pre_post_processors

    visual = {f"observation.images.{name}": (3, *size) for name, size in cameras.items()}
    config = ACTConfig(
        input_features={
            "observation.state": PolicyFeature(FeatureType.STATE, (len(JOINTS),)),
            **{key: PolicyFeature(FeatureType.VISUAL, shape) for key, shape in visual.items()},
        },
        output_features={"action": PolicyFeature(FeatureType.ACTION, (len(JOINTS),))},
        chunk_size=10,
        n_action_steps=10,
        dim_model=32,
        n_heads=2,
        dim_feedforward=32,
        n_encoder_layers=1,
        use_vae=False,
        pretrained_backbone_weights=None,
        device="cpu",
        push_to_hub=False,
    )
    torch.manual_seed(0)
    ACTPolicy(config).save_pretrained(root)
    centre = torch.tensor([mean[joint] for joint in JOINTS])
    stats = {key: {"mean": centre, "std": torch.full_like(centre, 0.3)} for key in ("action", "observation.state")}
    stats |= {key: {"mean": torch.full((3, 1, 1), 0.5), "std": torch.full((3, 1, 1), 0.25)} for key in visual}
    for processor in make_pre_post_processors(config, dataset_stats=stats):
        processor.save_pretrained(root)
    return root
