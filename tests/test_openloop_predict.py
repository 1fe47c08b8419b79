"""Batched predictions equal what select_action executes, for every kind of policy the module batches."""

from collections import deque
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.openloop.checkpoint import CheckpointRef, LoadedPolicy
from lerobot_diagnostics.openloop.predict import (
    ExecutionPlan,
    Mode,
    Predictor,
    confirm_plan,
    plan_execution,
    rows_of,
    take_rows,
)

T, J, SIDE = 23, 6, 64
CAMERAS = ("observation.images.front", "observation.images.wrist")
RANGE_DEG = 80.0


def episode(seed: int = 0) -> dict:
    rng = np.random.default_rng(seed)
    return {
        "observation.state": rng.uniform(-RANGE_DEG, RANGE_DEG, (T, J)).astype(np.float32),
        **{camera: rng.integers(0, 256, (T, SIDE, SIDE, 3), dtype=np.uint8) for camera in CAMERAS},
        "task": ["pick"] * T,
        "robot_type": "so_follower",
    }


def make(policy_type: str, **settings) -> LoadedPolicy:
    """A randomly initialised LeRobot policy with statistics that make its actions degrees."""
    from lerobot.configs import FeatureType, PolicyFeature
    from lerobot.policies.factory import get_policy_class, make_policy_config, make_pre_post_processors

    torch.manual_seed(1)
    config = make_policy_config(policy_type, device="cpu", push_to_hub=False, **settings)
    config.input_features = {"observation.state": PolicyFeature(FeatureType.STATE, (J,))} | {
        camera: PolicyFeature(FeatureType.VISUAL, (3, SIDE, SIDE)) for camera in CAMERAS
    }
    config.output_features = {"action": PolicyFeature(FeatureType.ACTION, (J,))}
    spread = {
        "mean": torch.linspace(-10, 10, J), "std": torch.linspace(20, 60, J),
        "min": torch.full((J,), -RANGE_DEG), "max": torch.full((J,), RANGE_DEG),
    }  # fmt: skip
    picture = {
        key: torch.full((3, 1, 1), value) for key, value in (("mean", 0.5), ("std", 0.25), ("min", 0), ("max", 1))
    }
    stats = {"observation.state": spread, "action": spread} | dict.fromkeys(CAMERAS, picture)
    pre, post = make_pre_post_processors(config, dataset_stats=stats)
    policy = get_policy_class(policy_type)(config).eval()
    return LoadedPolicy(CheckpointRef("made", None, local=True), policy, pre, post, {}, "cpu")


ACT = {
    "dim_model": 32, "n_heads": 2, "dim_feedforward": 32, "n_encoder_layers": 1, "latent_dim": 8,
    "vision_backbone": "resnet18", "pretrained_backbone_weights": None, "use_vae": False,
}  # fmt: skip
DIFFUSION = {
    "n_obs_steps": 2, "horizon": 8, "n_action_steps": 5, "down_dims": (16, 32), "n_groups": 4, "crop_shape": None,
    "vision_backbone": "resnet18", "pretrained_backbone_weights": None,
    "spatial_softmax_num_keypoints": 4, "num_train_timesteps": 5,
    "diffusion_step_embed_dim": 16, "drop_n_last_frames": 2, "crop_ratio": 1.0,
}  # fmt: skip


def control_loop(loaded: LoadedPolicy, observations: dict, noise=None) -> np.ndarray:
    """The stock loop: reset, then preprocess, select_action, postprocess for every frame."""
    from lerobot.policies.utils import prepare_observation_for_inference

    loaded.policy.reset()
    actions = []
    for t in range(rows_of(observations)):
        frame = {k: v[t] for k, v in observations.items() if isinstance(v, np.ndarray)}
        with torch.inference_mode():
            batch = loaded.preprocessor(
                prepare_observation_for_inference(frame, torch.device("cpu"), "pick", "so_follower")
            )
            options = {} if noise is None else {"noise": noise(t)}
            actions.append(loaded.postprocessor(loaded.policy.select_action(batch, **options)).squeeze(0).numpy())
    return np.stack(actions)


