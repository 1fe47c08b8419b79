"""The devices rung on a servo rig: every fault named by LeRobot's stock follower, and only reads on the wire."""

import json
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("pty", reason="the rig needs a pseudo-terminal")

from lerobot.robots.so_follower import SO101Follower, SO101FollowerConfig
from rig import Faults, ServoRig
from rig.servos import CALIBRATION

from lerobot_diagnostics.diagnose.devices import (
    Soak,
    judge_arm,
    judge_calibration,
    judge_ports,
    judge_soak,
    judge_supply,
    read_registers,
    soak,
)
from lerobot_diagnostics.diagnose.live import LiveRobot, Reading, open_for_reading
from lerobot_diagnostics.findings import Status

pytestmark = pytest.mark.flaky(reruns=2)  # a loaded machine answers late


class Time:
    """A clock that only sleeping moves."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@contextmanager
def rig(tmp_path, faults=None, **bank):
    with ServoRig(faults, **bank) as servos:
        servos.save_calibration(tmp_path, "rig")
        robot = SO101Follower(SO101FollowerConfig(port=servos.port, id="rig", calibration_dir=tmp_path))
        with open_for_reading(robot) as live:
            yield servos, robot, live


def told(findings, *statuses):
    return {(f.code, f.subject) for f in findings if f.status in (statuses or (Status.FAIL, Status.WARN))}


def test_a_healthy_arm_passes_and_the_wire_shows_reads_only(tmp_path):
    with rig(tmp_path) as (servos, _, live):
        arm = live.arms[0]
        time = Time()
        counted = soak(live, 30, 1.0, clock=time, sleep=time.sleep)
        findings = [*judge_ports(live), *judge_supply("", read_registers(arm)), *judge_arm(arm)[0]]
        findings += judge_soak(counted, 30, {})[0]
    assert not told(findings)
    assert {"BUS_ERRORS", "OVERLOAD", "ZERO_CHANGED", "WRAP", "RANGE_IMPLAUSIBLE", "SLOW_LOOP"} <= {
        f.code for f in findings if f.status is Status.PASS
    }
    assert counted.readings in (30, 31)
    assert servos.bank.log == []  # no write of any kind, before, during and after


def test_a_silent_servo_is_named_with_its_id_and_a_broken_chain_with_its_cable(tmp_path):
    with rig(tmp_path, Faults(silent={"elbow_flex"})) as (_, _, live):
        found = judge_ports(live)
        readings = [live.read() for _ in range(5)]  # a loaded machine loses one now and then
    assert any(r.joints.keys() >= {"shoulder_pan.pos", "gripper.pos"} for r in readings)  # the others are read on
    assert told(found, Status.FAIL) == {("BUS_ERRORS", "elbow_flex")}
    assert "elbow_flex (id 3)" in found[0].summary
    with rig(tmp_path, Faults(silent={"wrist_flex", "wrist_roll", "gripper"})) as (_, _, live):
        assert "between the servos with id 3 and 4" in judge_ports(live)[0].fix


def test_a_servo_that_fails_only_when_all_are_read_at_rate_is_named(tmp_path):
    with rig(tmp_path, Faults(silent_in_sync_read={"wrist_flex"})) as (_, _, live):
        assert not told(judge_ports(live))  # alone it answers
        time = Time()
        counted = soak(live, 30, 0.1, clock=time, sleep=time.sleep)
    found = judge_soak(counted, 30, {})[0]
    assert ("BUS_ERRORS", "wrist_flex") in told(found, Status.FAIL)
    assert {subject for code, subject in told(found) if code == "BUS_ERRORS"} == {"wrist_flex"}


def test_corrupted_packets_are_counted_and_survived(tmp_path):
    with rig(tmp_path) as (servos, _, live):
        servos.bank.faults.corrupt_every = 50
        time = Time()
        counted = soak(live, 30, 1.0, clock=time, sleep=time.sleep)
    assert 0 < sum(counted.failed.values()) < counted.readings
    assert told(judge_soak(counted, 30, {})[0]) and counted.last is not None


def test_a_port_that_is_not_there(tmp_path):
    robot = SO101Follower(SO101FollowerConfig(port=str(tmp_path / "tty"), id="rig", calibration_dir=tmp_path))
    with open_for_reading(robot) as live:
        found = judge_ports(live)
    assert told(found, Status.FAIL) == {("BUS_ERRORS", str(tmp_path / "tty"))}
    assert "does not exist" in found[0].summary


def test_another_calibration_in_the_motors_than_on_file(tmp_path):
    moved = {name: dict(entry) for name, entry in CALIBRATION.items()}
    moved["elbow_flex"]["homing_offset"] += 114
    with ServoRig(calibration=moved) as servos:
        path = servos.save_calibration(tmp_path, "rig")
        file = json.loads(path.read_text())
        file["elbow_flex"]["homing_offset"] -= 114
        path.write_text(json.dumps(file))
        robot = SO101Follower(SO101FollowerConfig(port=servos.port, id="rig", calibration_dir=tmp_path))
        with open_for_reading(robot) as live:
            found = judge_arm(live.arms[0])[0]
        assert servos.bank.log == []
    assert told(found, Status.FAIL) == {("ZERO_CHANGED", "elbow_flex")}
    assert "114 ticks" in next(f.summary for f in found if f.status is Status.FAIL)


def test_other_numbers_for_the_same_angles_only_warn(tmp_path):
    entry = SimpleNamespace(id=3, drive_mode=0, homing_offset=977, range_min=944, range_max=3152)
    shifted = SimpleNamespace(id=3, drive_mode=0, homing_offset=877, range_min=1044, range_max=3252)
    found, tables = judge_calibration("", {"elbow_flex": entry}, {"elbow_flex": shifted}, {}, tmp_path / "x.json")
    assert told(found) == {("ZERO_CHANGED", "joints")}
    assert len(tables[0].rows) == 3


def test_no_file_offers_the_one_under_the_old_name(tmp_path):
    folder = tmp_path / "robots" / "so_follower"
    old = tmp_path / "robots" / "so101_follower" / "arm.json"
    old.parent.mkdir(parents=True)
    old.write_text("{}")
    found = judge_calibration("", {}, {}, {}, folder / "arm.json")[0]
    assert found[0].status is Status.FAIL
    assert str(old) in found[0].fix
    assert "lerobot-calibrate" in judge_calibration("", {}, {}, {}, folder / "none.json")[0][0].fix


def test_a_joint_outside_its_range_or_on_its_seam(tmp_path):
    entry = SimpleNamespace(id=3, drive_mode=0, homing_offset=977, range_min=944, range_max=3152)
    file = {"elbow_flex": entry}

    def at(tick):
        return told(judge_calibration("", file, file, {"elbow_flex": tick}, tmp_path / "x.json")[0])

    assert at(3160) == set()
    assert at(3300) == {("ZERO_CHANGED", "elbow_flex")}
    assert at(4090) == {("WRAP", "elbow_flex")}


def supply(*tenths, temperature=30, status=0):
    return {
        f"m{i}": {"Present_Voltage": v, "Present_Temperature": temperature, "Status": status}
        for i, v in enumerate(tenths)
    }


def test_supply_heat_and_overload():
    assert not told(judge_supply("", supply(120, 119, 118)))
    assert not told(judge_supply("", supply(74, 73)))
    assert told(judge_supply("", supply(55, 55)), Status.FAIL) == {("BUS_ERRORS", "supply")}
    assert told(judge_supply("", supply(120, 105)), Status.WARN) == {("BUS_ERRORS", "supply")}
    assert told(judge_supply("", supply(120, temperature=58)), Status.WARN) == {("OVERLOAD", "m0")}
    assert told(judge_supply("", supply(120, status=0x20)), Status.FAIL) == {("OVERLOAD", "m0")}


class FakeRobot(LiveRobot):
    """Readings by a function of the time."""

    def __init__(self, read):
        super().__init__(robot=None)
        self.read = read


def run(read, seconds=2.0, cost=0.0):
    time = Time()

    def timed():
        time.now += cost
        return read(time.now)

    return soak(FakeRobot(timed), 30, seconds, clock=time, sleep=time.sleep)


def frame(value):
    return np.full((4, 4, 3), value, np.uint8)


def test_a_loop_that_is_too_slow_and_one_that_keeps_up():
    def reading(_now):
        return Reading({"a.pos": 0.0})

    assert told(judge_soak(run(reading, cost=0.05), 30, {})[0]) == {("SLOW_LOOP", "readings")}
    assert not told(judge_soak(run(reading, cost=0.02), 30, {})[0])


def test_cameras_that_are_slow_drop_or_stand_still():
    def at(fps, alive=lambda _now: True, changes=True):
        def reading(now):
            n = int(now * fps)
            if not alive(now):
                return Reading({"a.pos": 0.0}, failed={"top": "too old"})
            return Reading({"a.pos": 0.0}, {"top": frame(n % 200 if changes else 7)}, {"top": float(n)})

        return judge_soak(run(reading), 30, {"top": 30.0})[0]

    assert not told(at(30))
    assert told(at(12)) == {("STALE_FRAMES", "top")}
    assert told(at(30, alive=lambda now: now < 1), Status.FAIL) == {("STALE_FRAMES", "top")}
    still = at(30, changes=False)
    assert not told(still)
    assert told(still, Status.UNKNOWN) == {("FROZEN", "top")}


def test_cameras_opened_by_number():
    def live(*indices):
        cameras = {f"c{i}": SimpleNamespace(config=SimpleNamespace(index_or_path=v)) for i, v in enumerate(indices)}
        return LiveRobot(None, cameras=cameras)

    assert told(judge_ports(live(0, 2)), Status.WARN) == {("INDEX_UNSTABLE", "c0, c1")}
    assert not judge_ports(live(0))
    assert not judge_ports(live("/dev/v4l/by-id/a", "/dev/v4l/by-id/b"))


def test_nothing_read_is_no_pass():
    assert not [f for f in judge_soak(Soak(seconds=1.0), 30, {})[0] if f.status is Status.PASS]
