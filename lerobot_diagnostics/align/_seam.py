"""The seam for LeRobot 0.6.1, whose ``create_strategy`` is a closed list.

A LeRobot whose strategy configs say what they need (``dataset_mode``) finds ``<Name>`` beside ``<Name>Config``.
"""

from __future__ import annotations

import sys
from typing import Any

from lerobot.rollout.configs import RolloutStrategyConfig
from lerobot.rollout.strategies import factory

from lerobot_diagnostics.align.config_align import AlignStrategyConfig


def install() -> None:
    """Make ``create_strategy`` know ours in every module that holds it (``__main__`` too, under ``python -m``)."""
    stock = factory.create_strategy
    if hasattr(RolloutStrategyConfig, "dataset_mode") or stock.__module__ == __name__:
        return

    def create_strategy(config: RolloutStrategyConfig) -> Any:
        if isinstance(config, AlignStrategyConfig):
            from lerobot_diagnostics.align.align import AlignStrategy

            return AlignStrategy(config)
        return stock(config)

    for module in list(sys.modules.values()):
        if getattr(module, "__dict__", {}).get("create_strategy") is stock:
            module.create_strategy = create_strategy  # type: ignore[attr-defined]
