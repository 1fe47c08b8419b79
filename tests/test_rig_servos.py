"""The servo rig: the protocol on hand-made bytes, and LeRobot's stock follower on the pseudo-terminal."""

import logging
import time

import pytest

pytest.importorskip("pty", reason="the rig needs a pseudo-terminal")

from lerobot.robots.so_follower import SO101Follower, SO101FollowerConfig
from rig import JOINTS, Faults, ServoBank, ServoRig
from rig.servos import CALIBRATION, MODEL_NUMBER, OVERLOAD, frame, to_ticks, to_units

READ_POSITION = bytes([56, 2])
TORQUE_ON = frame(2, 3, bytes([40, 1]))


def goal(servo_id: int, ticks: int) -> bytes:
    return frame(servo_id, 3, bytes([42]) + ticks.to_bytes(2, "little"))


def position(reply: bytes) -> int:
    assert reply[:2] == b"\xff\xff", reply
    return int.from_bytes(reply[5:7], "little")


# --- the bank, bytes in and bytes out ------------------------------------------------------------------------------


def test_ping_and_model_number_by_hand():
    bank = ServoBank()
    assert bank.receive(bytes([0xFF, 0xFF, 1, 2, 1, 0xFB]), 0.0) == bytes([0xFF, 0xFF, 1, 2, 0, 0xFC])
    reply = bank.receive(bytes([0xFF, 0xFF, 1, 4, 2, 3, 2, 0xF3]), 0.0)
    assert reply == bytes([0xFF, 0xFF, 1, 4, 0, 9, 3, 0xEE])  # 777 = 0x0309, low byte first
    assert MODEL_NUMBER == 777


def test_nobody_answers_for_an_absent_servo_or_a_wrong_checksum():
    bank = ServoBank()
    assert bank.receive(frame(9, 1), 0.0) == b""
    assert bank.receive(bytes([0xFF, 0xFF, 1, 2, 1, 0x00]), 0.0) == b""
    assert bank.receive(frame(1, 1), 0.0) != b""  # and the next good packet is understood


def test_a_request_may_arrive_in_pieces():
    bank = ServoBank()
    packet = frame(3, 1)
    assert bank.receive(packet[:3], 0.0) == b""
    assert bank.receive(packet[3:], 0.0) == frame(3, 0)


def test_motion_is_bounded_in_speed_and_needs_torque():
    start = round(to_ticks("shoulder_lift", 0.0))
    bank = ServoBank(start={"shoulder_lift": 0.0}, speed_deg_s=90.0)  # 1024 ticks a second
    read = frame(2, 2, READ_POSITION)
    bank.receive(goal(2, start + 1000), 0.0)
    assert position(bank.receive(read, 1.0)) == start
    bank.receive(TORQUE_ON, 1.0)  # forgets the old goal: the arm does not jump
    assert position(bank.receive(read, 2.0)) == start
    bank.receive(goal(2, start + 1000), 2.0)
    assert position(bank.receive(read, 2.5)) == start + 512
    assert position(bank.receive(read, 9.0)) == start + 1000


def test_goals_are_clipped_to_the_limits():
    bank = ServoBank()
    bank.receive(TORQUE_ON + goal(2, 4000), 0.0)
    assert position(bank.receive(frame(2, 2, READ_POSITION), 60.0)) == CALIBRATION["shoulder_lift"]["range_max"]


def test_the_homing_offset_shifts_what_is_reported():
    bank = ServoBank(start={"shoulder_lift": 0.0})
    read = frame(2, 2, READ_POSITION)
    before = position(bank.receive(read, 0.0))
    changed = CALIBRATION["shoulder_lift"]["homing_offset"] + 100
    bank.receive(frame(2, 3, bytes([31]) + changed.to_bytes(2, "little")), 0.0)
    assert position(bank.receive(read, 0.0)) == before - 100


def test_units_are_lerobots():
    assert to_units("elbow_flex", 944 + (3152 - 944) / 2) == 0.0
    assert to_units("elbow_flex", to_ticks("elbow_flex", 37.5)) == pytest.approx(37.5)
    assert to_ticks("gripper", 50.0) == (2030 + 3520) / 2


def test_every_nth_status_packet_is_lost_or_spoilt():
    lossy = ServoBank(Faults(drop_every=3))
    assert [bool(lossy.receive(frame(1, 1), 0.0)) for _ in range(6)] == [True, True, False] * 2
    noisy = ServoBank(Faults(corrupt_every=2))
    assert [noisy.receive(frame(1, 1), 0.0) == frame(1, 0) for _ in range(4)] == [True, False] * 2


def test_a_stall_shows_in_load_then_raises_the_overload_bit():
    faults = Faults(stalled={"shoulder_lift"})
    bank = ServoBank(faults, start={"shoulder_lift": 0.0})
    start = round(to_ticks("shoulder_lift", 0.0))
    bank.receive(TORQUE_ON + goal(2, start + 500), 0.0)
    reply = bank.receive(frame(2, 2, READ_POSITION), 0.1)
    assert (position(reply), reply[4]) == (start, 0)
    assert bank.servos[2].get("Present_Load") == 1000
    assert bank.receive(frame(2, 2, READ_POSITION), 2.2)[4] == OVERLOAD  # after Protection_Time, 2 s
    faults.stalled.clear()
    reply = bank.receive(frame(2, 2, READ_POSITION), 9.0)
    assert (position(reply), reply[4]) == (start + 500, 0)


