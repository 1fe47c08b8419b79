"""LeRobot's default processors for the demonstration's policy."""

from __future__ import annotations

from typing import Any

from lerobot.processor import make_default_pre_post_processors

from lerobot_diagnostics.sim.configuration_sim_policy import SimConfig


def make_sim_policy_pre_post_processors(
    config: SimConfig, dataset_stats: dict[str, dict[str, Any]] | None = None
) -> tuple[Any, Any]:
    """Normalisation, batching and device placement, as for LeRobot's own policies."""
    preprocessor, postprocessor = make_default_pre_post_processors(config, dataset_stats)
    return preprocessor, postprocessor
