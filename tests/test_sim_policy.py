"""The demonstration's policy: it trains, and LeRobot loads what was saved."""

from importlib.util import find_spec

import pytest
import torch

if not find_spec("mujoco"):  # not imported here: the package chooses the renderer first
    pytest.skip("extra sim", allow_module_level=True)

from lerobot.configs.policies import PreTrainedConfig
from lerobot.configs.train import TrainPipelineConfig
from lerobot.datasets.lerobot_dataset import LeRobotDataset
from lerobot.policies.factory import get_policy_class, make_pre_post_processors

from lerobot_diagnostics.sim.config_so101_sim import SimCameraConfig, SO101SimConfig
from lerobot_diagnostics.sim.configuration_sim_policy import SimConfig
from lerobot_diagnostics.sim.record import record
from lerobot_diagnostics.sim.train import train


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("policy")
    config = SO101SimConfig(calibration_dir=folder, cameras={"front": SimCameraConfig(width=96, height=72)})
    dataset = record(folder / "data", "local/sim", config, seeds=(1, 2), fps=10)
    untrained = train(dataset, [0], folder / "untrained", steps=2)
    return dataset, folder / "policy", untrained, train(dataset, [0], folder / "policy", steps=150)


def load(path):
    config = PreTrainedConfig.from_pretrained(path)
    return get_policy_class(config.type).from_pretrained(path), *make_pre_post_processors(config, str(path))


def test_training_learns(trained):
    _, _, untrained, loss = trained
    assert loss < 0.25 * untrained


def test_lerobot_loads_it_and_it_reproduces_the_demonstration(trained):
    dataset, path, *_ = trained
    policy, preprocess, postprocess = load(path)
    frame = LeRobotDataset("local/sim", root=dataset.root)[30]
    batch = preprocess({key: value for key, value in frame.items() if key.startswith("observation.")})
    predicted = postprocess(policy.select_action(batch))[0]
    assert predicted == pytest.approx(frame["action"], abs=8.0)  # degrees; the joints move through 50° and more
    assert not torch.allclose(batch["observation.images.front"], torch.zeros(1))


def test_stepping_and_chunks_agree(trained):
    dataset, path, *_ = trained
    policy, preprocess, _ = load(path)
    frame = LeRobotDataset("local/sim", root=dataset.root)[10]
    batch = preprocess({key: value for key, value in frame.items() if key.startswith("observation.")})
    chunk = policy.predict_action_chunk(batch)[0]
    policy.reset()
    stepped = torch.stack([policy.select_action(batch)[0] for _ in range(policy.config.n_action_steps)])
    assert torch.equal(stepped, chunk[: policy.config.n_action_steps])


def test_the_checkpoint_says_what_it_was_trained_on(trained):
    dataset, path, *_ = trained
    config = TrainPipelineConfig.from_pretrained(path)
    assert (config.dataset.repo_id, config.dataset.episodes) == ("local/sim", [0])
    assert str(config.dataset.root) == str(dataset.root)


@pytest.mark.parametrize("steps", [0, 11])
def test_more_steps_than_are_predicted_are_refused_as_lerobots_act_does(steps):
    with pytest.raises(ValueError, match=f"n_action_steps is {steps}, .*chunk_size=10"):
        SimConfig(device="cpu", n_action_steps=steps)
    assert SimConfig(device="cpu", n_action_steps=10).chunk_size == 10
