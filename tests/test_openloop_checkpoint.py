"""Finding and loading checkpoints, and one clear line for each way they are broken."""

import contextlib
import json

import pytest
import torch

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.openloop import checkpoint as module
from lerobot_diagnostics.openloop.checkpoint import find_checkpoints, load_policy


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A training output folder: steps 000100 and 000200 of a tiny ACT, and the `last` link where links work."""
    from lerobot.configs import FeatureType, PolicyFeature
    from lerobot.policies.factory import get_policy_class, make_policy_config, make_pre_post_processors

    torch.manual_seed(0)
    config = make_policy_config(
        "act", device="cpu", push_to_hub=False, dim_model=16, n_heads=2, dim_feedforward=16, n_encoder_layers=1,
        latent_dim=4, use_vae=False, chunk_size=4, n_action_steps=4, pretrained_backbone_weights=None,
    )  # fmt: skip
    config.input_features = {
        "observation.state": PolicyFeature(FeatureType.STATE, (3,)),
        "observation.environment_state": PolicyFeature(FeatureType.ENV, (3,)),
    }
    config.output_features = {"action": PolicyFeature(FeatureType.ACTION, (3,))}
    one = {"mean": torch.zeros(3), "std": torch.ones(3), "min": torch.zeros(3), "max": torch.ones(3)}
    stats = {"observation.state": one, "observation.environment_state": one, "action": one}
    pre, post = make_pre_post_processors(config, dataset_stats=stats)
    output = tmp_path_factory.mktemp("train")
    for step in ("000100", "000200"):
        model = output / "checkpoints" / step / "pretrained_model"
        get_policy_class("act")(config).save_pretrained(model)
        pre.save_pretrained(model)
        post.save_pretrained(model)
    with contextlib.suppress(OSError):  # Windows without the right to make links
        (output / "checkpoints" / "last").symlink_to("000200", target_is_directory=True)
    return output


@pytest.fixture
def one(saved, tmp_path):
    """A copy of one checkpoint, to break."""
    import shutil

    return shutil.copytree(saved / "checkpoints" / "000100" / "pretrained_model", tmp_path / "pretrained_model")


@pytest.mark.parametrize("below", ["", "checkpoints"])
def test_a_folder_of_checkpoints_is_found_in_step_order_without_the_last_link(saved, below):
    assert [ref.step for ref in find_checkpoints(str(saved / below))] == [100, 200]


@pytest.mark.parametrize("below", ["checkpoints/000200", "checkpoints/000200/pretrained_model", "checkpoints/last"])
def test_one_checkpoint_is_found_from_its_folder_or_a_link_to_it(saved, below):
    if not (saved / below).exists():
        pytest.skip("this file system has no links")
    (ref,) = find_checkpoints(str(saved / below))
    assert ref.step == 200 and ref.label == "step 200"


def test_a_loaded_policy_predicts_and_takes_overrides(saved):
    (ref,) = find_checkpoints(str(saved / "checkpoints" / "000100"))
    loaded = load_policy(ref, overrides=["--n_action_steps=2"], rename_map={"observation.x": "observation.state"})
    assert loaded.config.n_action_steps == 2
    assert loaded.rename_map == {"observation.x": "observation.state"}
    assert loaded.device == "cpu"
    assert load_policy(ref).rename_map == {}


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("--n_action_steps=many", "--policy.n_action_steps: Couldn't parse 'many' into an int. "),
        ("--n_action_stepz=2", "unknown flag --policy.n_action_stepz. Did you mean --policy.n_action_steps?"),
        ("--n_action_steps=99", "Got 99 for `n_action_steps` and 4 for `chunk_size`. Change --policy.n_action_steps."),
    ],
)
def test_an_override_that_does_not_fit_is_one_line_that_names_it(saved, override, says, capsys):
    (ref,) = find_checkpoints(str(saved / "checkpoints" / "000100"))
    with pytest.raises(UsageError) as refused:
        load_policy(ref, overrides=[override])
    assert says in str(refused.value) and "\n" not in str(refused.value)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("missing", "says"),
    [
        ("model.safetensors", "has no model.safetensors"),
        ("config.json", "has no config.json"),
        ("policy_preprocessor.json", "has no policy_preprocessor.json"),
        ("policy_preprocessor_step_3_normalizer_processor.safetensors", "does not load"),
    ],
)
def test_a_missing_file_is_named(one, missing, says):
    (one / missing).unlink()
    with pytest.raises(UsageError, match=says) as caught:
        load_policy(*find_checkpoints(str(one)))
    assert "\n" not in str(caught.value)


def test_a_checkpoint_from_before_processors_gets_lerobots_migration_command(one):
    for file in one.glob("policy_*"):
        file.unlink()
    with pytest.raises(UsageError, match=r"lerobot\.processor\.migrate_policy_normalization --pretrained-path"):
        load_policy(*find_checkpoints(str(one)))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"type": "no_such_policy"}, "no_such_policy"),
        ({"n_heads": "many"}, "cannot be used: n_heads: Couldn't parse 'many' into an int"),
    ],
)
def test_a_config_lerobot_cannot_read_gives_one_line(one, change, says):
    config = json.loads((one / "config.json").read_text()) | change
    (one / "config.json").write_text(json.dumps(config))
    with pytest.raises(UsageError, match=says):
        load_policy(*find_checkpoints(str(one)))


@pytest.mark.parametrize("file", ["config.json", "policy_preprocessor.json", "model.safetensors"])
def test_a_truncated_file_gives_one_line(one, file):
    (one / file).write_bytes((one / file).read_bytes()[:20])
    with pytest.raises(UsageError) as caught:
        load_policy(*find_checkpoints(str(one)))
    assert "\n" not in str(caught.value)


def test_what_is_not_a_checkpoint_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file.txt").write_text("x")
    for path in ("nowhere", "empty", "file.txt"):
        with pytest.raises(UsageError, match=r"--policy\.path"):
            find_checkpoints(str(tmp_path / path))


def test_a_hub_id_is_downloaded_through_huggingface_hub(one, monkeypatch):
    asked = []

    def download(repo_id, name, revision=None, **_):
        from huggingface_hub.errors import LocalEntryNotFoundError

        asked.append((repo_id, name, revision))
        if repo_id != "user/policy":
            raise LocalEntryNotFoundError("offline")
        return str(one / name)

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    (ref,) = find_checkpoints("user/policy", revision="v1")
    assert asked == [("user/policy", module.CONFIG, "v1")]
    assert ref.file("config.json") == one / "config.json"
    with pytest.raises(UsageError, match="the Hub did not answer"):
        find_checkpoints("user/other")


@pytest.mark.parametrize(
    ("error", "says"), [("GatedRepoError", "is gated"), ("RepositoryNotFoundError", "nor a Hub repository")]
)
def test_hub_refusals_are_put_in_plain_words(monkeypatch, error, says):
    import httpx
    from huggingface_hub import errors

    response = httpx.Response(401, request=httpx.Request("GET", "https://hub.invalid"))

    def download(*_args, **_kwargs):
        raise getattr(errors, error)("no", response=response)

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    with pytest.raises(UsageError, match=says) as caught:
        find_checkpoints("user/private")
    assert "hf auth login" in str(caught.value)


@pytest.mark.parametrize("device", ["cuda:9", "abacus"])
def test_a_device_that_is_not_there_is_refused_before_anything_is_loaded(device):
    with pytest.raises(UsageError, match=f"--device={device}"):
        load_policy(module.CheckpointRef("nowhere", None, local=True), device=device)
