"""A drawn three-joint arm: nudged pictures in, the joint that moved out."""

import cv2
import numpy as np
import pytest
from drawn_arm import draw_arm

from lerobot_diagnostics.findings import Status
from lerobot_diagnostics.sight.nudges import Nudged, compare_nudges, fit_nudges

JOINTS = ["shoulder", "elbow", "gripper"]
TABLE = cv2.resize(
    np.random.default_rng(1).integers(90, 200, (24, 32, 3)).astype(np.uint8), (320, 240), interpolation=cv2.INTER_CUBIC
)
POSES = np.array([[-10.0, 70.0, 20.0], [15.0, -60.0, 20.0]])


def drawn(pose, cube=(280, 40), light=1.0) -> np.ndarray:
    picture = TABLE.copy()
    cv2.rectangle(picture, cube, (cube[0] + 16, cube[1] + 16), (200, 30, 30), -1)
    shoulder, elbow, gripper = pose
    draw_arm(picture, (160.0, 170.0), 0.0, ((shoulder, 80), (elbow, 50)), gripper, finger=30, width=20)
    return np.clip(picture * light, 0, 255).astype(np.uint8)


def snapshot(errors=0.0):
    """Nudges that follow by something else than was asked, the other joints giving way a little."""
    rng = np.random.default_rng(3)
    poses = []
    for pose in POSES:
        steps = np.concatenate([np.zeros((1, 3)), 4 * np.eye(3), -4 * np.eye(3)])
        readings = pose + steps + errors * rng.normal(size=steps.shape)
        poses.append(Nudged(readings, [drawn(reading) for reading in readings]))
    return poses


SNAPSHOT = snapshot()


def compared(zeros=(0.0, 0.0, 0.0), away=(0.0, 0.0, 0.0), before=SNAPSHOT, draw=drawn, **change):
    """What is said of an arm with such zeros that stands ``away`` from the snapshot's poses."""
    readings = np.array([pose.readings[0] + away for pose in before])
    live = [draw(reading - zeros, **change) for reading in readings]
    (finding,) = compare_nudges({"front": before}, readings, {"front": live}, JOINTS)
    return finding


@pytest.mark.parametrize(
    ("joint", "off"), [(0, 3.0), (0, -4.0), (1, 4.0), (1, -3.0), (2, 6.0), (2, -6.0)], ids=lambda v: str(v)
)
@pytest.mark.parametrize("before", [SNAPSHOT, snapshot(errors=0.3)], ids=["exact", "inexact"])
def test_the_joint_whose_zero_moved_is_named(joint, off, before):
    """A joint that reads ``off`` too much stands ``off`` below its reading."""
    zeros = np.zeros(3)
    zeros[joint] = off
    found = compared(zeros, before=before)
    assert (found.code, found.status, found.subject) == ("JOINT_OFFSET", Status.FAIL, JOINTS[joint])
    within = {0: 0.5, 1: 1.0, 2: 2.0}[joint]
    assert found.evidence["offset_pct" if joint == 2 else "offset_deg"] == pytest.approx(off, abs=within)


@pytest.mark.parametrize("change", [{}, {"light": 0.8}, {"cube": (40, 60)}], ids=str)
def test_an_unchanged_arm_passes_in_another_light_and_beside_a_moved_cube(change):
    found = compared(**change)
    assert (found.code, found.status) == ("JOINT_OFFSET", Status.PASS)


def test_an_arm_that_stands_a_little_elsewhere_by_its_own_readings_passes():
    assert compared(away=(2.0, -1.5, 0.0)).status is Status.PASS
    assert compared((0.0, 4.0, 0.0), away=(2.0, -1.5, 0.0)).subject == "elbow"


def test_two_zeros_are_not_one():
    found = compared((0.0, 4.0, -8.0))
    assert (found.code, found.status) == ("UNDECIDED", Status.UNKNOWN)


def test_a_moved_camera_is_not_used():
    def knocked(pose):
        return cv2.warpAffine(drawn(pose), np.array([[1.0, 0.0, 5.0], [0.0, 1.0, 3.0]]), (320, 240))

    found = compared(draw=knocked)
    assert (found.code, found.status) == ("UNDECIDED", Status.UNKNOWN)
    assert "camera has moved by 5.9 px" in found.summary


def test_another_camera_still_decides():
    readings = np.array([pose.readings[0] for pose in SNAPSHOT])
    live = [drawn(reading - (0.0, 4.0, 0.0)) for reading in readings]
    both = {"front": SNAPSHOT, "side": SNAPSHOT}
    (found,) = compare_nudges(both, readings, {"front": live, "side": [np.zeros_like(live[0])] * 2}, JOINTS)
    assert found.subject == "elbow"
    assert found.evidence["cameras"] == ["front"]
    assert "not recognised" in found.evidence["reasons"]["side"]


def test_offsets_are_measured_in_spite_of_another_joint_s_error():
    fit = fit_nudges(SNAPSHOT, [(pose.readings[0], drawn(pose.readings[0] - (2.0, -2.0, 0.0))) for pose in SNAPSHOT])
    assert fit.together == pytest.approx([2.0, -2.0, 0.0], abs=0.8)
