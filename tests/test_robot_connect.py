"""Connecting: on LeRobot's stock follower, and the causes of a refusal."""

import errno
import json
import re
from types import SimpleNamespace

import pytest

pytest.importorskip("pty", reason="the rig needs a pseudo-terminal")

from lerobot.robots.so_follower import SO101FollowerConfig
from rig import Faults, ServoRig

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.robot import Arm, CalibrationDiffersError, connected, make_robot
from lerobot_diagnostics.robot.connect import port_error


def robot_at(rig, folder, **settings):
    return make_robot(SO101FollowerConfig(port=rig.port, id="rig", calibration_dir=folder, **settings))


def test_connects_and_lets_go_as_lerobot_does(tmp_path):
    with ServoRig() as rig:
        rig.save_calibration(tmp_path)
        with connected(robot_at(rig, tmp_path)) as robot:
            arm = Arm(robot)
            assert arm.read().joints["elbow_flex.pos"] == pytest.approx(92, abs=0.1)
            assert arm.loads()["elbow_flex.pos"] == 0.0
        assert [w.values for w in rig.bank.writes("Torque_Enable")][-6:] == [
            {joint: 0} for joint in rig.bank.calibration
        ]
        assert rig.bank.goals() == []


def test_torque_stays_where_the_user_says_so(tmp_path):
    with ServoRig() as rig:
        rig.save_calibration(tmp_path)
        with connected(robot_at(rig, tmp_path, disable_torque_on_disconnect=False)):
            pass
        assert all(servo.get("Torque_Enable") for servo in rig.bank.servos.values())


def test_a_calibration_that_differs_is_refused_with_both_tables_and_nothing_written(tmp_path):
    with ServoRig() as rig:
        path = rig.save_calibration(tmp_path)
        content = json.loads(path.read_text())
        content["elbow_flex"]["homing_offset"] += 100
        path.write_text(json.dumps(content))
        with pytest.raises(CalibrationDiffersError, match="elbow_flex") as refusal, connected(robot_at(rig, tmp_path)):
            pass
        assert ["elbow_flex", "homing_offset", 1077, 977] in refusal.value.table.rows
        assert rig.bank.log == []


def test_no_calibration_file_names_the_old_one(tmp_path):
    (tmp_path / "so101_follower").mkdir()
    (tmp_path / "so101_follower/rig.json").write_text("{}")
    with (
        ServoRig() as rig,
        pytest.raises(CalibrationDiffersError, match="so101_follower"),
        connected(robot_at(rig, tmp_path / "so_follower")),
    ):
        pass


def test_a_missing_port_says_so(tmp_path):
    ServoRig().save_calibration(tmp_path)
    rig = SimpleNamespace(port=str(tmp_path / "ttyACM9"))
    with pytest.raises(UsageError, match=r"--robot.port=.*ttyACM9 does not exist"), connected(robot_at(rig, tmp_path)):
        pass


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.EACCES, "permission denied.*dialout"),
        (errno.EBUSY, "busy.*another program"),
        (errno.ENOENT, "does not exist.*lerobot-find-port"),
        (errno.ENOTTY, "no serial port"),
        (errno.EIO, "cannot be opened"),
    ],
)
def test_the_cause_beneath_could_not_connect_is_told(number, said):
    try:
        raise ConnectionError("Could not connect on port") from OSError(number, "could not open port")
    except ConnectionError as error:
        assert re.search(said, str(port_error("/dev/ttyACM0", "--robot.port", error)))


def test_windows_words():
    for text, said in (
        ("PermissionError(13, 'Access is denied.', None, 5)", "busy"),
        ("FileNotFoundError(2,", "exist"),
    ):
        assert said in str(port_error("COM3", "--robot.port", ConnectionError(f"could not open port 'COM3': {text}")))


def test_a_silent_servo_is_named_and_torque_untouched(tmp_path):
    with ServoRig(Faults(silent={"gripper"})) as rig:
        rig.save_calibration(tmp_path)
        with pytest.raises(UsageError, match=r"motors do not all answer.* 6 "), connected(robot_at(rig, tmp_path)):
            pass
        assert rig.bank.writes("Torque_Enable") == []


def test_a_servo_that_dies_does_not_keep_the_others_from_being_let_go(tmp_path):
    with ServoRig() as rig:
        rig.save_calibration(tmp_path)
        with connected(robot_at(rig, tmp_path)):
            rig.bank.faults.silent.add("shoulder_pan")
        alive = [servo for servo in rig.bank.servos.values() if servo.joint != "shoulder_pan"]
        assert not any(servo.get("Torque_Enable") for servo in alive)


def test_packets_that_lerobot_tries_again_are_counted(tmp_path):
    with ServoRig() as rig:
        rig.save_calibration(tmp_path)
        with connected(robot_at(rig, tmp_path)) as robot:
            arm = Arm(robot)
            with arm.counting_packets():
                arm.read()
                assert arm.lost_packets == 0
                rig.bank.faults.corrupt_every = 20
                for _ in range(10):
                    arm.read()
                rig.bank.faults.corrupt_every = 0
        assert arm.lost_packets >= 2 and arm.failed_reads == 0
