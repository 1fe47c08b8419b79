"""lerobot-diagnose as a user types it: a made data set and checkpoint, and the shared real recordings where present."""

import io
import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from lerobot_diagnostics.cli.diagnose import main
from tests.make_dataset import make_dataset
from tests.test_cli_open_loop_eval import save_checkpoint

DATA = os.environ.get("LEROBOT_DIAGNOSTICS_DATA")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    torch.manual_seed(0)
    root = tmp_path_factory.mktemp("made")
    make_dataset(root / "data", lengths=(40, 40, 40, 40), cameras={"front": "h264"})
    save_checkpoint(root / "model", root / "data")
    return root


def run(monkeypatch, out, *flags):
    monkeypatch.setattr("sys.argv", ["lerobot-diagnose", *map(str, flags), f"--output_dir={out}"])
    code = main()
    report = out / "report.json"
    return code, json.loads(report.read_text()) if report.exists() else None


def codes(report, *statuses):
    return {f["code"] for f in report["findings"] if f["status"] in statuses}


def ladder(report):
    return {row[0]: row[1] for row in report["tables"][0]["rows"]}


def test_policy_and_data_set_alone_work_offline(made, tmp_path, monkeypatch, capsys):
    code, report = run(monkeypatch, tmp_path / "out", f"--policy.path={made / 'model'}")
    assert code == 1  # a random policy
    assert report["verdict"]["cause"] == "data"  # the statistics it was saved with are made up
    assert {"STATS_STALE", "POOR_FIT"} <= set(report["verdict"]["because"])
    assert ladder(report)["files"] == "pass"
    assert ladder(report)["open loop"] == "fail"
    assert "MISSING_FILES" in codes(report, "pass")
    said = capsys.readouterr().out
    assert said.index("1. files") < said.index("open loop: predicts")
    assert (tmp_path / "out" / "report.html").read_text().count("The ladder")


def test_a_rename_map_with_a_key_that_nothing_has(made, tmp_path, monkeypatch, capsys):
    flags = [f"--dataset.root={made / 'data'}", "--rename_map={front: observation.images.tip}"]
    code, report = run(monkeypatch, tmp_path / "out", *flags)
    assert code == 2 and report is None
    said = "--rename_map: there is no key front; did you mean observation.images.front?"
    assert said in capsys.readouterr().err
    code, report = run(
        monkeypatch, tmp_path / "right", flags[0], "--rename_map={observation.images.front: observation.images.tip}"
    )
    assert code == 0 and report is not None


def test_a_missing_video_is_a_finding_and_not_the_end(made, tmp_path, monkeypatch):
    import shutil

    root = tmp_path / "data"
    shutil.copytree(made / "data", root)
    next(root.glob("videos/**/*.mp4")).unlink()
    code, report = run(monkeypatch, tmp_path / "out", f"--dataset.root={root}")
    assert code == 1
    assert codes(report, "fail") == {"MISSING_FILES"}
    assert report["verdict"]["because"] == ["MISSING_FILES"]


def test_a_checkpoint_without_weights_is_named_and_the_files_are_still_judged(made, tmp_path, monkeypatch):
    import shutil

    model = tmp_path / "model"
    shutil.copytree(made / "model", model)
    (model / "model.safetensors").unlink()
    code, report = run(monkeypatch, tmp_path / "out", f"--policy.path={model}", f"--dataset.root={made / 'data'}")
    assert code == 1
    assert "model.safetensors" in report["verdict"]["summary"]
    assert ladder(report)["files"] == "pass"


def test_a_fault_of_the_data_outranks_what_it_explains(tmp_path, monkeypatch):
    def actions(_episode, length):
        return (60 * np.sin(np.arange(length)[:, None] / 15 + np.arange(6))).astype(np.float32)

    def reversed_lift(episode, length):
        return actions(episode, length) * np.array([1, -1, 1, 1, 1, 1], np.float32)

    root = make_dataset(tmp_path / "data", lengths=(120,), actions=actions, states=reversed_lift)
    code, report = run(monkeypatch, tmp_path / "out", f"--dataset.root={root}")
    assert code == 1
    assert report["verdict"]["cause"] == "calibration"
    assert report["verdict"]["because"] == ["SIGN"]


def test_a_policy_that_is_not_there_is_one_line(tmp_path, monkeypatch, capsys):
    code, report = run(monkeypatch, tmp_path / "out", "--policy.path=/nowhere/at/all", "--dataset.root=/nowhere")
    assert (code, report) == (2, None)
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(("asked", "says"), [("[99]", "no episode 99"), ("[]", "names no episode")])
def test_an_episode_that_does_not_exist_is_one_line_that_says_which_do(
    made, tmp_path, monkeypatch, capsys, asked, says
):
    flags = (f"--dataset.root={made / 'data'}", f"--dataset.episodes={asked}")
    code, report = run(monkeypatch, tmp_path / "out", *flags)
    assert (code, report) == (2, None)
    said = capsys.readouterr().err
    assert says in said and "0-3" in said and said.count("\n") == 1


