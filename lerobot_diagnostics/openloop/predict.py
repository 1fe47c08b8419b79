"""What the control loop would have executed, predicted in batches.

Stock ``lerobot-rollout`` resets the policy, then calls ``select_action`` once a frame. Most policies answer from a
queue: they look at an observation only when it is empty, and fill it with the actions to execute until the next look.
Those looks do not depend on each other, except through a short history of observations, so looks of different frames
and episodes can share one forward pass. :class:`Predictor` does that through ``select_action`` itself, whatever the
policy: it fills the history, lets the policy predict, and reads the queue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.openloop.checkpoint import LoadedPolicy

FloatArray = npt.NDArray[np.float32]
Observation = Mapping[str, Any]
"""A batch of raw observations in the data set's own units: ``observation.*`` vectors [B, D] float32, camera pictures
[B, H, W, 3] uint8 RGB, ``task``: list of B strings, ``robot_type``: string."""


class Mode(StrEnum):
    """How the policy turns observations into executed actions."""

    CHUNKS = "chunks"
    """A queue of actions, refilled from one observation (and its short history)."""
    ENSEMBLE = "ensemble"
    """A chunk every frame, averaged over time by the policy's own ensembler."""
    STEP = "step"
    """Anything else: ``select_action`` frame by frame."""


@dataclass(frozen=True)
class ExecutionPlan:
    """When a policy looks, and how its looks may be batched.

    Args:
        mode: See :class:`Mode`.
        horizon: Actions executed per look.
        history: Observations before the look that the policy keeps (``n_obs_steps - 1``).
        note: Why it is stepped, in one sentence; empty where it is not.
    """

    mode: Mode
    horizon: int
    history: int = 0
    note: str = ""

    def looks(self, length: int) -> list[int]:
        """Frames of an episode of ``length`` frames at which the control loop would ask the policy."""
        return list(range(0, length, self.horizon if self.mode is Mode.CHUNKS else 1))

    def window(self, look: int) -> list[int]:
        """Frames the policy sees for one look, oldest first; before the start the first frame repeats."""
        return [max(look - back, 0) for back in range(self.history, -1, -1)]


# Types for which tests/test_openloop_predict.py proves batched and stepped actions equal; others are probed.
PROVEN_TYPES = frozenset({"act", "diffusion"})
# Batched and single forward passes differ by float32 rounding: 3e-5 was measured on actions up to ±82, so 1e-5 of the
# action's magnitude, plus the same absolute floor for actions near zero.
PROBE_TOLERANCE = 1e-5


def _inner(policy: Any) -> Any:
    """The LeRobot policy below a PEFT wrapper."""
    return policy.get_base_model() if hasattr(policy, "get_base_model") else policy


def _action_queue(policy: Any) -> deque[torch.Tensor] | None:
    """The queue that ``select_action`` answers from, under either of the names LeRobot's policies give it."""
    queue = getattr(policy, "_action_queue", None)
    if queue is None:
        queue = (getattr(policy, "_queues", None) or {}).get("action")
    return queue if isinstance(queue, deque) else None


def plan_execution(loaded: LoadedPolicy) -> ExecutionPlan:
    """Read from a loaded policy when it looks and how its looks may be batched."""
    policy, config = _inner(loaded.policy), loaded.config
    policy.reset()
    history = max(int(getattr(config, "n_obs_steps", 1) or 1) - 1, 0)
    if getattr(config, "temporal_ensemble_coeff", None) is not None:
        if not hasattr(policy, "temporal_ensembler") or history:
            return ExecutionPlan(Mode.STEP, 1, note="its temporal ensembling is not LeRobot's ACT ensembler")
        if _relative_step(loaded) is not None:
            raise UsageError(
                "this checkpoint predicts actions relative to the state and ensembles them over time, which mixes "
                "actions relative to different states.",
                "Pass --policy.temporal_ensemble_coeff=null.",
            )
        return ExecutionPlan(Mode.ENSEMBLE, 1)
    if _action_queue(policy) is None:
        if _relative_step(loaded) is not None:
            raise UsageError(
                "this checkpoint predicts actions relative to the state and keeps no action queue, so they cannot be "
                "made absolute faithfully."
            )
        return ExecutionPlan(Mode.STEP, 1, note=f"policy type '{config.type}' keeps no action queue of a known kind")
    horizon = getattr(config, "n_action_steps", None) or getattr(config, "chunk_size", None) or 1
    return ExecutionPlan(Mode.CHUNKS, int(horizon), history)


