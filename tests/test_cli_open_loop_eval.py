"""lerobot-open-loop-eval as a user types it: the report, and one line with exit code 2 for every mistake."""

import json
import shutil

import pytest
import torch

from lerobot_diagnostics.cli.open_loop_eval import main
from tests.make_dataset import make_dataset

CAMERA = "observation.images.front"


def save_checkpoint(model, dataset_root, horizon=5):
    """A tiny random ACT with processors, and train_config.json that names the data set (one of four held out)."""
    from lerobot.configs import FeatureType, PolicyFeature
    from lerobot.policies.factory import get_policy_class, make_policy_config, make_pre_post_processors

    config = make_policy_config(
        "act", device="cpu", push_to_hub=False, dim_model=16, n_heads=2, dim_feedforward=16, n_encoder_layers=1,
        latent_dim=4, use_vae=False, chunk_size=horizon, n_action_steps=horizon, pretrained_backbone_weights=None,
    )  # fmt: skip
    config.input_features = {
        "observation.state": PolicyFeature(FeatureType.STATE, (6,)),
        CAMERA: PolicyFeature(FeatureType.VISUAL, (3, 48, 64)),
    }
    config.output_features = {"action": PolicyFeature(FeatureType.ACTION, (6,))}
    joints = {"mean": torch.zeros(6), "std": torch.full((6,), 30.0)}
    stats = {
        "observation.state": joints,
        "action": joints,
        CAMERA: {"mean": torch.full((3, 1, 1), 0.5), "std": torch.full((3, 1, 1), 0.25)},
    }
    pre, post = make_pre_post_processors(config, dataset_stats=stats)
    get_policy_class("act")(config).save_pretrained(model)
    pre.save_pretrained(model)
    post.save_pretrained(model)
    training = {"dataset": {"repo_id": "local/made", "root": str(dataset_root), "episodes": None, "eval_split": 0.25}}
    (model / "train_config.json").write_text(json.dumps(training))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    torch.manual_seed(0)
    root = tmp_path_factory.mktemp("made")
    make_dataset(root / "data", lengths=(40, 40, 40, 40), cameras={"front": "h264"})
    for step in ("000100", "000200"):
        save_checkpoint(root / "checkpoints" / step / "pretrained_model", root / "data")
    return root


def run(monkeypatch, *flags):
    monkeypatch.setattr("sys.argv", ["lerobot-open-loop-eval", *map(str, flags)])
    return main()


def test_a_sweep_reports_both_sides_and_a_random_policy_fails(made, tmp_path, monkeypatch, capsys):
    code = run(
        monkeypatch, f"--policy.path={made / 'checkpoints'}", f"--output_dir={tmp_path / 'out'}", "--save_rrd=true"
    )
    out = capsys.readouterr().out
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert code == 1  # random weights do not reproduce anything
    assert report["verdict"]["cause"] == "model"
    assert report["results"]["reported_checkpoint"] == "step 200"
    assert report["results"]["split"] == {"reason": "", "train": [0, 1, 2], "held_out": [3]}
    assert set(report["results"]["joints"]["step 100"]) == {"train", "held-out"}
    assert report["results"]["decode_passes"] == 1
    assert {"hold_state", "train_mean", "mean_trajectory"} == set(
        report["results"]["joints"]["step 200"]["train"][0]["baselines"]
    )
    for picture in report["pictures"]:
        assert (tmp_path / "out" / picture["path"]).stat().st_size > 1000
    page = (tmp_path / "out" / "report.html").read_text()
    assert "http://" not in page.replace("http://www.w3.org", "") and "shoulder_pan" in page
    assert (tmp_path / "out" / "open_loop.rrd").stat().st_size > 1000
    assert "Checkpoints" in out


