"""Whole replays on the simulated arm: what changed, and what the command says of it."""

import json

import numpy as np
import pytest

pytest.importorskip("lerobot_diagnostics.sim.scene", reason="the extra sim is not installed")

from lerobot_diagnostics.cli.replay_compare import ReplayCompareConfig, replay_compare
from lerobot_diagnostics.cli.run import run_command
from lerobot_diagnostics.sim.config_so101_sim import SO101SimConfig
from lerobot_diagnostics.sim.record import record
from lerobot_diagnostics.sim.so101_sim import SO101Sim

FPS = 10


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp("sim") / "data"
    record(root, "local/sim", SO101SimConfig(), [0, 1], fps=FPS, use_videos=False)
    return root


@pytest.fixture
def truths(monkeypatch):
    """What was really the case when the robot was let go."""
    seen = []
    disconnect = SO101Sim.disconnect
    monkeypatch.setattr(SO101Sim, "disconnect", lambda robot: (seen.append(robot.truth()), disconnect(robot))[1])
    return seen


def replay(folder, data, *more):
    argv = ["--robot.type=so101_sim", "--robot.real_time=false", f"--robot.fps={FPS}", f"--dataset.root={data}"]
    argv += [
        "--dataset.episode=0",
        "--yes=true",
        "--speed=4",
        "--allow_fast=true",
        f"--output_dir={folder / 'out'}",
        "--ease_speed=200",
        "--return_to_start=false",
    ]
    code = run_command(ReplayCompareConfig, replay_compare, [*argv, *more], command="replay-compare", hardware=True)
    return code, json.loads((folder / "out/report.json").read_text())


def statuses(content, code):
    return {f["subject"]: f["status"] for f in content["findings"] if f["code"] == code}


def test_the_cube_in_its_place_lands(tmp_path, data, truths):
    code, content = replay(tmp_path, data, "--outcome=landed")
    assert truths[-1].success
    assert code == 0 and content["verdict"]["cause"] == "none_found", content["verdict"]
    assert set(statuses(content, "OBJECT_MOVED").values()) == {"pass"}
    assert len(content["pictures"]) >= 4
    assert all((tmp_path / "out" / picture["path"]).is_file() for picture in content["pictures"])


def test_a_moved_camera_does_not_keep_it_from_landing_and_is_named(tmp_path, data, truths):
    moved = "--robot.faults.cameras={front: {move_m: [0.03, 0, 0]}}"
    code, content = replay(tmp_path, data, "--outcome=landed", moved)
    assert truths[-1].success
    assert code == 0 and content["verdict"]["cause"] == "cameras", content["verdict"]
    assert "front was moved" in content["verdict"]["summary"]
    assert statuses(content, "MOVED")["top"] == "pass"


def test_a_cube_three_centimetres_away_is_missed_and_the_workspace_named(tmp_path, data, truths):
    code, content = replay(
        tmp_path, data, "--outcome=missed", "--miss=30 left", "--robot.faults.cube_move_m=[0.0, -0.03]"
    )
    assert not truths[-1].success
    assert code == 0 and content["verdict"]["cause"] == "workspace", content["verdict"]
    assert "OBJECT_MOVED" in content["verdict"]["because"]
    assert set(statuses(content, "MOVED").values()) == {"pass"}


def test_viewer_and_recorder_write_what_was_seen(tmp_path, data, truths):
    import av

    film = tmp_path / "film.mp4"
    code, _ = replay(tmp_path, data, "--outcome=landed", "--save_rrd=true", f"--record={film}")
    assert code == 0 and truths[-1].success
    assert (tmp_path / "out/replay.rrd").stat().st_size > 100_000
    with av.open(str(film)) as container:
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    assert frames[0].shape == (480, 960, 3)  # two cameras, three panels of 320×240
    assert len(frames) > 20
    live, recorded = frames[-1][:240, :320].astype(int), frames[-1][:240, 320:640].astype(int)
    assert np.abs(live - recorded).mean() < 20  # the same moment of the same scene


def test_without_cameras_the_joints_are_compared(tmp_path, data, truths):
    code, content = replay(tmp_path, data, "--outcome=landed", "--joints_only=true")
    assert code == 0 and truths[-1].success
    assert content["verdict"]["cause"] == "none_found"
    assert statuses(content, "OBJECT_MOVED") == {}


@pytest.mark.parametrize("flag", ["--dry_run=true", "--align_only=true"])
def test_looking_alone_sends_nothing(tmp_path, data, monkeypatch, flag):
    sent = []
    monkeypatch.setattr(SO101Sim, "send_action", lambda _robot, action: sent.append(action) or action)
    code, content = replay(tmp_path, data, flag)
    assert code == 0 and sent == []
    assert flag == "--dry_run=true" or statuses(content, "MOVED")["front"] == "pass"


def test_lost_reads_are_survived_and_counted(tmp_path, data, truths):
    code, content = replay(tmp_path, data, "--outcome=landed", "--robot.faults.fail_every=50")
    assert truths[-1].success and code == 0
    (errors,) = [f for f in content["findings"] if f["code"] == "BUS_ERRORS"]
    assert errors["status"] == "warn" and errors["evidence"]["failed_reads"] >= 2
