"""The command: from files, from network cameras, from a simulation; attaching and detaching; what goes wrong."""

import importlib.util
import itertools
import json

import make_dataset as maker
import numpy as np
import pytest
from make_dataset import make_dataset
from PIL import Image
from rig import FramePublisher, stock
from rig.servos import REST
from vision_scenes import camera, recording

from lerobot_diagnostics.cli.camera_guard import COMMAND, CameraGuardConfig, guard_cameras
from lerobot_diagnostics.cli.run import run_command
from lerobot_diagnostics.guard.attach import guard_of

SEEDS = {"front": 1, "wrist": 2}


def command(*flags):
    return run_command(CameraGuardConfig, guard_cameras, flags, command=COMMAND, hardware=True)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A data set of four episodes whose pictures are those of tests/vision_scenes.py."""
    frames, _ = recording(SEEDS)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(maker, "picture", lambda i, number, _size: frames[list(SEEDS)[number]][i])
        return make_dataset(
            tmp_path_factory.mktemp("data") / "d",
            lengths=(5, 5, 5, 5),
            cameras=dict.fromkeys(SEEDS, "image"),
            picture_size=(240, 320),
        )


@pytest.fixture(scope="module")
def policy(tmp_path_factory, data):
    root = stock.checkpoint(tmp_path_factory.mktemp("policy"), dict.fromkeys(SEEDS, (240, 320)), mean=REST)
    (root / "train_config.json").write_text(json.dumps({"dataset": {"repo_id": "local/d", "root": str(data)}}))
    return root


@pytest.fixture(scope="module")
def guarded(policy, tmp_path_factory):
    folder = tmp_path_factory.mktemp("guard")
    code = command(f"--policy.path={policy}", f"--attach_to={folder / 'new'}", f"--output_dir={folder / 'out'}")
    assert code == 0
    return folder / "new"


@pytest.fixture
def files(tmp_path):
    paths = {}
    for name, seed in SEEDS.items():
        paths[name] = tmp_path / f"{name}.png"
        Image.fromarray(camera(seed, 0, 999)).save(paths[name])
    return paths


def report(folder):
    return json.loads((folder / "report.json").read_text())


def test_pictures_in_files_against_a_data_set(data, files, tmp_path, capsys):
    right = f"--images={{front: {files['front']}, wrist: {files['wrist']}}}"
    wrong = f"--images={{front: {files['wrist']}, wrist: {files['front']}}}"
    assert command(f"--dataset.root={data}", right, f"--output_dir={tmp_path / 'a'}") == 0
    assert report(tmp_path / "a")["verdict"]["cause"] == "none_found"
    assert {p["path"] for p in report(tmp_path / "a")["pictures"]} == {"front.png", "wrist.png"}
    capsys.readouterr()
    assert command(f"--dataset.root={data}", wrong, f"--output_dir={tmp_path / 'b'}") == 1
    verdict = report(tmp_path / "b")["verdict"]
    assert verdict["because"] == ["SWAPPED"]
    assert "--rename_map=" in verdict["summary"]
    assert "--rename_map" in capsys.readouterr().out


def test_attaching_says_what_it_did_and_warns_of_pushing(policy, tmp_path, capsys):
    flags = [f"--policy.path={policy}", f"--attach_to={tmp_path / 'new'}", "--every_s=5", "--actions={MOVED: block}"]
    assert command(*flags, f"--output_dir={tmp_path / 'out'}") == 0
    said = capsys.readouterr().out
    assert f"{COMMAND}: guarded " in said and "no fault found" not in said
    assert "1 large files linked" in said
    assert "--detach=true" in said
    entry = guard_of(tmp_path / "new")
    assert entry["config"]["every_s"] == 5.0
    assert entry["config"]["actions"] == {"MOVED": "block"}
    assert entry["config"]["policy_sizes"] == {"front": [240, 320], "wrist": [240, 320]}
    told = report(tmp_path / "out")
    assert [f["code"] for f in told["findings"]] == ["UNDECIDED"]  # the self-test: the two can be told apart
    assert told["findings"][0]["status"] == "pass"
    assert command(f"--policy.path={tmp_path / 'new'}", "--detach=true") == 0
    assert guard_of(tmp_path / "new") is None


def test_a_guarded_checkpoint_needs_no_data_set(guarded, files, tmp_path):
    wrong = f"--images={{front: {files['wrist']}, wrist: {files['front']}}}"
    assert command(f"--policy.path={guarded}", wrong, f"--output_dir={tmp_path / 'out'}") == 1
    assert report(tmp_path / "out")["inputs"]["references"] == "the views stored in the checkpoint"


@pytest.mark.parametrize("source", ["guarded", "data"])
def test_a_rename_map_with_a_key_that_nothing_has(source, guarded, data, files, tmp_path, capsys):
    shown = f"--images={{front: {files['front']}, wrist: {files['wrist']}}}"
    against = f"--policy.path={guarded}" if source == "guarded" else f"--dataset.root={data}"
    assert command(against, shown, "--rename_map={front: tip}", f"--output_dir={tmp_path / 'a'}") == 2
    said = "--rename_map: there is no key front; did you mean observation.images.front?"
    assert said in capsys.readouterr().err
    right = "--rename_map={observation.images.wrist: observation.images.wrist}"
    assert command(against, shown, right, f"--output_dir={tmp_path / 'b'}") == 0


def robot(publisher, **shown):
    cameras = ", ".join(f"{name}: {publisher.config(source, 240, 320, warmup_s=1)}" for name, source in shown.items())
    # No such port: the arm must not be connected.
    return ["--robot.type=so101_follower", "--robot.port=/dev/nowhere", f"--robot.cameras={{{cameras}}}"]


def noisy():
    """Pictures of live cameras: never the same twice."""
    frames = itertools.cycle([{name: camera(s, 0, 900 + k) for name, s in SEEDS.items()} for k in range(7)])
    return lambda _seconds: next(frames)


def test_live_cameras_are_opened_without_the_arm(guarded, tmp_path):
    with FramePublisher(noisy(), fps=10) as publisher:
        right = robot(publisher, front="front", wrist="wrist")
        assert command(f"--policy.path={guarded}", *right, f"--output_dir={tmp_path / 'a'}") == 0
        wrong = robot(publisher, front="wrist", wrist="front")
        assert command(f"--policy.path={guarded}", *wrong, f"--output_dir={tmp_path / 'b'}") == 1
        key = "observation.images."
        mended = f'--rename_map={{"{key}front": "{key}wrist", "{key}wrist": "{key}front"}}'
        assert mended.split("=")[1] in report(tmp_path / "b")["verdict"]["summary"]
        assert command(f"--policy.path={guarded}", *wrong, mended, f"--output_dir={tmp_path / 'c'}") == 0


def test_a_camera_that_does_not_open_is_named_with_a_reason(guarded, tmp_path):
    with FramePublisher(noisy(), fps=10) as publisher:
        flags = robot(publisher, front="front")
        flags[-1] = (
            flags[-1][:-1] + ", wrist: {type: opencv, index_or_path: /dev/video77, width: 320, height: 240, fps: 30}}"
        )
        assert command(f"--policy.path={guarded}", *flags, f"--output_dir={tmp_path / 'out'}") == 1
    missing = [f for f in report(tmp_path / "out")["findings"] if f["code"] == "MISSING_CAMERA"]
    assert [f["subject"] for f in missing] == ["wrist"]
    assert "/dev/video77" in missing[0]["summary"]


def test_the_cover_test_decides_what_pictures_cannot(tmp_path, monkeypatch):
    """Two cameras with the same view, exchanged: only the hand over the lens tells."""
    frames, _ = recording({"left": 1})
    monkeypatch.setattr(maker, "picture", lambda i, _number, _size: frames["left"][i])
    cameras = {"left": "image", "right": "image"}
    data = make_dataset(tmp_path / "d", lengths=(5, 5, 5, 5), cameras=cameras, picture_size=(240, 320))
    covered = []
    count = iter(range(10**6))

    def source(_seconds):
        physical = {"left": "right", "right": "left"}  # what the computer calls left is the right camera
        return {
            name: np.zeros((240, 320, 3), np.uint8) if physical[name] in covered else camera(1, 0, next(count))
            for name in cameras
        }

    def hand(text):
        covered[:] = [text.split("was ")[1].split()[0]] if text.startswith("Cover") else []
        import time

        time.sleep(0.3)
        return ""

    monkeypatch.setattr("builtins.input", hand)
    with FramePublisher(source, fps=20) as publisher:
        flags = [f"--dataset.root={data}", *robot(publisher, left="left", right="right")]
        assert command(*flags, f"--output_dir={tmp_path / 'a'}") == 1
        assert report(tmp_path / "a")["verdict"]["cause"] == "undecided"
        assert command(*flags, "--cover_test=true", f"--output_dir={tmp_path / 'b'}") == 1
    verdict = report(tmp_path / "b")["verdict"]
    assert verdict["because"] == ["SWAPPED"]
    assert "left shows the view recorded as right" in verdict["summary"]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([], "--attach_to=<folder>"),
        (["--attach_to=x"], "--policy.path"),
        (["--detach=true"], "--policy.path"),
        (["--images={front: /nowhere.png}"], "--dataset.root"),
        (["--list=true", "--actions={SWAP: block}"], "--actions: SWAP"),
        (["--every_s=-1", "--list=true"], "--every_s"),
        (["--images={front: /nowhere.png}", "--dataset.root={data}"], "--images: front: /nowhere.png"),
        (["--robot.type=so101_follower", "--robot.port=x", "--dataset.root={data}"], "--robot.cameras"),
    ],
)
def test_mistakes_end_in_one_line(flags, said, data, capsys):
    assert command(*(flag.replace("{data}", str(data)) for flag in flags)) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.strip().splitlines()) == 1


def test_no_camera_at_all_ends_with_the_first_reason(guarded, tmp_path, capsys):
    flags = [
        "--robot.type=so101_follower",
        "--robot.port=x",
        "--robot.cameras={front: {type: opencv, index_or_path: 77, width: 320, height: 240, fps: 30}}",
    ]
    assert command(f"--policy.path={guarded}", *flags, f"--output_dir={tmp_path / 'out'}") == 2
    assert "/dev/video77" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_an_output_folder_in_use_is_refused_before_anything_is_written(policy, tmp_path, capsys):
    (tmp_path / "mine.txt").write_text("precious")
    assert command(f"--policy.path={policy}", f"--attach_to={tmp_path / 'new'}", f"--output_dir={tmp_path}") == 2
    assert "--output_dir" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]


def test_a_machine_without_cameras_is_listed_as_such(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("lerobot_diagnostics.guard.devices.list_devices", list)
    assert command("--list=true", f"--output_dir={tmp_path / 'out'}") == 0
    told = report(tmp_path / "out")
    assert told["tables"][0]["note"] == "The operating system lists no camera."
    assert told["verdict"]["cause"] == "none_found"
    said = capsys.readouterr().out
    assert f"{COMMAND}: cameras listed " in said
    assert "Cameras: The operating system lists no camera." in said and "stable path" not in said


def test_a_simulation_is_asked_for_its_own_pictures(tmp_path, monkeypatch):
    if importlib.util.find_spec("mujoco") is None:  # importing it here would be before its renderer is chosen
        pytest.skip("no mujoco")
    from lerobot_diagnostics.sim.config_so101_sim import SO101SimConfig
    from lerobot_diagnostics.sim.so101_sim import SO101Sim

    cameras = ("front", "top")
    arm = SO101Sim(SO101SimConfig(real_time=False))
    arm.connect()
    frames = []
    for k in range(5):
        observation = arm.get_observation()
        frames.append([observation[name] for name in cameras])
        arm.send_action({key: value + 4 * k for key, value in observation.items() if key.endswith("pan.pos")})
    arm.disconnect()
    monkeypatch.setattr(maker, "picture", lambda i, number, _size: frames[i][number])
    data = make_dataset(
        tmp_path / "d", lengths=(5, 5, 5), cameras=dict.fromkeys(cameras, "image"), picture_size=(240, 320)
    )
    flags = [f"--dataset.root={data}", "--robot.type=so101_sim"]
    assert command(*flags, f"--output_dir={tmp_path / 'a'}") == 0
    assert command(*flags, "--robot.faults.swap=[front,top]", f"--output_dir={tmp_path / 'b'}") == 1
    assert report(tmp_path / "b")["verdict"]["because"] == ["SWAPPED"]