def test_ctrl_c_writes_the_report_and_ends_as_an_interruption(made, tmp_path, monkeypatch, capsys):
    def stop(*_args, **_settings):
        raise KeyboardInterrupt

    monkeypatch.setattr("lerobot_diagnostics.openloop.evaluate._run", stop)
    path = f"--policy.path={made / 'checkpoints' / '000100' / 'pretrained_model'}"
    assert run(monkeypatch, path, f"--output_dir={tmp_path / 'out'}") == 130
    verdict = json.loads((tmp_path / "out" / "report.json").read_text())["verdict"]
    assert verdict["summary"] == "Stopped before one episode was predicted to its end."
    assert capsys.readouterr().err.splitlines()[-1] == "lerobot-open-loop-eval: interrupted."


def test_overrides_episodes_and_root_are_taken(made, tmp_path, monkeypatch):
    flags = ("--policy.n_action_steps=2", "--dataset.episodes=[1]", f"--dataset.root={made / 'data'}")
    path = f"--policy.path={made / 'checkpoints' / '000100' / 'pretrained_model'}"
    run(monkeypatch, path, *flags, f"--output_dir={tmp_path / 'out'}")
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["results"]["execution"]["step 100"]["horizon"] == 2
    assert report["inputs"]["episodes"] == [1]


def broken(made, tmp_path, kind):
    """Flags that cannot work, and what the one line must say."""
    model = made / "checkpoints" / "000100" / "pretrained_model"
    data = shutil.copytree(made / "data", tmp_path / "data")
    base = [f"--policy.path={model}", f"--dataset.root={data}"]
    if kind == "missing episode":
        return [*base, "--dataset.episodes=[9]"], "no episode 9; the data set has 0-3"
    if kind == "missing checkpoint":
        return [f"--policy.path={tmp_path / 'nothing'}"], "there is no checkpoint at"
    if kind == "no path":
        return [base[1]], "Pass --policy.path"
    if kind == "missing weights":
        copy = shutil.copytree(model, tmp_path / "model")
        (copy / "model.safetensors").unlink()
        return [f"--policy.path={copy}", base[1]], "has no model.safetensors"
    if kind == "wrong rename map":
        said = "--rename_map: there is no key front; did you mean observation.images.front?"
        return [*base, f"--rename_map={{front: {CAMERA}}}"], said
    if kind == "corrupt video":
        (video,) = data.rglob("*.mp4")
        video.write_bytes(b"not a video" * 100)
        return base, "file-000.mp4"
    if kind == "old data set":
        info = json.loads((data / "meta/info.json").read_text()) | {"codebase_version": "v2.1"}
        (data / "meta/info.json").write_text(json.dumps(info))
        return base, "--dataset.convert=true"
    if kind == "existing output":
        (tmp_path / "full").mkdir()
        (tmp_path / "full" / "mine.txt").write_text("mine")
        return [*base, f"--output_dir={tmp_path / 'full'}"], "--output_dir"
    if kind == "wrong shape":
        make_dataset(tmp_path / "seven", size=7, names=None, cameras={"front": "image"})
        return [base[0], f"--dataset.root={tmp_path / 'seven'}"], "has shape [7] in the data set and [6] in the policy"
    assert kind == "wrong camera"
    make_dataset(tmp_path / "top", cameras={"top": "image"})
    return [base[0], f"--dataset.root={tmp_path / 'top'}"], "--rename_map="


KINDS = (
    "missing episode", "missing checkpoint", "no path", "missing weights", "corrupt video", "old data set",
    "existing output", "wrong shape", "wrong camera", "wrong rename map",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_mistake_gives_one_line_and_exit_code_2(made, tmp_path, monkeypatch, capsys, kind):
    flags, says = broken(made, tmp_path, kind)
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, *flags) == 2
    error = capsys.readouterr().err
    lines = [line for line in error.splitlines() if line.startswith("lerobot-open-loop-eval: error:")]
    assert len(lines) == 1 and says in lines[0]
    assert "Traceback" not in error
    if kind == "existing output":
        assert [p.name for p in (tmp_path / "full").iterdir()] == ["mine.txt"]