def test_a_setup_file_that_is_there_is_refused_before_anything_is_looked_at(made, tmp_path, monkeypatch, capsys):
    there = tmp_path / "setup.yaml"
    there.write_text("mine: 1\n")
    code, report = run(monkeypatch, tmp_path / "out", f"--dataset.root={made / 'data'}", f"--save_setup={there}")
    assert (code, report, there.read_text()) == (2, None, "mine: 1\n")
    said = capsys.readouterr()
    assert (said.out, "--save_setup" in said.err) == ("", True)


def test_ctrl_c_writes_what_was_found_until_then(made, tmp_path, monkeypatch, capsys):
    def stop(*_args, **_settings):
        raise KeyboardInterrupt

    monkeypatch.setattr("lerobot_diagnostics.diagnose.run.judge_clock", stop)
    code, report = run(monkeypatch, tmp_path / "out", f"--policy.path={made / 'model'}")
    assert code == 130
    found = {row[0]: row[2] for row in report["tables"][0]["rows"]}
    assert (found["clock"], found["open loop"]) == ("interrupted", "not run: interrupted")
    assert "passed" in found["files"] and "MISSING_FILES" in codes(report, "pass")
    assert report["verdict"]["summary"].startswith("Interrupted during clock. ")
    assert report["verdict"]["cause"] == "undecided" and "Next: run it again" in report["verdict"]["summary"]
    said = capsys.readouterr()
    assert said.err == "lerobot-diagnose: interrupted.\n" and "Interrupted during clock." in said.out


def test_ctrl_c_while_predicting_ends_the_ladder(made, tmp_path, monkeypatch):
    def stop(*_args, **_settings):
        raise KeyboardInterrupt

    monkeypatch.setattr("lerobot_diagnostics.openloop.evaluate._run", stop)  # kept by evaluate
    code, report = run(monkeypatch, tmp_path / "out", f"--policy.path={made / 'model'}")
    assert (code, report["results"]["interrupted"]) == (130, "open loop")


@pytest.mark.parametrize("setting", ["--policy.n_action_steps=99", "--policy.n_action_steps=x", "--policy.steps=3"])
def test_a_setting_that_does_not_fit_the_policy_is_one_line_before_anything_is_looked_at(
    made, tmp_path, monkeypatch, capsys, setting
):
    code, report = run(monkeypatch, tmp_path / "new" / "out", f"--policy.path={made / 'model'}", setting)
    said = capsys.readouterr()
    assert (code, report, said.out) == (2, None, "")
    assert setting.partition("=")[0] in said.err and said.err.count("\n") == 1
    assert not (tmp_path / "new").exists()  # nor a folder for nothing


SIM = ("--robot.type=so101_sim", "--robot.id=none")


def test_motion_without_anybody_to_confirm_it_is_refused_before_anything_is_looked_at(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO())
    code, report = run(monkeypatch, tmp_path / "out", *SIM, "--replay=true")
    assert (code, report, (tmp_path / "out").exists()) == (2, None, False)
    said = capsys.readouterr()
    assert "no terminal to press ENTER on" in said.err and "--yes=true" in said.err
    assert said.out == ""


HEALTHY = {
    "bridge_toysink_3cam": (),
    "g1_inspire_bottle": (),
    "pusht_image_slice": (),
    "so101_sim_2cam": (),
    "so101_record_test_stateonly": (),
    "so101_bimanual_cloth": ("--dataset.episodes=[1,2,3,4,5,6,7]",),
}


@pytest.mark.skipif(not DATA, reason="needs LEROBOT_DIAGNOSTICS_DATA")
@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_recordings_do_not_fail(name, tmp_path, monkeypatch):
    root = Path(DATA) / name / "v30"
    code, report = run(monkeypatch, tmp_path / "out", f"--dataset.root={root}", *HEALTHY[name])
    assert (code, codes(report, "fail")) == (0, set())
    assert report["verdict"]["cause"] == "none_found"


@pytest.mark.skipif(not DATA, reason="needs LEROBOT_DIAGNOSTICS_DATA")
def test_known_defects_are_found(tmp_path, monkeypatch):
    code, cloth = run(monkeypatch, tmp_path / "a", f"--dataset.root={Path(DATA) / 'so101_bimanual_cloth/v30'}")
    assert code == 1
    dead = next(f for f in cloth["findings"] if f["code"] == "DEAD")
    assert (dead["subject"], dead["evidence"]["episodes"]) == ("recorded cam0", [0])
    assert "relabelled" in next(f for f in cloth["findings"] if f["code"] == "LAG")["summary"]
    root = Path(DATA) / "so101_record_test_stateonly/v30"
    _, test = run(monkeypatch, tmp_path / "b", f"--dataset.root={root}")
    assert next(f for f in test["findings"] if f["code"] == "LAG")["evidence"]["lag_frames"] == 4
    units = next(f for f in test["findings"] if f["code"] == "UNITS_MISMATCH" and f["status"] == "warn")
    assert units["evidence"]["recorded"] == "range_m100_100"
