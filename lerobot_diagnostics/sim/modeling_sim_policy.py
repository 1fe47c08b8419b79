"""The demonstration's policy: two small convolutions a camera and a perceptron."""

from __future__ import annotations

from collections import deque
from typing import Any

import torch
from lerobot.policies.pretrained import PreTrainedPolicy
from torch import Tensor, nn

from lerobot_diagnostics.sim.configuration_sim_policy import SimConfig

PICTURE = (24, 32)
"""Pictures are averaged down to this before anything else: the cube is still about one pixel."""


class SimPolicy(PreTrainedPolicy):  # type: ignore[misc]
    """See :class:`~lerobot_diagnostics.sim.configuration_sim_policy.SimConfig`."""

    config_class = SimConfig
    name = "sim_policy"

    def __init__(self, config: SimConfig, **_: Any) -> None:
        super().__init__(config)
        config.validate_features()
        self.cameras = sorted(config.image_features)
        self.joints = config.action_feature.shape[0]
        self.eyes = nn.ModuleList(
            nn.Sequential(
                nn.AdaptiveAvgPool2d(PICTURE),
                nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.ReLU(),
                nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
                nn.Flatten(), nn.LazyLinear(64), nn.ReLU(),
            )
            for _ in self.cameras
        )  # fmt: skip
        self.head = nn.Sequential(
            nn.Linear(64 * len(self.cameras) + config.robot_state_feature.shape[0], config.hidden),
            nn.ReLU(),
            nn.Linear(config.hidden, config.hidden),
            nn.ReLU(),
            nn.Linear(config.hidden, config.chunk_size * self.joints),
        )
        for eye in self.eyes:
            eye(torch.zeros(1, 3, *PICTURE))
        self.reset()

    def get_optim_params(self) -> dict[str, Any]:
        """All weights."""
        return {"params": self.parameters()}

    def reset(self) -> None:
        """Forget the chunk."""
        self._action_queue: deque[Tensor] = deque(maxlen=self.config.n_action_steps)

    def _chunk(self, batch: dict[str, Tensor]) -> Tensor:
        seen = [eye(batch[camera]) for eye, camera in zip(self.eyes, self.cameras, strict=True)]
        flat = self.head(torch.cat([*seen, batch["observation.state"]], dim=-1))
        chunk: Tensor = flat.unflatten(-1, (self.config.chunk_size, self.joints))
        return chunk

    def forward(self, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, float]]:
        """Mean absolute error of the normalised chunk, frames past the episode's end left out."""
        error = (self._chunk(batch) - batch["action"]).abs().mean(-1)
        inside = ~batch["action_is_pad"]
        loss = (error * inside).sum() / inside.sum()
        return loss, {"l1_loss": loss.item()}

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def predict_action_chunk(self, batch: dict[str, Tensor], **_: Any) -> Tensor:
        """[B, chunk_size, joints], normalised."""
        self.eval()
        return self._chunk(batch)

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def select_action(self, batch: dict[str, Tensor], **_: Any) -> Tensor:
        """[B, joints]: the next action of the chunk."""
        if not self._action_queue:
            chunk = self.predict_action_chunk(batch)[:, : self.config.n_action_steps]
            self._action_queue.extend(chunk.transpose(0, 1))
        return self._action_queue.popleft()
