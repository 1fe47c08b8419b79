"""LeRobot's own held-out rule, re-derived from train_config.json."""

from types import SimpleNamespace

import pytest

from lerobot_diagnostics.openloop.split import (
    HELD_OUT,
    TRAIN,
    UNKNOWN,
    UNSEEN,
    TrainingData,
    derive_split,
    resolve_root,
    training_data,
)


def trained(episodes=None, eval_split=0.25):
    return TrainingData("user/data", None, None, episodes, eval_split)


def test_the_last_quarter_of_the_given_episodes_is_held_out():
    split = derive_split(
        trained((1, 2, 3, 4, 5, 6, 7)), same_dataset=True, episodes=range(8), first_task=dict.fromkeys(range(8), "fold")
    )
    assert split.of(TRAIN) == (1, 2, 3, 4, 5)
    assert split.of(HELD_OUT) == (6, 7)  # ceil(7 * 0.25) = 2
    assert split.of(UNSEEN) == (0,)


def test_each_task_holds_out_its_own_last_episodes():
    tasks = {0: "a", 1: "b", 2: "a", 3: "b", 4: "a", 5: ""}
    split = derive_split(trained(), same_dataset=True, episodes=range(6), first_task=tasks)
    assert split.of(HELD_OUT) == (3, 4, 5)  # one of three a, one of two b, the only one without a task
    assert split.of(TRAIN) == (0, 1, 2)


@pytest.mark.parametrize("eval_split", [0.1, 0.25, 0.5])
def test_the_rule_is_the_one_lerobot_trains_by(monkeypatch, eval_split):
    """Control against LeRobot's code itself, with the loading of data replaced."""
    from lerobot.datasets import factory

    tasks = [["x"], ["y"], ["x"], [], ["y"], ["x"], ["x"]]
    made = []

    def fake_dataset(*_args, episodes, **_kwargs):
        made.append(episodes)
        return SimpleNamespace(meta=meta)

    meta = SimpleNamespace(episodes={"tasks": tasks}, camera_keys=[])
    monkeypatch.setattr(
        factory, "make_dataset", lambda _cfg: SimpleNamespace(episodes=None, num_episodes=len(tasks), meta=meta)
    )
    monkeypatch.setattr(factory, "LeRobotDataset", fake_dataset)
    monkeypatch.setattr(factory, "resolve_delta_timestamps", lambda *_: None)
    dataset = SimpleNamespace(
        eval_split=eval_split, repo_id="u/d", root=None, revision=None, video_backend=None,
        image_transforms=SimpleNamespace(enable=False), use_imagenet_stats=False,
    )  # fmt: skip
    factory.make_train_eval_datasets(SimpleNamespace(dataset=dataset, trainable_config=None, tolerance_s=1e-4))
    split = derive_split(
        trained(None, eval_split),
        same_dataset=True,
        episodes=range(len(tasks)),
        first_task={i: t[0] if t else "" for i, t in enumerate(tasks)},
    )
    assert [sorted(made[0]), sorted(made[1])] == [list(split.of(TRAIN)), list(split.of(HELD_OUT))]


def test_what_cannot_be_known_is_said():
    split = derive_split(None, same_dataset=False, episodes=range(3), first_task={})
    assert set(split.sides.values()) == {UNKNOWN} and "train_config.json" in split.reason
    other = derive_split(trained(), same_dataset=False, episodes=range(3), first_task={})
    assert set(other.sides.values()) == {UNSEEN} and "user/data" in other.reason
    whole = derive_split(trained(None, 0.0), same_dataset=True, episodes=range(3), first_task={})
    assert whole.of(TRAIN) == (0, 1, 2) and "held no episodes out" in whole.reason


def test_training_data_is_read_from_train_config():
    read = training_data({"dataset": {"repo_id": "u/d", "root": "data/x", "episodes": [1, 2], "eval_split": 0.5}})
    assert read == TrainingData("u/d", "data/x", None, (1, 2), 0.5)
    assert training_data(None) is None
    assert training_data({"dataset": {"repo_id": ["u/a", "u/b"]}}) is None


def test_a_relative_training_root_is_found_beside_the_checkpoint(tmp_path):
    (tmp_path / "proj" / "data" / "x" / "meta").mkdir(parents=True)
    checkpoint = tmp_path / "proj" / "outputs" / "train" / "pretrained_model"
    checkpoint.mkdir(parents=True)
    assert resolve_root("data/x", checkpoint) == tmp_path / "proj" / "data" / "x"
    assert resolve_root("data/y", checkpoint) is None
    assert resolve_root(None, checkpoint) is None
