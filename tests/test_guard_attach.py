"""Attaching writes a whole guarded copy; LeRobot loads it, re-saves it, and detaching gives back what was there."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from lerobot.configs import PreTrainedConfig
from lerobot.policies.factory import make_pre_post_processors
from rig import stock
from rig.servos import REST
from vision_scenes import camera, recording

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.guard import attach as module
from lerobot_diagnostics.guard.attach import (
    CLASS_PATH,
    PREPROCESSOR,
    STATE_FILE,
    attach,
    detach,
    guard_of,
    saved_rename_map,
    stored_references,
)
from lerobot_diagnostics.guard.step import CameraGuardError, CameraSwapGuard
from lerobot_diagnostics.vision import ReferenceViews

SEEDS = {"front": 1, "wrist": 2}


@pytest.fixture(scope="module")
def references():
    frames, episodes = recording(SEEDS)
    return ReferenceViews.build(frames, episodes=episodes)


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    return stock.checkpoint(tmp_path_factory.mktemp("policy"), dict.fromkeys(SEEDS, (240, 320)), mean=REST)


@pytest.fixture(scope="module")
def guarded(policy, references, tmp_path_factory):
    return attach(policy, tmp_path_factory.mktemp("copy") / "guarded", references, every_s=5.0)


def preprocessor(folder, rename_map=None):
    """As rollout loads it."""
    overrides = {
        "device_processor": {"device": "cpu"},
        "rename_observations_processor": {"rename_map": rename_map or {}},
    }
    config = PreTrainedConfig.from_pretrained(folder)
    return make_pre_post_processors(config, pretrained_path=str(folder), preprocessor_overrides=overrides)[0]


def observation(**shown):
    batch = {
        f"observation.images.{name}": torch.from_numpy(picture).permute(2, 0, 1)[None] / 255
        for name, picture in shown.items()
    }
    return {**batch, "observation.state": torch.zeros(1, 6)}


FRONT, WRIST = camera(1, 0, 999), camera(2, 0, 999)


def test_the_copy_is_whole_and_the_weights_share_their_space(policy, guarded):
    original = {p.name: p for p in policy.iterdir()}
    copy = {p.name: p for p in guarded.folder.iterdir()}
    assert set(copy) == {*original, STATE_FILE}
    weights = "model.safetensors"
    assert original[weights].stat().st_size > module.LINK_FROM_BYTES
    assert copy[weights].samefile(original[weights])
    assert guarded.linked == 1
    for name in set(original) - {weights, PREPROCESSOR}:
        assert copy[name].read_bytes() == original[name].read_bytes()
        assert not copy[name].samefile(original[name])
    assert all(0 < size < 1_000_000 for size in guarded.bytes_a_camera.values())
    assert copy[STATE_FILE].stat().st_size < 1_000_000 * len(SEEDS)


def test_it_stands_directly_after_the_rename_step_and_the_others_are_untouched(policy, guarded):
    before = json.loads((policy / PREPROCESSOR).read_text())["steps"]
    after = json.loads((guarded.folder / PREPROCESSOR).read_text())["steps"]
    assert after[0]["registry_name"] == "rename_observations_processor"
    assert after[1]["class"] == CLASS_PATH
    assert after[:1] + after[2:] == before


def test_lerobot_loads_it_and_the_guard_sees_the_policys_own_names(guarded):
    preprocessor(guarded.folder)(observation(front=FRONT, wrist=WRIST))
    with pytest.raises(CameraGuardError, match="SWAPPED"):
        preprocessor(guarded.folder)(observation(front=WRIST, wrist=FRONT))
    renamed = {
        "observation.images.front": "observation.images.wrist",
        "observation.images.wrist": "observation.images.front",
    }
    preprocessor(guarded.folder, renamed)(observation(front=WRIST, wrist=FRONT))  # what the refusal told to do
    with pytest.raises(CameraGuardError, match="SWAPPED"):
        preprocessor(guarded.folder, renamed)(observation(front=FRONT, wrist=WRIST))


def test_a_checkpoint_that_lerobot_saves_again_keeps_its_guard(guarded, tmp_path):
    loaded = preprocessor(guarded.folder)
    loaded.save_pretrained(tmp_path, config_filename=PREPROCESSOR)
    for other in guarded.folder.glob("*post*"):
        shutil.copy(other, tmp_path)
    shutil.copy(guarded.folder / "config.json", tmp_path)
    assert guard_of(tmp_path)["config"]["every_s"] == 5.0
    again = preprocessor(tmp_path)
    assert [type(s) for s in again.steps] == [type(s) for s in loaded.steps]
    with pytest.raises(CameraGuardError, match="SWAPPED"):
        again(observation(front=WRIST, wrist=FRONT))
    detach(tmp_path)
    assert not any(isinstance(s, CameraSwapGuard) for s in preprocessor(tmp_path).steps)


def test_open_loop_evaluation_of_a_guarded_checkpoint_sees_every_recorded_picture(guarded):
    from lerobot_diagnostics.openloop.checkpoint import find_checkpoints, load_policy

    loaded = load_policy(find_checkpoints(str(guarded.folder))[0])
    loaded.preprocessor(observation(front=WRIST, wrist=np.zeros_like(FRONT)))


def test_without_the_package_a_guarded_checkpoint_fails_and_names_it(guarded):
    code = (
        "import sys; sys.modules['lerobot_diagnostics'] = None\n"
        "from lerobot.processor import PolicyProcessorPipeline\n"
        f"PolicyProcessorPipeline.from_pretrained({str(guarded.folder)!r}, '{PREPROCESSOR}')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode != 0
    assert "lerobot_diagnostics" in done.stderr.splitlines()[-1]


def test_detaching_gives_back_what_was_there(policy, references, tmp_path):
    folder = attach(policy, tmp_path / "guarded", references).folder
    detach(folder)
    assert {p.name for p in folder.iterdir()} == {p.name for p in policy.iterdir()}
    assert json.loads((folder / PREPROCESSOR).read_text()) == json.loads((policy / PREPROCESSOR).read_text())
    with pytest.raises(UsageError, match="no guard"):
        detach(folder)


def test_attaching_again_replaces_the_guard(guarded, references, tmp_path):
    folder = attach(guarded.folder, tmp_path / "twice", references, actions={"MOVED": "block"}).folder
    steps = json.loads((folder / PREPROCESSOR).read_text())["steps"]
    assert [step.get("class") for step in steps].count(CLASS_PATH) == 1
    assert guard_of(folder)["config"]["actions"] == {"MOVED": "block"}


def test_the_stored_views_come_back(guarded, policy, references):
    stored = stored_references(guarded.folder)
    assert list(stored.cameras) == list(SEEDS)
    thumb = stored.cameras["front"].thumbs[0].astype(float)
    assert np.abs(thumb - references.cameras["front"].thumbs[0]).mean() < 8  # JPEG on 64 × 64 pixels
    assert np.abs(thumb - references.cameras["wrist"].thumbs[0]).mean() > 30  # the control
    assert saved_rename_map(guarded.folder) == {}
    with pytest.raises(UsageError, match="--attach_to"):
        stored_references(policy)


def test_nothing_is_overwritten_and_nothing_half_written(policy, references, tmp_path, monkeypatch):
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "file").write_text("mine")
    with pytest.raises(UsageError, match="not empty"):
        attach(policy, tmp_path / "used", references)

    def full(*_args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "save_file", full)
    with pytest.raises(UsageError, match="No space left"):
        attach(policy, tmp_path / "new", references)
    assert [p.name for p in tmp_path.iterdir()] == ["used"]


def test_where_the_disk_does_not_link_files_are_copied(policy, references, tmp_path, monkeypatch):
    def refuse(*_args):
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(module.os, "link", refuse)
    done = attach(policy, tmp_path / "copy", references)
    assert done.linked == 0
    assert (done.folder / "model.safetensors").read_bytes() == (policy / "model.safetensors").read_bytes()


def test_what_is_no_checkpoint_is_refused(references, tmp_path):
    with pytest.raises(UsageError, match="migrate_policy_normalization"):
        attach(tmp_path, tmp_path / "x", references)