def batched(loaded: LoadedPolicy, observations: dict, batch_size: int, noise=None) -> np.ndarray:
    plan = plan_execution(loaded)
    predictor = Predictor(loaded, plan)
    out = np.full((T, J), np.nan, dtype=np.float32)
    looks = plan.looks(T)
    if plan.mode is Mode.ENSEMBLE:
        for i in range(0, T, batch_size):
            rows = slice(i, min(i + batch_size, T))
            out[rows] = predictor.ensembled(take_rows(observations, rows), start=i == 0)
        return out
    for i in range(0, len(looks), batch_size):
        some = looks[i : i + batch_size]
        frames = np.array([plan.window(look) for look in some])
        options = {} if noise is None else {"noise": torch.cat([noise(look) for look in some])}
        chunk = predictor.chunks([take_rows(observations, column) for column in frames.T], **options)
        for look, actions in zip(some, chunk, strict=True):
            out[look : look + plan.horizon] = actions[: T - look]
    return out


@pytest.mark.parametrize("n_action_steps", [1, 4, 7, 30])
def test_act_chunks_equal_the_control_loop(n_action_steps):
    loaded = make("act", chunk_size=30, n_action_steps=n_action_steps, **ACT)
    observations = episode()
    truth = control_loop(loaded, observations)
    assert np.ptp(truth, axis=0).min() > 0.1  # the policy does react to what it sees
    np.testing.assert_allclose(batched(loaded, observations, 4), truth, atol=1e-4, rtol=0)


def test_act_temporal_ensembling_equals_the_control_loop():
    loaded = make("act", chunk_size=9, n_action_steps=1, temporal_ensemble_coeff=0.01, **ACT)
    observations = episode()
    truth = control_loop(loaded, observations)
    np.testing.assert_allclose(batched(loaded, observations, 5), truth, atol=1e-4, rtol=0)
    np.testing.assert_allclose(batched(loaded, observations, 23), truth, atol=1e-4, rtol=0)


def test_diffusion_with_the_same_noise_equals_the_control_loop():
    loaded = make("diffusion", **DIFFUSION)
    observations = episode()

    def noise(t: int) -> torch.Tensor:
        return torch.randn(1, DIFFUSION["horizon"], J, generator=torch.Generator().manual_seed(t))

    # DDPM also draws noise inside its denoising steps; DDIM with eta 0 does not, so only the injected noise is left.
    from diffusers import DDIMScheduler

    loaded.policy.diffusion.noise_scheduler = DDIMScheduler(num_train_timesteps=5, clip_sample=True)
    truth = control_loop(loaded, observations, noise)
    np.testing.assert_allclose(batched(loaded, observations, 3, noise), truth, atol=1e-4, rtol=0)
    # Control: without the history of two observations the actions differ.
    plan = ExecutionPlan(Mode.CHUNKS, 5, history=0)
    alone = Predictor(loaded, plan).chunks([take_rows(observations, np.array([10]))], noise=noise(10))
    assert np.abs(alone[0] - truth[10:15]).max() > 1e-3


@dataclass
class VlaStub:
    """Shaped as LeRobot's vision-language policies: queues by key, noise, language in the batch, B rows at once."""

    horizon: int = 6
    seen: list = field(default_factory=list)
    leak: bool = False

    def __post_init__(self):
        self.config = SimpleNamespace(
            type="vla_stub", n_obs_steps=1, n_action_steps=self.horizon, use_amp=False, device="cpu"
        )
        self.reset()

    def reset(self):
        self._queues = {"action": deque(maxlen=self.horizon)}
        self.calls = 0

    def select_action(self, batch):
        assert "action" not in batch
        assert isinstance(batch["task"], list | str)
        self.seen.append(batch["observation.state"].shape[0])
        if not self._queues["action"]:
            self.calls += 1
            drift = self.calls * 1.0 if self.leak else 0.0  # a policy whose looks depend on each other
            state = batch["observation.state"]
            picture = batch[CAMERAS[0]].mean(dim=(1, 2, 3))[:, None]
            chunk = [state + k + picture + 0.01 * torch.randn(1) + drift for k in range(self.horizon)]
            self._queues["action"].extend(chunk)
        return self._queues["action"].popleft()


class Identity(SimpleNamespace):
    steps = ()

    def __call__(self, x):
        return x

    def reset(self):
        pass


class LeavesAction(Identity):
    def __call__(self, batch):
        return {**batch, "action": batch["observation.state"]}


def stub(policy, pre=None) -> LoadedPolicy:
    return LoadedPolicy(CheckpointRef("stub", None, local=True), policy, pre or Identity(), Identity(), {}, "cpu")


