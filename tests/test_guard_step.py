"""The processor step: what it refuses, what it lets pass, in every form a picture arrives in."""

import logging
from itertools import pairwise

import numpy as np
import pytest
import torch
from lerobot.processor import PolicyProcessorPipeline
from vision_scenes import camera, recording, relit, warped

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.guard import step as module
from lerobot_diagnostics.guard.step import CameraGuardError, CameraSwapGuard, register
from lerobot_diagnostics.vision import ReferenceViews

SEEDS = {"front": 1, "wrist": 2}


def loaded(frames, episodes):
    step = CameraSwapGuard()
    arrays = ReferenceViews.build(frames, episodes=episodes).arrays()
    step.load_state_dict({key: torch.from_numpy(np.array(array)) for key, array in arrays.items()})
    return step


@pytest.fixture(scope="module")
def prepared():
    return loaded(*recording(SEEDS))


@pytest.fixture
def guard(prepared):
    def make(**config):
        step = CameraSwapGuard(**config)
        step._state, step._comparer = prepared._state, prepared._comparer  # the second it takes to load, once
        return step

    return make


def live(**shown):
    """{camera: picture}, as recorded unless another picture is given for a name."""
    return {name: camera(seed, 0, 999) for name, seed in SEEDS.items()} | shown


def transition(pictures, form=None, **more):
    form = form or (lambda p: torch.from_numpy(p).permute(2, 0, 1)[None].float() / 255)
    observation = {f"observation.images.{name}": form(picture) for name, picture in pictures.items()}
    return {"observation": {**observation, **more}, "action": None}


def refusal(step, pictures, **more):
    with pytest.raises(CameraGuardError) as refused:
        step(transition(pictures, **more))
    return str(refused.value)