def test_the_log_holds_what_was_asked_with_its_time():
    bank = ServoBank()
    start = round(to_ticks("shoulder_lift", 12.0))
    bank.receive(goal(2, start), 1.5)
    (write,) = bank.writes("Goal_Position")
    assert (write.time_s, write.values) == (1.5, {"shoulder_lift": start})
    assert bank.goals()[0]["shoulder_lift"] == pytest.approx(12.0, abs=0.05)
    assert bank.writes("Torque_Enable") == []


# --- LeRobot's stock follower --------------------------------------------------------------------------------------


def follower(rig: ServoRig, folder, **config) -> SO101Follower:
    rig.save_calibration(folder)
    return SO101Follower(SO101FollowerConfig(port=rig.port, id="rig", calibration_dir=folder, **config))


def settle(robot: SO101Follower, limit_s: float = 5.0) -> dict[str, float]:
    """Read until the arm stands still (or for ``limit_s``: how long a read takes depends on the machine)."""
    last: dict[str, float] = {}
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        last, before = robot.get_observation(), last
        if last == before:
            break
    return last


def test_stock_follower_connects_reads_moves_and_lets_go(tmp_path):
    wanted = {f"{joint}.pos": value for joint, value in zip(JOINTS, (20, -50, 60, 30, -40, 55), strict=True)}
    with ServoRig(speed_deg_s=2000) as rig:
        robot = follower(rig, tmp_path)
        robot.connect()
        assert robot.get_observation()["elbow_flex.pos"] == pytest.approx(92.0, abs=0.1)
        robot.send_action(wanted)
        reached = settle(robot)
        robot.disconnect()
    assert reached == pytest.approx(wanted, abs=0.1)
    (sent,) = rig.bank.goals()
    assert {f"{joint}.pos": value for joint, value in sent.items()} == pytest.approx(wanted, abs=0.1)
    assert [set(write.values.values()) for write in rig.bank.writes("Torque_Enable")][-6:] == [{0}] * 6


def test_a_lying_encoder_shows_only_in_the_true_pose(tmp_path):
    with ServoRig(Faults(zero_offset_ticks={"elbow_flex": 114}), speed_deg_s=2000) as rig:
        robot = follower(rig, tmp_path)
        robot.connect()
        robot.send_action({"elbow_flex.pos": 40.0})
        reached = settle(robot)
        robot.disconnect()
    assert reached["elbow_flex.pos"] == pytest.approx(40.0, abs=0.1)
    assert rig.bank.true_pose()["elbow_flex"] == pytest.approx(30.0, abs=0.1)  # 114 ticks are 10°


def test_standing_error(tmp_path):
    with ServoRig(Faults(standing_error_ticks={"shoulder_lift": -28}), speed_deg_s=2000) as rig:
        robot = follower(rig, tmp_path)
        robot.connect()
        robot.send_action({"shoulder_lift.pos": 0.0, "elbow_flex.pos": 0.0})
        reached = settle(robot)
        robot.disconnect()
    assert reached["shoulder_lift.pos"] == pytest.approx(-2.46, abs=0.1)
    assert reached["elbow_flex.pos"] == pytest.approx(0.0, abs=0.1)


def test_a_corrupted_packet_is_retried_by_lerobot(tmp_path, caplog):
    with ServoRig() as rig:
        robot = follower(rig, tmp_path)
        robot.connect()
        rig.bank.faults.corrupt_every = 20
        with caplog.at_level(logging.DEBUG, logger="lerobot.motors.motors_bus"):
            readings = [robot.get_observation()["elbow_flex.pos"] for _ in range(10)]
        rig.bank.faults.corrupt_every = 0
        robot.disconnect()
    assert readings == pytest.approx([92.0] * 10, abs=0.1)
    assert caplog.text.count("Incorrect status packet") >= 2


@pytest.mark.parametrize("fault", ["silent", "silent_in_sync_read"])
def test_a_servo_that_stops_answering_fails_the_sync_read(tmp_path, fault):
    with ServoRig() as rig:
        robot = follower(rig, tmp_path)
        robot.connect()
        getattr(rig.bank.faults, fault).add("wrist_flex")
        with pytest.raises(ConnectionError, match="no status packet"):
            robot.get_observation()
        if fault == "silent":
            with pytest.raises(ConnectionError):
                robot.bus.read("Present_Position", "wrist_flex")
        else:
            assert robot.bus.read("Present_Position", "wrist_flex") == pytest.approx(70.0, abs=0.1)
        getattr(rig.bank.faults, fault).clear()
        robot.disconnect()


def test_the_arm_can_break_at_a_chosen_goal(tmp_path):
    faults = Faults()

    def break_at_third(goals: int) -> None:
        if goals == 3:
            faults.silent.add("gripper")

    with ServoRig(faults, on_goal=break_at_third) as rig:
        robot = follower(rig, tmp_path)
        robot.connect()
        for _ in range(3):
            robot.get_observation()
            robot.send_action({"gripper.pos": 10.0})
        with pytest.raises(ConnectionError):
            robot.get_observation()
        faults.silent.clear()
        robot.disconnect()
    assert len(rig.bank.goals()) == 3
