"""Snapshots on the rig: what was changed is named, what was not is not, and nothing is written to the arm."""

import json
from contextlib import ExitStack
from datetime import datetime

import numpy as np
import pytest

pytest.importorskip("pty", reason="the rig needs a pseudo-terminal")

from rig import FramePublisher, ServoRig
from rig.servos import CALIBRATION
from vision_scenes import camera, warped

from lerobot_diagnostics.cli.setup_snapshot import main
from lerobot_diagnostics.diagnose import snapshot
from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Status

pytestmark = pytest.mark.flaky(reruns=2)  # a loaded machine answers late

FRONT, TOP = camera(1, 20), camera(2, 20)


def calibrated(**changes):
    joints = {name: dict(entry) for name, entry in CALIBRATION.items()}
    for name, change in changes.items():
        joints[name] |= change
    return joints


def command(tmp_path, name, *flags, calibration=CALIBRATION, views=None):
    """Run lerobot-setup-snapshot on a rig with two network cameras; the exit code and its folder."""
    views = views or {"front": FRONT, "top": TOP}
    with ExitStack() as stack:
        servos = stack.enter_context(ServoRig(calibration=calibration))
        publisher = stack.enter_context(FramePublisher(lambda _seconds: views))
        servos.save_calibration(tmp_path, "rig")
        height, width = FRONT.shape[:2]
        cameras = ", ".join(f"{view}: {publisher.config(view, height, width, warmup_s=0)}" for view in views)
        import sys

        saved = sys.argv
        sys.argv = [
            "lerobot-setup-snapshot", "--robot.type=so101_follower", f"--robot.port={servos.port}", "--robot.id=rig",
            f"--robot.calibration_dir={tmp_path}", f"--robot.cameras={{{cameras}}}",
            f"--output_dir={tmp_path / name}", *flags,
        ]  # fmt: skip
        try:
            code = main()
        finally:
            sys.argv = saved
        assert servos.bank.log == []
    return code, tmp_path / name


def changed(folder):
    report = json.loads((folder / "report.json").read_text())
    found = {(f["code"], f["subject"]) for f in report["findings"] if f["status"] in ("fail", "warn")}
    return report, {pair for pair in found if pair[0] != "INDEX_UNSTABLE"}  # every publisher has its own port


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    folder = tmp_path_factory.mktemp("before")
    code, taken = command(folder, "snapshot")
    assert code == 0
    return taken


def test_a_snapshot_holds_calibration_registers_cameras_pictures_and_versions(before):
    taken, pictures = snapshot.load(before)
    assert taken["arms"][""]["calibration"]["elbow_flex"]["homing_offset"] == CALIBRATION["elbow_flex"]["homing_offset"]
    assert taken["arms"][""]["motors"]["gripper"]["range_max"] == CALIBRATION["gripper"]["range_max"]
    assert taken["arms"][""]["registers"]["wrist_roll"]["Protection_Time"] == 200
    assert taken["cameras"]["front"]["mode"]["fps"] == 30
    assert "lerobot" in taken["versions"]
    assert len(taken["joints"]) == 6
    assert np.abs(pictures["top"].astype(int) - TOP).mean() < 6  # JPEG on the way


def test_nothing_changed_is_said_so(before, tmp_path):
    code, folder = command(tmp_path, "now", f"--diff={before}")
    report, found = changed(folder)
    assert (code, found) == (0, set())
    assert "Nothing has changed" in report["verdict"]["summary"]
    passed = {(f["code"], f["subject"]) for f in report["findings"] if f["status"] == "pass"}
    assert {("MOVED", "front"), ("SWAPPED", "top"), ("TRACKING", "servos")} <= passed
    light = next(f for f in report["findings"] if f["code"] == "LIGHTING")
    assert "light as in the snapshot" in light["summary"]


def test_a_knocked_camera_is_told_in_pixels(before, tmp_path):
    _, folder = command(tmp_path, "now", f"--diff={before}", views={"front": warped(FRONT, 9, -6), "top": TOP})
    report, found = changed(folder)
    assert found == {("MOVED", "front")}
    moved = next(f for f in report["findings"] if f["code"] == "MOVED" and f["status"] == "warn")
    assert moved["evidence"]["shift_px"] == pytest.approx(10.8, abs=1.5)


