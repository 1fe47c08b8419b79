"""The command as the user runs it: LeRobot's stock follower on the servo rig, and what reaches the wire."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from make_dataset import make_dataset, picture

pytest.importorskip("pty", reason="the rig needs a pseudo-terminal")

from rig import JOINTS, Faults, FramePublisher, ServoRig, stock
from rig.servos import CALIBRATION, REST, to_ticks, to_units

from lerobot_diagnostics.cli.replay_compare import ReplayCompareConfig, main, replay_compare
from lerobot_diagnostics.cli.run import run_command

TICK = 360 / 4095


def motion(frames=40, away=0.0):
    """A slow wave from the rest pose, on whole encoder ticks, as a follower measures it."""
    episode = []
    for k in range(frames):
        t = k / frames
        pose = {
            **REST,
            "shoulder_pan": 20 * np.sin(2 * np.pi * t) + away,
            "shoulder_lift": REST["shoulder_lift"] + 20 * t,
            "elbow_flex": REST["elbow_flex"] - 25 * t,
            "wrist_roll": 15 * np.sin(3 * t),
            "gripper": 2.0 + 40 * t,
        }
        episode.append({joint: to_units(joint, round(to_ticks(joint, value))) for joint, value in pose.items()})
    return episode


@pytest.fixture
def data(tmp_path):
    return stock.dataset(tmp_path / "data", motion(), fps=50)


def command(rig, folder, root, *more):
    rig.save_calibration(folder)
    return [
        "--robot.type=so101_follower",
        "--robot.id=rig",
        f"--robot.port={rig.port}",
        f"--robot.calibration_dir={folder}",
        f"--dataset.root={root}",
        f"--output_dir={folder / 'out'}",
        "--speed=1",
        "--yes=true",
        "--ease_speed=120",
        *more,
    ]


def run(*argv):
    return run_command(ReplayCompareConfig, replay_compare, argv, command="lerobot-replay-compare", hardware=True)


def report(folder):
    return json.loads((folder / "out/report.json").read_text())


def finding(content, code):
    return next(f for f in content["findings"] if f["code"] == code)


def assert_within_a_tick(goals, episode):
    assert len(goals) == len(episode)
    for sent, recorded in zip(goals, episode, strict=True):
        for joint in JOINTS:
            assert abs(to_ticks(joint, sent[joint]) - to_ticks(joint, recorded[joint])) <= 1.01


def test_every_recorded_command_reaches_the_wire_in_order_and_none_else(tmp_path, data):
    with ServoRig(start=motion()[0]) as rig:
        code = run(*command(rig, tmp_path, data, "--return_to_start=false", "--outcome=landed"))
        goals = rig.bank.goals()
        assert all(servo.get("Torque_Enable") == 0 for servo in rig.bank.servos.values())
    assert code == 0
    assert_within_a_tick(goals, motion())
    content = report(tmp_path)
    assert content["verdict"]["cause"] == "none_found" and "look at the model" in content["verdict"]["summary"]
    assert content["results"]["attempts"][0]["frames"] == 40
    rows = (tmp_path / "out/frames.csv").read_text().splitlines()
    assert len(rows) == 41 and "achieved elbow_flex.pos" in rows[0]
    assert finding(content, "UNITS_MISMATCH")["status"] == "pass"
    assert (tmp_path / "out/report.html").is_file()


def test_a_start_sixty_degrees_away_is_eased_to_within_the_limit_and_returned_to(tmp_path, data):
    start = {**motion()[0], "shoulder_pan": -60.0}
    with ServoRig(start=start) as rig:
        assert run(*command(rig, tmp_path, data, "--outcome=landed", "--ease_speed=60")) == 0
        goals = rig.bank.goals()
    pan = np.array([goal["shoulder_pan"] for goal in goals])
    first = next(k for k, goal in enumerate(goals) if abs(goal["shoulder_pan"]) < TICK)
    assert np.abs(np.diff(pan[: first + 1], prepend=-60.0)).max() <= 60 / 30 + 2 * TICK
    assert_within_a_tick(goals[first + 1 : first + 41], motion())
    assert abs(pan[-1] + 60) < 2 * TICK  # back where it stood


def test_without_asking_the_plan_and_what_the_arm_does_are_said_before_it_moves(tmp_path, data, capsys):
    said = {}

    def listen(goals):
        if goals in {1, 60}:
            said[goals] = capsys.readouterr().out

    # 20° at 30°/s and 30 commands a second: 20 ticks to the start, then 40 of the recording
    with ServoRig(start={**motion()[0], "shoulder_pan": -20.0}, on_goal=listen) as rig:
        flags = ["--outcome=landed", "--ease_speed=30", "--repeat=2", "--return_to_start=false"]
        assert run(*command(rig, tmp_path, data, *flags)) == 0
    assert "recorded start" in said[1] and "Easing to the first recorded pose" in said[1]
    assert "Playing" not in said[1] and "Playing episode 0 (0.8 s)" in said[60]
    assert "recorded start" not in said[60]  # once is enough
    (plan,) = [table for table in report(tmp_path)["tables"] if table["title"] == "Plan"]
    (pan,) = [row for row in plan["rows"] if row[0] == "shoulder_pan.pos"]
    assert pan[2] == pytest.approx(-20.0, abs=0.1) and pan[4] == pytest.approx(20.0, abs=0.1)


def test_a_dry_run_touches_no_port(tmp_path, data, capsys):
    with ServoRig() as rig:
        assert run(*command(rig, tmp_path, data, "--dry_run=true")) == 0
        assert rig.bank.requests == 0
    said = capsys.readouterr().out
    assert "recorded start" in said and "lerobot-replay-compare: nothing was sent" in said


def test_align_only_measures_the_views_and_sends_no_goal(tmp_path):
    states = np.array([[pose[joint] for joint in JOINTS] for pose in motion(20)])
    root = make_dataset(
        tmp_path / "data", lengths=(20, 20), fps=10, cameras={"front": "h264"}, states=lambda _e, n: states[:n],
        actions=lambda _e, n: states[:n],
    )  # fmt: skip
    with FramePublisher(lambda _s: {"front": picture(0)}) as publisher, ServoRig(start=motion()[0]) as rig:
        camera = f"--robot.cameras={{front: {publisher.config('front', 48, 64)}}}"
        assert run(*command(rig, tmp_path, root, camera, "--align_only=true")) == 0
        assert rig.bank.goals() == [] and rig.bank.requests > 100
    assert report(tmp_path)["results"]["ending"] == "confirmed"
    assert (tmp_path / "out/align_end.png").is_file()


def test_a_dry_run_needs_no_robot(tmp_path, data, capsys):
    assert run(f"--dataset.root={data}", "--dry_run=true", f"--output_dir={tmp_path / 'out'}") == 0
    assert "shoulder_lift.pos" in capsys.readouterr().out


@pytest.mark.parametrize("fault", ["drop_every", "corrupt_every"])
def test_one_packet_in_fifty_lost_is_survived_and_counted(tmp_path, data, fault):
    faults = Faults()
    with ServoRig(faults, start=motion()[0], on_goal=lambda n: setattr(faults, fault, 50 if n < 40 else 0)) as rig:
        code = run(*command(rig, tmp_path, data, "--return_to_start=false", "--outcome=landed"))
        goals = rig.bank.goals()
    assert code == 0
    assert_within_a_tick(goals, motion())
    bus = finding(report(tmp_path), "BUS_ERRORS")
    assert bus["status"] == "warn" and bus["evidence"]["lost_packets"] >= 3


def test_a_servo_that_dies_gets_no_goal_after_the_failing_read(tmp_path, data):
    faults = Faults()
    with ServoRig(faults, start=motion()[0], on_goal=lambda n: n == 15 and faults.silent.add("wrist_flex")) as rig:
        code = run(*command(rig, tmp_path, data))
        assert len(rig.bank.goals()) == 15
        alive = [servo for servo in rig.bank.servos.values() if servo.joint != "wrist_flex"]
        assert not any(servo.get("Torque_Enable") for servo in alive)
    assert code == 1
    content = report(tmp_path)
    assert content["verdict"]["cause"] == "motors"
    assert finding(content, "BUS_ERRORS")["status"] == "fail"
    assert content["results"]["attempts"][0]["frames"] == 15


def test_a_stalled_joint_stops_at_its_present_position_and_is_named(tmp_path):
    faults = Faults()
    episode = [{**pose, "shoulder_pan": 60 * k / 99} for k, pose in enumerate(motion(100))]
    root = stock.dataset(tmp_path / "data", episode, fps=50)
    with ServoRig(faults, start=episode[0], on_goal=lambda n: n == 20 and faults.stalled.add("shoulder_pan")) as rig:
        code = run(*command(rig, tmp_path, root))
        goals = rig.bank.goals()
        held = rig.bank.true_pose()["shoulder_pan"]
    assert code == 1
    assert len(goals) < 60
    assert goals[-1]["shoulder_pan"] == pytest.approx(held, abs=2 * TICK)
    overload = finding(report(tmp_path), "OVERLOAD")
    assert (overload["status"], overload["subject"]) == ("fail", "shoulder_pan.pos")


def test_standing_error_is_no_stall(tmp_path, data):
    with ServoRig(Faults(standing_error_ticks={"shoulder_lift": -28}), start=motion()[0]) as rig:
        assert run(*command(rig, tmp_path, data, "--outcome=landed", "--return_to_start=false")) == 0
        assert len(rig.bank.goals()) == 40


def test_an_arm_that_does_not_arrive_is_not_played(tmp_path, data):
    start = {**motion()[0], "shoulder_pan": -30.0}
    with ServoRig(Faults(standing_error_ticks={"shoulder_pan": -137}), start=start) as rig:  # 12°
        assert run(*command(rig, tmp_path, data)) == 1
    jump = [f for f in report(tmp_path)["findings"] if f["code"] == "START_JUMP" and f["status"] == "fail"]
    assert jump[0]["subject"] == "shoulder_pan.pos" and "12" in jump[0]["summary"]


@pytest.mark.parametrize(
    ("number", "after_goals", "code"), [(signal.SIGINT, 3, 130), (signal.SIGINT, 33, 130), (signal.SIGTERM, 50, 143)]
)
def test_a_signal_ends_it_within_a_tenth_of_a_second_and_the_report_is_written(tmp_path, number, after_goals, code):
    root = stock.dataset(tmp_path / "data", motion(100), fps=50)
    sent = []

    def kill():
        sent.append(time.monotonic())
        os.kill(os.getpid(), number)

    def soon(goals):
        if goals == after_goals:
            threading.Timer(0.007, kill).start()  # in the middle of a period

    before = signal.getsignal(number)
    with ServoRig(start={**motion()[0], "shoulder_pan": -20.0}, on_goal=soon) as rig:
        assert run(*command(rig, tmp_path, root)) == code
        goals = rig.bank.writes("Goal_Position")
    assert after_goals <= len(goals) < after_goals + 10
    assert goals[-1].time_s - sent[0] <= 0.1
    content = report(tmp_path)
    assert content["results"]["attempts"][0]["ended"] == "stopped"
    assert signal.getsignal(number) is before


def test_a_dead_camera_ends_it_and_is_named(tmp_path):
    root = stock.dataset(tmp_path / "data", motion(200), fps=50)
    grey = np.full((48, 64, 3), 90, np.uint8)
    died = []
    with (
        FramePublisher(lambda _s: {} if died else {"front": grey}) as publisher,
        ServoRig(start=motion()[0], on_goal=lambda n: n == 20 and died.append(time.monotonic())) as rig,
    ):
        camera = f"--robot.cameras={{front: {publisher.config('front', 48, 64)}}}"
        assert run(*command(rig, tmp_path, root, camera)) == 1
        last = rig.bank.writes("Goal_Position")[-1].time_s
    # LeRobot's zmq camera calls a picture too old after 1 s; the newest may have come just before it died
    assert 0.8 < last - died[0] <= 1.0 + 0.1
    content = report(tmp_path)
    assert finding(content, "DEAD")["status"] == "fail" and content["verdict"]["cause"] == "cameras"


def test_lost_videos_leave_the_joints(tmp_path):
    states = np.array([[pose[joint] for joint in JOINTS] for pose in motion(20)])
    root = make_dataset(
        tmp_path / "data", lengths=(20,), fps=50, cameras={"front": "h264"}, states=lambda _e, n: states[:n],
        actions=lambda _e, n: states[:n],
    )  # fmt: skip
    (root / "videos/observation.images.front/chunk-000/file-000.mp4").unlink()
    with FramePublisher(lambda _s: {"front": picture(0)}) as publisher, ServoRig(start=motion()[0]) as rig:
        camera = f"--robot.cameras={{front: {publisher.config('front', 48, 64)}}}"
        assert run(*command(rig, tmp_path, root, camera, "--return_to_start=false", "--outcome=landed")) == 0
        assert len(rig.bank.goals()) == 20
    content = report(tmp_path)
    assert finding(content, "MISSING_FILES")["subject"] == "front"
    assert any("front is not compared" in text for text in content["verdict"]["cannot_tell"])


def test_a_missing_port_is_said(tmp_path, data, capsys):
    with ServoRig() as rig:
        argv = command(rig, tmp_path, data, "--robot.port=/dev/no-such-port")
        assert run(*argv) == 2
    assert "--robot.port=/dev/no-such-port does not exist" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_attempts_are_compared_with_each_other(tmp_path, data):
    with ServoRig(start=motion()[0]) as rig:
        flags = ["--repeat=2", "--outcome=missed", "--miss=20 left", "--dataset.episodes=[0]"]
        assert run(*command(rig, tmp_path, data, *flags)) == 0
    content = report(tmp_path)
    assert [a["attempt"] for a in content["results"]["attempts"]] == [1, 2]
    table = next(table for table in content["tables"] if table["title"] == "Attempts")
    assert [row[3:6] for row in table["rows"]] == [["missed", 0.0, 20.0]] * 2
    assert "alike from every start" in content["verdict"]["summary"]


def test_percent_data_on_a_degrees_robot_are_refused_with_the_flag(tmp_path):
    def percent(pose):
        ticks = {joint: round(to_ticks(joint, value)) for joint, value in pose.items()}
        span = {j: (c["range_min"], c["range_max"] - c["range_min"]) for j, c in CALIBRATION.items()}
        return {j: (t - span[j][0]) / span[j][1] * 200 - 100 if j != "gripper" else pose[j] for j, t in ticks.items()}

    root = stock.dataset(tmp_path / "data", [percent(pose) for pose in motion(80)], fps=50)
    with ServoRig() as rig:
        assert run(*command(rig, tmp_path, root)) == 1
        assert rig.bank.requests == 0
    content = report(tmp_path)
    assert content["verdict"]["cause"] == "units" and "--robot.use_degrees=false" in content["verdict"]["summary"]


def test_actions_that_are_differences_are_refused(tmp_path):
    states = np.array([[pose[joint] for joint in JOINTS] for pose in motion(80)])
    root = make_dataset(
        tmp_path / "data", lengths=(79,), fps=50, states=lambda _e, n: states[:n],
        actions=lambda _e, n: np.diff(states, axis=0)[:n],
    )  # fmt: skip
    with ServoRig() as rig:
        assert run(*command(rig, tmp_path, root)) == 1
        assert rig.bank.requests == 0
    assert "differences" in finding(report(tmp_path), "UNITS_MISMATCH")["summary"]


def test_no_terminal_and_no_yes_is_refused_before_connecting(tmp_path, data, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with ServoRig() as rig:
        argv = [word for word in command(rig, tmp_path, data) if word != "--yes=true"]
        assert run(*argv) == 2
        assert rig.bank.requests == 0
    assert "--yes=true" in capsys.readouterr().err


def test_a_calibration_that_differs_is_shown(tmp_path, data, capsys):
    with ServoRig() as rig:
        argv = command(rig, tmp_path, data)
        path = tmp_path / "rig.json"
        content = json.loads(path.read_text())
        content["elbow_flex"]["homing_offset"] += 100
        path.write_text(json.dumps(content))
        assert run(*argv) == 2
        assert rig.bank.log == []
    said = capsys.readouterr().err
    assert "1077" in said and "977" in said and "lerobot-calibrate" in said


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--speed=2"], "--allow_fast=true"),
        (["--speed=0"], "not positive"),
        (["--outcome=won"], "ask, landed, missed"),
        (["--miss=20 left"], "--outcome=missed"),
        (["--record=new.mp4"], "Leave out one of the two"),
        (["--outcome=missed", "--miss=up"], "no miss"),
        (["--dataset.episode=7"], "0"),
        (['--rename_map={"side": "front"}'], "--rename_map: there is no key side."),
        ([], "--robot.type"),
    ],
)
def test_flags_that_cannot_be(tmp_path, data, flags, said, capsys):
    dry = [] if not flags else ["--dry_run=true"]
    assert run(f"--dataset.root={data}", *dry, *flags, f"--output_dir={tmp_path / 'out'}") == 2
    assert said in capsys.readouterr().err


def test_a_record_file_that_exists_is_kept(tmp_path, data, capsys):
    (tmp_path / "old.mp4").write_bytes(b"kept")
    with ServoRig() as rig:
        assert run(*command(rig, tmp_path, data, f"--record={tmp_path / 'old.mp4'}")) == 2
        assert rig.bank.requests == 0
    assert "exists already" in capsys.readouterr().err and (tmp_path / "old.mp4").read_bytes() == b"kept"


def test_the_entry_point_knows_help(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["lerobot-replay-compare", "--help"])
    assert main() == 0
    assert "--align_only" in capsys.readouterr().out


def test_two_arms_move_by_their_own_names(tmp_path):
    left, right = motion(30), [{**pose, "shoulder_pan": -pose["shoulder_pan"]} for pose in motion(30)]
    names = tuple(f"{side}_{joint}.pos" for side in ("right", "left") for joint in JOINTS)  # not the robot's order
    values = np.array([[pose[joint] for pose in pair for joint in JOINTS] for pair in zip(right, left, strict=True)])
    root = make_dataset(
        tmp_path / "data", lengths=(30,), fps=50, names=names, size=12, robot_type="bi_so_follower",
        states=lambda _e, n: values[:n], actions=lambda _e, n: values[:n],
    )  # fmt: skip
    with ServoRig(start=left[0]) as one, ServoRig(start=right[0]) as other:
        for side, rig in (("left", one), ("right", other)):
            rig.save_calibration(tmp_path, f"rig_{side}")
        argv = ["--robot.type=bi_so_follower", "--robot.id=rig", f"--robot.calibration_dir={tmp_path}"]
        argv += [f"--robot.left_arm_config.port={one.port}", f"--robot.right_arm_config.port={other.port}"]
        argv += [f"--dataset.root={root}", f"--output_dir={tmp_path / 'out'}", "--yes=true", "--speed=1"]
        assert run(*argv, "--return_to_start=false", "--outcome=landed") == 0
        assert_within_a_tick(one.bank.goals(), left)
        assert_within_a_tick(other.bank.goals(), right)
        assert not any(s.get("Torque_Enable") for rig in (one, other) for s in rig.bank.servos.values())


def test_somebody_at_the_terminal_is_asked_and_answers(tmp_path, data):
    import pty

    with ServoRig(start=motion()[0]) as rig:
        argv = [word for word in command(rig, tmp_path, data, "--return_to_start=false") if word != "--yes=true"]
        code = "from lerobot_diagnostics.cli.replay_compare import main; raise SystemExit(main())"
        master, slave = pty.openpty()
        child = subprocess.Popen([sys.executable, "-c", code, *argv], stdin=slave, stdout=slave, stderr=slave)
        os.close(slave)
        said = ""
        for waited_for, answer in (
            ("press ENTER to ease", "\n"),
            ("press ENTER to play", "\n"),
            ("Did it land", "n\n"),
            ("How far", "20 left\n"),
            ("press ENTER to release", "\n"),
        ):
            ends = time.monotonic() + 60
            while waited_for not in said:
                assert time.monotonic() < ends, said
                if select.select([master], [], [], 1.0)[0]:
                    said += os.read(master, 4096).decode(errors="replace")
            if waited_for in {"press ENTER to ease", "press ENTER to play"}:
                assert rig.bank.goals() == []  # the arm stands where the recording starts, and nobody has said play
            said = ""
            os.write(master, answer.encode())
        with contextlib.suppress(OSError):  # the terminal is gone with the child
            while os.read(master, 4096):
                pass
        assert child.wait(30) == 0
        os.close(master)
        assert_within_a_tick(rig.bank.goals(), motion())
    table = next(table for table in report(tmp_path)["tables"] if table["title"] == "Attempts")
    assert table["rows"][0][3:6] == ["missed", 0.0, 20.0]
