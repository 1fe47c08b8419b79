"""Configuration of the demonstration's policy. Imported by discovery, so that LeRobot loads its checkpoints."""

from __future__ import annotations

from dataclasses import dataclass, field

from lerobot.configs.policies import PreTrainedConfig
from lerobot.configs.types import NormalizationMode
from lerobot.optim.optimizers import AdamWConfig


@PreTrainedConfig.register_subclass("sim_policy")
@dataclass
class SimConfig(PreTrainedConfig):  # type: ignore[misc]
    """A small convolutional policy that trains in seconds on a CPU: pictures and joints in, a chunk of actions out.

    Args:
        chunk_size, n_action_steps: Actions predicted at a look, and executed before the next.
        hidden: Width of the hidden layers.

    Raises:
        ValueError: More steps than the chunk has, or none.
    """

    chunk_size: int = 10
    n_action_steps: int = 10
    hidden: int = 256
    normalization_mapping: dict[str, NormalizationMode] = field(
        default_factory=lambda: dict.fromkeys(("VISUAL", "STATE", "ACTION"), NormalizationMode.MEAN_STD)
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.n_action_steps <= self.chunk_size:
            raise ValueError(
                f"n_action_steps is {self.n_action_steps}, and a chunk of chunk_size={self.chunk_size} actions is all "
                "that is predicted"
            )

    @property
    def observation_delta_indices(self) -> None:
        """One observation at a time."""

    @property
    def action_delta_indices(self) -> list[int]:
        """The chunk starts with the action of the observation's own frame."""
        return list(range(self.chunk_size))

    @property
    def reward_delta_indices(self) -> None:
        """No rewards."""

    def get_optimizer_preset(self) -> AdamWConfig:
        """AdamW, as LeRobot's training wants it."""
        return AdamWConfig(lr=1e-3, weight_decay=1e-4)

    def get_scheduler_preset(self) -> None:
        """Constant learning rate."""

    def validate_features(self) -> None:
        """LeRobot calls this before training.

        Raises:
            ValueError: State, action or pictures are missing.
        """
        if self.robot_state_feature is None or self.action_feature is None or not self.image_features:
            raise ValueError("sim_policy needs observation.state, action and at least one picture")
