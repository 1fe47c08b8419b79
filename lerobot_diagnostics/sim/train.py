"""Train the demonstration's policy and save it as LeRobot does."""

from __future__ import annotations

from pathlib import Path

import torch
from lerobot.configs.default import DatasetConfig
from lerobot.configs.train import TrainPipelineConfig
from lerobot.configs.types import FeatureType
from lerobot.datasets.lerobot_dataset import LeRobotDataset
from lerobot.policies.factory import make_pre_post_processors
from lerobot.utils.feature_utils import dataset_to_policy_features

from lerobot_diagnostics.sim.configuration_sim_policy import SimConfig
from lerobot_diagnostics.sim.modeling_sim_policy import PICTURE, SimPolicy


def train(
    dataset: LeRobotDataset, episodes: list[int], checkpoint: Path, *, steps: int = 600, batch: int = 64, seed: int = 0
) -> float:
    """Train on some episodes and write a checkpoint that ``--policy.path`` takes, ``train_config.json`` included.

    Args:
        dataset: A local data set with state, action and pictures.
        episodes: The episodes trained on.
        checkpoint: Folder to write to.
        steps, batch: How many steps, and frames a step.
        seed: Of the weights and the batches.

    Returns:
        Mean training loss of the last 50 steps (normalised units).
    """
    features = dataset_to_policy_features(dataset.meta.features)
    actions = {key: feature for key, feature in features.items() if feature.type is FeatureType.ACTION}
    config = SimConfig(
        input_features={key: feature for key, feature in features.items() if key not in actions},
        output_features=actions,
        device="cpu",
        push_to_hub=False,
    )
    torch.manual_seed(seed)
    policy = SimPolicy(config)
    preprocess, postprocess = make_pre_post_processors(config, dataset_stats=dataset.meta.stats)
    reader = LeRobotDataset(
        dataset.repo_id,
        root=dataset.root,
        episodes=episodes,
        delta_timestamps={"action": [index / dataset.fps for index in config.action_delta_indices]},
    )
    items = []
    for index in range(len(reader)):
        item = {key: value for key, value in reader[index].items() if key in features or key == "action_is_pad"}
        # what the policy does first, once instead of at every step (an average and a normalisation commute)
        pooled = {key: torch.nn.functional.adaptive_avg_pool2d(item[key], PICTURE) for key in policy.cameras}
        items.append(item | pooled)
    frames = preprocess(torch.utils.data.default_collate(items))
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-3, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-3, total_steps=steps)
    losses = []
    for _ in range(steps):
        chosen = torch.randint(len(reader), (batch,))
        loss, _ = policy({key: value[chosen] for key, value in frames.items() if isinstance(value, torch.Tensor)})
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    policy.save_pretrained(checkpoint)
    preprocess.save_pretrained(checkpoint)
    postprocess.save_pretrained(checkpoint)
    source = DatasetConfig(repo_id=dataset.repo_id, root=str(dataset.root), episodes=episodes)
    TrainPipelineConfig(dataset=source, policy=config, steps=steps, batch_size=batch, seed=seed).save_pretrained(
        checkpoint
    )
    last = losses[-50:]
    return float(sum(last) / len(last))