FORMS = {
    "sync rollout: float [1, 3, H, W]": lambda p: torch.from_numpy(p).permute(2, 0, 1)[None].float() / 255,
    "half precision": lambda p: (torch.from_numpy(p).permute(2, 0, 1)[None].float() / 255).half(),
    "uint8 [3, H, W]": lambda p: torch.from_numpy(p).permute(2, 0, 1),
    "uint8 [H, W, 3]": torch.from_numpy,
    "array [H, W, 3]": lambda p: p,
    "float [1, H, W, 3]": lambda p: torch.from_numpy(p)[None].float() / 255,
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_every_form_of_a_picture_is_judged_the_same(guard, form):
    right, wrong = live(), live(front=live()["wrist"], wrist=live()["front"])
    given = transition(right, form)
    assert guard()(given) is given
    with pytest.raises(CameraGuardError, match="SWAPPED"):
        guard()(transition(wrong, form))


def test_a_swap_names_both_flags_in_its_last_line(guard):
    last = refusal(guard(), live(front=live()["wrist"], wrist=live()["front"])).splitlines()[-1]
    assert last.startswith("camera-swap guard: SWAPPED: front shows the view recorded as wrist, wrist shows")
    assert "--robot.cameras" in last
    key = "observation.images."
    mapping = f'{{"{key}front": "{key}wrist", "{key}wrist": "{key}front"}}'
    assert f"--rename_map='{mapping}'" in last


@pytest.mark.parametrize(
    ("code", "picture"),
    [
        ("DEAD", lambda p: np.zeros_like(p)),
        ("CHANNELS", lambda p: p[..., ::-1].copy()),
        ("ROTATED", lambda p: np.rot90(p, 2).copy()),
        ("MIRRORED", lambda p: p[:, ::-1].copy()),
        ("UNKNOWN_VIEW", lambda _: camera(77, 0)),
    ],
)
def test_wrong_pictures_are_refused(guard, code, picture):
    text = refusal(guard(), live(front=picture(live()["front"])))
    assert f"  {code}: front" in text
    assert text.splitlines()[-1].startswith(f"camera-swap guard: {code}: ")


def test_light_and_motion_are_warned_of_with_their_size_and_block_beyond_the_limit(guard, caplog):
    with caplog.at_level(logging.WARNING):
        guard()(transition(live(front=warped(relit(live()["front"], 0.7, 0.7, 0.7), 9, 0))))
    said = [r.getMessage() for r in caplog.records]
    assert any("LIGHTING: front is 30% darker" in text for text in said)
    assert any("MOVED: front" in text and "9." in text for text in said)
    assert "LIGHTING" in refusal(guard(), live(front=relit(live()["front"], 0.4, 0.4, 0.4)))
    assert "MOVED" in refusal(guard(), live(front=warped(live()["front"], 24, 0)))  # 7.5 % of the width
    guard(limits={"moved_share": 0.1})(transition(live(front=warped(live()["front"], 24, 0))))


def test_a_right_setup_says_nothing(guard, caplog):
    with caplog.at_level(logging.WARNING):
        guard()(transition(live()))
    assert not caplog.records


def test_actions_can_be_changed(guard, caplog):
    turned = live(front=live()["front"][:, ::-1].copy())
    with caplog.at_level(logging.WARNING):
        guard(actions={"MIRRORED": "warn"})(transition(turned))
    assert "MIRRORED" in caplog.text
    caplog.clear()
    guard(actions={"MIRRORED": "ignore"})(transition(turned))
    assert not caplog.records
    assert "LIGHTING" in refusal(
        guard(actions={"LIGHTING": "block"}), live(front=relit(live()["front"], 0.75, 0.75, 0.75))
    )


@pytest.mark.parametrize("actions", [{"SWAP": "block"}, {"SWAPPED": "refuse"}])
def test_unknown_actions_are_refused(actions):
    with pytest.raises(UsageError, match="--actions"):
        CameraSwapGuard(actions=actions)


def test_near_twins_are_undecided_and_block():
    frames, episodes = recording({"front": 1})
    step = loaded({"left": frames["front"], "right": frames["front"]}, episodes)
    picture = camera(1, 0, 999)
    assert "UNDECIDED" in refusal(step, {"left": picture, "right": picture})


def test_a_missing_camera_blocks_and_one_more_is_ignored(guard):
    assert "MISSING_CAMERA: wrist" in refusal(guard(), {"front": live()["front"]})
    assert "MISSING_CAMERA: front" in refusal(guard(), {})
    guard()(transition(live(top=camera(2, 0))))  # a third that looks like wrist


def test_training_batches_and_actions_alone_are_not_judged(guard):
    wrong = transition(live(front=np.zeros((240, 320, 3), np.uint8)))
    step = guard()
    step({**wrong, "action": torch.zeros(1, 6)})
    step({"observation": None, "action": torch.zeros(1, 6)})
    with pytest.raises(CameraGuardError):
        step(wrong)


def test_every_observation_of_a_batch_is_judged(guard):
    def batch(*pictures):
        return torch.stack([torch.from_numpy(p).permute(2, 0, 1) for p in pictures])

    front, wrist = live()["front"], live()["wrist"]
    observation = {"observation.images.front": batch(front, front), "observation.images.wrist": batch(wrist, wrist)}
    guard()({"observation": observation})
    observation["observation.images.front"] = batch(front, np.zeros_like(front))
    with pytest.raises(CameraGuardError, match="DEAD"):
        guard()({"observation": observation})


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_pictures_are_not_touched_when_nothing_is_due(guard, monkeypatch):
    clock = Clock()
    step = guard(every_s=5.0, clock=clock)
    looked = []
    original = module.pictures_of
    monkeypatch.setattr(module, "pictures_of", lambda o: looked.append(clock.now) or original(o))
    for clock.now in (0.0, 0.1, 4.9, 5.0, 5.1, 10.0):
        step(transition(live()))
    assert looked == [0.0, 5.0, 10.0]
    once = guard()
    looked.clear()
    for _ in range(3):
        once(transition(live()))
    assert len(looked) == 1
    once.reset()
    once(transition(live()))
    assert len(looked) == 2


def test_in_a_run_a_fault_must_last_a_second_to_block(guard, caplog):
    clock = Clock()
    step = guard(every_s=5.0, clock=clock)
    noise = iter(range(100))

    def wrist():
        return camera(2, 0, next(noise))  # two pictures of a camera are never the same

    def black():
        return live(front=np.zeros((240, 320, 3), np.uint8), wrist=wrist())

    step(transition(live()))
    clock.now = 5.0
    step(transition(black()))
    assert "DEAD" in caplog.text  # said at once
    clock.now = 5.5
    step(transition(black()))  # not yet
    clock.now = 6.0
    step(transition(live(wrist=wrist())))  # gone: a hand
    clock.now = 11.0
    step(transition(black()))
    clock.now = 12.0
    assert "  DEAD: front" in refusal(step, black())


def test_a_camera_that_freezes_in_a_run_is_refused(guard):
    clock = Clock()
    step = guard(every_s=5.0, clock=clock)
    still = live()["front"]
    with pytest.raises(CameraGuardError, match="FROZEN: front is frozen"):
        for k in range(5):
            clock.now = 5.0 * k
            step(transition(live(front=still, wrist=camera(2, 0, 500 + k))))
    assert 3 <= k <= 4
    step.reset()
    for _ in range(5):  # the control: nothing moves at all, as before a simulator starts
        clock.now += 5.0
        step(transition(live()))
    step.reset()
    for k in range(5):  # a simulation: the arm stands, one view repeats and a shadow moves in the other
        clock.now += 5.0
        standing = {"observation.state": torch.full((1, 6), 10.0)}
        step(transition(live(front=still, wrist=camera(2, 0, 500 + k)), **standing))
    with pytest.raises(CameraGuardError, match="FROZEN"):  # the arm moves, no picture does
        for k in range(5):
            clock.now += 5.0
            step(transition(live(), **{"observation.state": torch.full((1, 6), 10.0 * k)}))


def test_pictures_stretched_by_the_async_server_are_judged_at_the_recorded_size(guard, caplog):
    import cv2

    small = {name: cv2.resize(p, (96, 96)) for name, p in live().items()}
    with caplog.at_level(logging.WARNING):
        guard(policy_sizes={name: [96, 96] for name in SEEDS})(transition(small))
    assert not caplog.records
    guard()(transition(small))  # the control: such a picture from a camera is another resolution and framing
    assert "RESOLUTION" in caplog.text


def test_what_is_saved_is_what_was_loaded(guard, tmp_path, caplog):
    config = {"every_s": 3.0, "actions": {"MOVED": "ignore"}, "policy_sizes": {"front": [240, 320]}}
    pipeline = PolicyProcessorPipeline(steps=[guard(**config)], name="policy_preprocessor")
    caplog.clear()
    pipeline.save_pretrained(tmp_path)
    assert "--detach=true" in caplog.text  # before a push
    again = PolicyProcessorPipeline.from_pretrained(tmp_path, "policy_preprocessor.json").steps[0]
    assert again.get_config() == pipeline.steps[0].get_config()
    assert again.get_config()["every_s"] == 3.0
    first, second = pipeline.steps[0].state_dict(), again.state_dict()
    assert first.keys() == second.keys()
    assert all(torch.equal(first[key], second[key]) for key in first)
    size = sum(t.numel() * t.element_size() for t in first.values())
    assert size < 1_000_000 * len(SEEDS)
    again(transition(live()))
    again.reset()
    assert "SWAPPED" in refusal(again, live(front=live()["wrist"], wrist=live()["front"]))


def test_it_is_found_by_its_registry_name_and_saved_by_its_class():
    register()
    register()  # discovery may run more than once
    pipeline = PolicyProcessorPipeline.from_config({"name": "p", "steps": [{"registry_name": "camera_swap_guard"}]})
    assert isinstance(pipeline.steps[0], CameraSwapGuard)
    assert pipeline.get_config()["steps"][0]["class"] == "lerobot_diagnostics.guard.step.CameraSwapGuard"


def test_without_its_reference_views_it_stops():
    with pytest.raises(RuntimeError, match="--attach_to"):
        CameraSwapGuard()(transition(live()))


def test_three_cameras_rotated_are_mended_by_one_map():
    seeds = {"a": 1, "b": 2, "c": 3}
    step = loaded(*recording(seeds))
    pictures = {n: camera(s, 0, 999) for n, s in seeds.items()}
    turned = {n: pictures[m] for n, m in pairwise(["a", "b", "c", "a"])}
    last = refusal(step, turned).splitlines()[-1]
    assert '"observation.images.a": "observation.images.b"' in last
    assert '"observation.images.c": "observation.images.a"' in last
    mended = {"a": turned["c"], "b": turned["a"], "c": turned["b"]}  # what that --rename_map makes of it
    step(transition(mended))
