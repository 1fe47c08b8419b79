"""Episodes through checkpoints: what is fed, in which order, and that nothing is decoded or computed twice."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.openloop.checkpoint import CheckpointRef, LoadedPolicy
from lerobot_diagnostics.openloop.evaluate import ablate_pictures, bind, evaluate, look_batches
from lerobot_diagnostics.openloop.predict import ExecutionPlan, Mode
from lerobot_diagnostics.recording import Episode, open_recording
from tests.make_dataset import make_dataset, read_picture

FRONT, WRIST = "observation.images.front", "observation.images.wrist"


@pytest.fixture
def recording(tmp_path):
    root = make_dataset(tmp_path / "data", lengths=(20, 15, 7), cameras={"front": "h264", "wrist": "image"})
    return open_recording(root=root)


class Processor:
    steps = ()

    def __call__(self, x):
        return x

    def reset(self):
        pass


def feature(*shape):
    return SimpleNamespace(shape=shape)


class Policy:
    """Answers with the state, shifted by its index, and remembers what it was shown."""

    def __init__(self, horizon=6, history=0, shift=0.0, inputs=(FRONT, WRIST), use_picture=False, kind="stub"):
        self.config = SimpleNamespace(
            type=kind, n_obs_steps=history + 1, n_action_steps=horizon, use_amp=False, action_feature=feature(6),
            input_features={"observation.state": feature(6)} | {camera: feature(3, 48, 64) for camera in inputs},
            image_features=dict.fromkeys(inputs),
        )  # fmt: skip
        self.horizon, self.shift, self.use_picture = horizon, shift, use_picture
        self.batches = []

    def modules(self):
        return iter(())  # no network: nothing to fold

    def reset(self):
        from collections import deque

        self._action_queue = deque()

    def select_action(self, batch):
        assert "action" not in batch
        if not self._action_queue:
            self.batches.append(batch)
            answer = batch["observation.state"] + self.shift
            if self.use_picture:
                answer = answer + 100 * batch[FRONT][:, :, ::2].mean(dim=(1, 2, 3))[:, None]
            self._action_queue.extend([answer + k for k in range(self.horizon)])
        return self._action_queue.popleft()


def loaded(policy, label_step=1, rename=None):
    ref = CheckpointRef("made", label_step, local=True)
    return LoadedPolicy(ref, policy, Processor(), Processor(), rename or {}, "cpu")


def run(recording, *policies, episodes=((0, "train"), (1, "train"), (2, "held-out")), **options):
    by_step = {i + 1: loaded(policy, i + 1) for i, policy in enumerate(policies)}
    refs = [entry.ref for entry in by_step.values()]
    return evaluate(recording, episodes, refs, lambda ref: by_step[ref.step], **options)


def test_every_frame_gets_the_action_of_its_look(recording):
    result = run(recording, Policy(horizon=6), batch_size=4)
    for episode in result.episodes:
        states = episode.episode.states
        for t in range(len(episode.episode)):
            look = t - t % 6
            np.testing.assert_allclose(episode.predicted["step 1"][t], states[look] + (t - look), rtol=1e-5)
    assert result.episodes[1].looks["step 1"] == [0, 6, 12]
    assert [e.side for e in result.episodes] == ["train", "train", "held-out"]


def test_each_look_sees_its_own_pictures_and_state(recording):
    policy = Policy(horizon=6)
    run(recording, policy, batch_size=4)
    seen = [
        (read_picture((image.permute(1, 2, 0) * 255).round().to(torch.uint8).numpy()))
        for batch in policy.batches
        for image in batch[FRONT]
    ]
    looks = [(t, 0) for length in (20, 15, 7) for t in range(0, length, 6)]
    # The first entries are the run-time check that batching changes nothing.
    assert seen[-len(looks) :] == looks
    wrist = read_picture((policy.batches[-1][WRIST][0].permute(1, 2, 0) * 255).round().to(torch.uint8).numpy())
    assert wrist[1] == 1


def test_a_sweep_decodes_every_picture_once(recording, monkeypatch):
    asked = []
    frames = Episode.frames

    def counted(self, camera, indices=None):
        asked.append((self.index, camera, tuple(np.asarray(indices).tolist())))
        return frames(self, camera, indices)

    monkeypatch.setattr(Episode, "frames", counted)
    result = run(recording, *(Policy(horizon=10, shift=s, kind="act") for s in (0.0, 5.0, 9.0)))
    assert result.passes == 1
    looks = [entry for entry in asked if entry[2] != (0,) or entry[0] == 2]
    assert sorted(looks) == sorted(
        (e, camera, tuple(range(0, n, 10))) for e, n in ((0, 20), (1, 15), (2, 7)) for camera in (FRONT, WRIST)
    )
    first, last = (result.episodes[0].predicted[f"step {i}"] for i in (1, 3))
    np.testing.assert_allclose(last - first, 9.0, rtol=1e-5)


def test_checkpoints_that_look_at_other_frames_get_their_own_pass(recording):
    result = run(recording, Policy(horizon=10), Policy(horizon=5))
    assert result.passes == 2
    assert result.episodes[1].looks == {"step 1": [0, 10], "step 2": [0, 5, 10]}


def test_history_windows_are_the_frames_before_the_look(recording):
    episodes = [recording.episode(i) for i in range(3)]
    plan = ExecutionPlan(Mode.CHUNKS, 4, history=2)
    binding = bind(recording, loaded(Policy()))
    seen = []
    for looks, window in look_batches(episodes, plan, binding, batch_size=3):
        assert len(window) == 3
        for row, look in enumerate(looks):
            frames = [read_picture(observation[FRONT][row])[0] for observation in window]
            states = [observation["observation.state"][row] for observation in window]
            wanted = [max(look.frame - back, 0) for back in (2, 1, 0)]
            assert frames == wanted
            np.testing.assert_allclose(states, episodes[look.position].states[wanted], rtol=1e-5)
            seen.append(tuple(look))
    assert seen == [(e, t) for e, n in enumerate((20, 15, 7)) for t in range(0, n, 4)]


def test_history_longer_than_the_horizon_still_decodes_in_order(recording):
    plan = ExecutionPlan(Mode.CHUNKS, 1, history=3)
    episodes = [recording.episode(2)]
    for looks, window in look_batches(episodes, plan, bind(recording, loaded(Policy())), batch_size=4):
        for row, look in enumerate(looks):
            assert [read_picture(o[FRONT][row])[0] for o in window] == [max(look.frame - b, 0) for b in (3, 2, 1, 0)]


def test_a_frame_by_frame_policy_never_mixes_episodes(recording):
    class Plain(Policy):
        def reset(self):
            self.t = 0

        def select_action(self, batch):
            self.t += 1
            return batch["observation.state"] * 0 + self.t

    result = run(recording, Plain(), batch_size=8)
    for episode in result.episodes:
        np.testing.assert_allclose(episode.predicted["step 1"][:, 0], np.arange(1, len(episode.episode) + 1))


def test_ctrl_c_keeps_what_is_done(recording):
    class Interrupted(Policy):
        def select_action(self, batch):
            if not self._action_queue and len(self.batches) == 2:
                raise KeyboardInterrupt
            return super().select_action(batch)

    result = run(recording, Interrupted(horizon=6, kind="act"), batch_size=4)
    assert result.interrupted
    predicted = result.episodes[0].predicted["step 1"]
    assert np.isfinite(predicted).any() and np.isnan(result.episodes[2].predicted["step 1"]).all()


def test_what_does_not_fit_is_refused_with_both_sides(recording):
    policy = Policy(inputs=(FRONT, "observation.images.top"))
    with pytest.raises(UsageError, match=r"observation\.images\.top") as caught:
        bind(recording, loaded(policy))
    assert '--rename_map=\'{"observation.images.wrist": "observation.images.top"}\'' in str(caught.value)
    renamed = bind(recording, loaded(policy, rename={WRIST: "observation.images.top"}))
    assert renamed.cameras == (FRONT, WRIST)

    policy = Policy()
    policy.config.input_features["observation.state"] = feature(12)
    with pytest.raises(UsageError, match=r"shape \[6\] in the data set and \[12\] in the policy"):
        bind(recording, loaded(policy))
    policy = Policy()
    policy.config.action_feature = feature(7)
    with pytest.raises(UsageError, match=r"action has shape \[6\]"):
        bind(recording, loaded(policy))


def test_cameras_the_policy_does_not_take_are_not_decoded(recording):
    assert bind(recording, loaded(Policy(inputs=(WRIST,)))).cameras == (WRIST,)


def test_pictures_are_taken_away_and_exchanged(recording):
    for use_picture in (True, False):
        policy = Policy(horizon=3, use_picture=use_picture, kind="act")
        entry = loaded(policy)
        result = evaluate(recording, [(0, "train"), (1, "train")], [entry.ref], lambda _ref, e=entry: e)
        ablation = ablate_pictures(result, entry, recording, looks=8)
        assert ablation is not None and ablation.normal.shape == (8, 3, 6)
        changed = [np.abs(part - ablation.normal).max() for part in (ablation.blank, ablation.exchanged)]
        assert (min(changed) > 0.05) if use_picture else (max(changed) == 0)
    no_cameras = loaded(Policy(inputs=()))
    result = evaluate(recording, [(0, "train")], [no_cameras.ref], lambda _ref: no_cameras)
    assert ablate_pictures(result, no_cameras, recording) is None