def test_a_recalibrated_joint_swapped_cameras_and_another_mode_are_each_named(before, tmp_path):
    moved = calibrated(elbow_flex={"homing_offset": CALIBRATION["elbow_flex"]["homing_offset"] + 114})
    code, folder = command(
        tmp_path, "now", f"--diff={before / 'snapshot.json'}", calibration=moved, views={"front": TOP, "top": FRONT}
    )
    report, found = changed(folder)
    assert code == 1
    assert ("ZERO_CHANGED", "elbow_flex (calibration file)") in found
    assert ("ZERO_CHANGED", "elbow_flex (motors)") in found
    assert {("SWAPPED", "front"), ("SWAPPED", "top")} <= found
    assert not {subject for code, subject in found if code == "ZERO_CHANGED"} - {
        "elbow_flex (calibration file)",
        "elbow_flex (motors)",
    }
    zero = next(f for f in report["findings"] if f["code"] == "ZERO_CHANGED" and f["status"] == "fail")
    assert "114 ticks (10.0°)" in zero["summary"]


def test_another_mode_is_named(before):
    taken, _ = snapshot.load(before)
    now = json.loads(json.dumps(taken))
    now["cameras"]["front"]["mode"]["fps"] = 15
    now["cameras"]["top"]["identity"]["port"] = 1
    now["arms"][""]["registers"]["elbow_flex"]["P_Coefficient"] = 32
    findings, _ = snapshot.diff(taken, now, {}, {})
    said = {(f.code, f.subject): f.summary for f in findings if f.status is Status.WARN}
    assert said.keys() == {("RESOLUTION", "front"), ("INDEX_UNSTABLE", "top"), ("TRACKING", "elbow_flex")}
    assert "fps was 30, is 15" in said["RESOLUTION", "front"]
    assert not [f for f in snapshot.diff(taken, taken, {}, {})[0] if f.status is not Status.PASS]


def test_a_camera_or_servo_that_is_gone(before):
    taken, _ = snapshot.load(before)
    now = json.loads(json.dumps(taken))
    del now["cameras"]["top"]
    del now["arms"][""]["registers"]["gripper"]
    failed = {(f.code, f.subject) for f in snapshot.diff(taken, now, {}, {})[0] if f.status is Status.FAIL}
    assert failed == {("MISSING_CAMERA", "top"), ("BUS_ERRORS", "gripper")}


def test_versions_that_changed_are_a_table(before):
    taken, _ = snapshot.load(before)
    now = {**taken, "versions": {**taken["versions"], "lerobot": "9.9.9"}}
    tables = snapshot.diff(taken, now, {}, {})[1]
    assert tables[0].rows == [["lerobot", taken["versions"]["lerobot"], "9.9.9"]]


def test_restoring_writes_a_new_file_and_never_over_one(before):
    taken, _ = snapshot.load(before)
    (path, robot_id), *_ = snapshot.restore(taken)
    assert path.name == f"rig_restored_{datetime.now():%Y-%m-%d}.json"
    assert robot_id == path.stem
    assert json.loads(path.read_text()) == taken["arms"][""]["calibration"]
    with pytest.raises(UsageError, match="already"):
        snapshot.restore(taken)


def test_what_is_no_snapshot_is_refused(tmp_path):
    (tmp_path / "snapshot.json").write_text("{}")
    with pytest.raises(UsageError, match="no setup snapshot"):
        snapshot.load(tmp_path)
    with pytest.raises(UsageError, match="cannot be read"):
        snapshot.load(tmp_path / "none.json")


def test_an_arm_that_is_not_there_leaves_no_folder(tmp_path, monkeypatch, capsys):
    flags = [
        "--robot.type=so101_follower",
        "--robot.port=/dev/no-such-port",
        f"--output_dir={tmp_path / 'new' / 'out'}",
    ]
    monkeypatch.setattr("sys.argv", ["lerobot-setup-snapshot", *flags])
    assert main() == 2
    assert "--robot.port=/dev/no-such-port does not exist" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