def test_a_vla_shaped_policy_is_batched_and_never_sees_the_action():
    loaded = stub(VlaStub(), LeavesAction())
    observations = episode()
    predictor = Predictor(loaded, plan_execution(loaded), seed=3)
    plan = confirm_plan(predictor, take_rows(observations, slice(0, 8)))
    assert (plan.mode, plan.horizon, plan.note) == (Mode.CHUNKS, 6, "")
    chunk = predictor.chunks([take_rows(observations, np.array([0, 6, 12]))])
    assert chunk.shape == (3, 6, J)
    torch.manual_seed(3)
    wobble = 0.01 * torch.randn(1).item()
    expected = observations["observation.state"][6] + observations[CAMERAS[0]][6].mean() / 255 + wobble
    np.testing.assert_allclose(chunk[1, 0], expected, atol=1e-4)


def test_a_policy_whose_looks_depend_on_each_other_is_stepped_and_says_so():
    loaded = stub(VlaStub(leak=True))
    predictor = Predictor(loaded, plan_execution(loaded))
    plan = confirm_plan(predictor, take_rows(episode(), slice(0, 7)))
    assert plan.mode is Mode.STEP
    assert "vla_stub" in plan.note


def test_the_horizon_is_what_the_queue_holds_not_what_the_config_says():
    policy = VlaStub(horizon=4)
    policy.config.n_action_steps = 50
    loaded = stub(policy)
    plan = confirm_plan(Predictor(loaded, plan_execution(loaded)), take_rows(episode(), slice(0, 6)))
    assert (plan.mode, plan.horizon) == (Mode.CHUNKS, 4)


def test_a_policy_without_a_queue_is_stepped():
    class Plain:
        config = SimpleNamespace(type="plain", n_obs_steps=1, use_amp=False)

        def reset(self):
            self.t = 0

        def select_action(self, batch):
            self.t += 1
            return batch["observation.state"] + self.t

    loaded = stub(Plain())
    plan = plan_execution(loaded)
    assert plan.mode is Mode.STEP and "plain" in plan.note
    predictor = Predictor(loaded, plan)
    observations = episode()
    first = predictor.stepped(take_rows(observations, slice(0, 10)), start=True)
    rest = predictor.stepped(take_rows(observations, slice(10, T)), start=False)
    expected = observations["observation.state"] + np.arange(1, T + 1, dtype=np.float32)[:, None]
    np.testing.assert_allclose(np.concatenate([first, rest]), expected, rtol=1e-6)


def test_relative_actions_are_made_absolute_with_the_state_at_the_look():
    from lerobot.processor import AbsoluteActionsProcessorStep, RelativeActionsProcessorStep
    from lerobot.processor.converters import (
        batch_to_transition,
        policy_action_to_transition,
        transition_to_batch,
        transition_to_policy_action,
    )
    from lerobot.processor.pipeline import PolicyProcessorPipeline

    class Relative(VlaStub):
        def select_action(self, batch):
            if not self._queues["action"]:
                zero = torch.zeros_like(batch["observation.state"])
                self._queues["action"].extend([zero + k for k in range(self.horizon)])
            return self._queues["action"].popleft()

    relative = RelativeActionsProcessorStep(enabled=True)
    loaded = stub(Relative())
    loaded.preprocessor = PolicyProcessorPipeline(
        [relative], to_transition=batch_to_transition, to_output=transition_to_batch
    )
    loaded.postprocessor = PolicyProcessorPipeline(
        [AbsoluteActionsProcessorStep(enabled=True, relative_step=relative)],
        to_transition=policy_action_to_transition,
        to_output=transition_to_policy_action,
    )
    observations = episode()
    plan = confirm_plan(Predictor(loaded, plan_execution(loaded)), take_rows(observations, slice(0, 7)))
    assert plan.mode is Mode.CHUNKS  # stepping would add the state of the wrong frame
    chunk = Predictor(loaded, plan).chunks([take_rows(observations, np.array([0, 6]))])
    expected = observations["observation.state"][[0, 6]][:, None] + np.arange(6, dtype=np.float32)[None, :, None]
    np.testing.assert_allclose(chunk, expected, rtol=1e-6)


def test_observations_a_policy_was_not_made_for_give_one_line():
    loaded = make("act", chunk_size=4, n_action_steps=4, **ACT)
    observations = take_rows(episode(), slice(0, 1))
    del observations[CAMERAS[1]]
    with pytest.raises(UsageError, match="does not accept the data set's observations") as caught:
        Predictor(loaded, plan_execution(loaded)).chunks([observations])
    assert "\n" not in str(caught.value) and "--rename_map" in str(caught.value)