def _relative_step(loaded: LoadedPolicy) -> Any | None:
    from lerobot.processor import RelativeActionsProcessorStep

    steps = loaded.preprocessor.steps
    return next((s for s in steps if isinstance(s, RelativeActionsProcessorStep) and s.enabled), None)


class Predictor:
    """Predicts executed actions of one policy, in the data set's own units.

    Args:
        loaded: The policy and its processors.
        plan: From :func:`plan_execution`.
        seed: Seed of the noise that diffusion and flow-matching policies draw. It is applied per call, so that every
            checkpoint, and every picture ablation, gets the same noise for the same frames.
    """

    def __init__(self, loaded: LoadedPolicy, plan: ExecutionPlan, seed: int = 0) -> None:
        self.loaded = loaded
        self.plan = plan
        self.seed = seed
        self._policy = _inner(loaded.policy)
        self._device = torch.device(loaded.device)

    def reset(self) -> None:
        """Forget everything, as the control loop does at an episode's start."""
        self._policy.reset()
        self.loaded.preprocessor.reset()
        self.loaded.postprocessor.reset()

    def chunks(self, window: Sequence[Observation], **select: Any) -> FloatArray:
        """Actions executed from one look per row.

        Args:
            window: ``plan.history + 1`` observations of B rows each, oldest first.
            select: Passed to the look's ``select_action`` (``noise``).

        Returns:
            [B, horizon, J]. Relative-action checkpoints are made absolute with the state at the look, as LeRobot's
            chunked inference does.

        Raises:
            UsageError: When the policy does not accept the observations.
        """
        self.reset()
        with self._inference(), _explained(self.loaded):
            for observation in window[:-1]:
                batch = self._preprocess(observation)
                rows = next(iter(v.shape[0] for v in batch.values() if isinstance(v, torch.Tensor)))
                self._queue().append(torch.zeros(rows, 1, device=self._device))  # keeps the policy from predicting yet
                self._policy.select_action(batch)
            first = self._policy.select_action(self._preprocess(window[-1]), **select)
            actions = [first, *self._queue()]
            done = [self.loaded.postprocessor(action) for action in actions]
        return _to_array(torch.stack(done, dim=1))

    def ensembled(self, observation: Observation, *, start: bool) -> FloatArray:
        """Actions executed at B consecutive frames of one episode, [B, J]; ``start``: the episode's first batch."""
        if start:
            self.reset()
        with self._inference(), _explained(self.loaded):
            chunks = self._policy.predict_action_chunk(self._preprocess(observation))
            ensembler = self._policy.temporal_ensembler
            actions = [ensembler.update(chunks[i : i + 1]) for i in range(chunks.shape[0])]
            done = [self.loaded.postprocessor(action) for action in actions]
        return _to_array(torch.cat(done))

    def stepped(self, observation: Observation, *, start: bool, **select: Any) -> FloatArray:
        """Actions executed at B consecutive frames of one episode, one ``select_action`` a frame, [B, J]."""
        if start:
            self.reset()
        done = []
        with self._inference(), _explained(self.loaded):
            for row in range(rows_of(observation)):
                batch = self._preprocess(take_rows(observation, slice(row, row + 1)))
                done.append(self.loaded.postprocessor(self._policy.select_action(batch, **select)))
        return _to_array(torch.cat(done))

    def _queue(self) -> deque[torch.Tensor]:
        queue = _action_queue(self._policy)
        if queue is None:
            raise RuntimeError("the policy lost its action queue after reset()")
        return queue

    def _preprocess(self, observation: Observation) -> dict[str, Any]:
        batch = to_policy_batch(observation, self._device)
        processed: dict[str, Any] = self.loaded.preprocessor(batch)
        processed.pop("action", None)  # no policy may see the answer, whatever a processor leaves behind
        return processed

    def _inference(self) -> AbstractContextManager[None]:
        return _Inference(self._device, bool(self.loaded.config.use_amp), self.seed)


class _Inference(AbstractContextManager[None]):
    """Inference mode, mixed precision where the checkpoint asks for it on CUDA (as rollout), and seeded noise."""

    def __init__(self, device: torch.device, amp: bool, seed: int) -> None:
        self._contexts: list[AbstractContextManager[Any]] = [
            torch.inference_mode(),
            torch.autocast(device_type=device.type) if amp and device.type == "cuda" else nullcontext(),
        ]
        self._seed = seed

    def __enter__(self) -> None:
        torch.manual_seed(self._seed)
        for context in self._contexts:
            context.__enter__()

    def __exit__(self, *error: Any) -> None:
        for context in reversed(self._contexts):
            context.__exit__(*error)


class _explained(AbstractContextManager[None]):  # noqa: N801
    """Turn what a policy raises on observations it was not made for into one line."""

    def __init__(self, loaded: LoadedPolicy) -> None:
        self._loaded = loaded

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        if error is None or isinstance(error, UsageError) or not isinstance(error, Exception):
            return
        if isinstance(error, torch.OutOfMemoryError) or "not enough memory" in str(error):
            raise UsageError("the policy ran out of memory.", "Pass a smaller --batch_size.") from error
        first = (str(error).strip().splitlines() or [""])[0]
        raise UsageError(
            f"policy type '{self._loaded.config.type}' does not accept the data set's observations "
            f"({type(error).__name__}: {first[:160]}).",
            "Compare its input features with the data set's; --rename_map maps camera names.",
        ) from error


def to_policy_batch(observation: Observation, device: torch.device) -> dict[str, Any]:
    """Tensors as LeRobot's inference prepares them: pictures [B, 3, H, W] float in 0–1, vectors [B, D] float32."""
    batch: dict[str, Any] = {}
    for key, value in observation.items():
        if not isinstance(value, np.ndarray):
            batch[key] = value
            continue
        tensor = torch.from_numpy(np.ascontiguousarray(value)).to(device)
        if value.dtype == np.uint8 and value.ndim == 4:
            tensor = tensor.permute(0, 3, 1, 2).contiguous().to(torch.float32) / 255
        batch[key] = tensor
    return batch


def rows_of(observation: Observation) -> int:
    """Number of rows B of a batch."""
    return next(len(value) for value in observation.values() if isinstance(value, np.ndarray))


def take_rows(observation: Observation, rows: Any) -> dict[str, Any]:
    """Some rows of a batch; ``rows`` is a slice or an index array."""
    index = range(rows_of(observation))[rows] if isinstance(rows, slice) else rows
    return {
        key: value[rows] if isinstance(value, np.ndarray) else [value[i] for i in index] if key == "task" else value
        for key, value in observation.items()
    }


def _to_array(actions: torch.Tensor) -> FloatArray:
    array: FloatArray = actions.to(torch.float32).cpu().numpy()
    return array


def confirm_plan(predictor: Predictor, frames: Observation) -> ExecutionPlan:
    """Check at run time that batching changes nothing for a policy that no test of ours covers.

    The first frames of one episode are stepped through ``select_action`` and predicted as chunks, both one row at a
    time and with the same noise, and the two compared. Where they differ, or the policy's queue holds another number
    of actions than its config says, the plan falls back to stepping.

    Args:
        predictor: With a plan of mode ``chunks``; its plan is what gets checked.
        frames: Consecutive observations from an episode's start, ``horizon + 1`` rows or what the episode has.

    Returns:
        The plan to use.
    """
    plan = predictor.plan
    if plan.mode is not Mode.CHUNKS:
        return plan
    looks = [[take_rows(frames, slice(i, i + 1)) for i in plan.window(0)]]
    first = predictor.chunks(looks[0])[0]
    plan = replace(plan, horizon=len(first))
    kind = predictor.loaded.config.type
    if kind in PROVEN_TYPES or _relative_step(predictor.loaded) is not None:
        return plan
    rows = rows_of(frames)
    stepped = predictor.stepped(take_rows(frames, slice(0, plan.horizon)), start=True)
    same = _close(stepped, first[:rows])
    if rows > plan.horizon:
        stepped = predictor.stepped(take_rows(frames, slice(plan.horizon, plan.horizon + 1)), start=False)
        second = predictor.chunks([take_rows(frames, slice(i, i + 1)) for i in plan.window(plan.horizon)])[0]
        same = same and _close(stepped, second[:1])
    if same:
        return plan
    return ExecutionPlan(Mode.STEP, 1, note=f"policy type '{kind}' answers differently when its looks are batched")


def _close(a: FloatArray, b: FloatArray) -> bool:
    scale = max(float(np.max(np.abs(a))), 1.0)
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=0, atol=PROBE_TOLERANCE * scale))
