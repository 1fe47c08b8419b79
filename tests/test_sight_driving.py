"""Poses to drive to: high ones, highest first."""

from contextlib import closing
from importlib.util import find_spec

import numpy as np
import pytest

if not find_spec("mujoco"):  # not imported here: the package chooses the renderer first
    pytest.skip("extra sim", allow_module_level=True)

from lerobot_diagnostics.sight.driving import APPROACH, LEAST_CLEARANCE_M, both_sides, clearances, clearest
from lerobot_diagnostics.sight.model import Arm

HIGH = [0.0, -60.0, 40.0, 20.0, 0.0, 10.0]
LOW = [0.0, 20.0, 40.0, 30.0, 0.0, 10.0]


def test_clearance_falls_as_the_arm_leans_forward():
    with closing(Arm()) as arm:
        found = clearances(arm, np.array([[0.0, lift, 40.0, 20.0, 0.0, 10.0] for lift in (-60, -30, 0)]))
    assert (np.diff(found) < 0).all()


def test_low_poses_are_left_out_and_the_highest_comes_first():
    readings = np.array([LOW, *[[pan, lift, *HIGH[2:]] for pan in (-20.0, 20.0) for lift in (-50.0, -70.0)], LOW])
    with closing(Arm()) as arm:
        chosen = clearest(readings, 3, arm)
        heights = clearances(arm, chosen)
    assert len(chosen) == 3
    assert (heights >= LEAST_CLEARANCE_M).all()
    assert (np.diff(heights) <= 1e-9).all()


def test_where_every_pose_is_low_there_is_none_to_drive_to():
    assert clearest(np.array([LOW, LOW])).shape == (0, 6)


UNLIMITED = np.tile([-np.inf, np.inf], (6, 1))
MIDDLE = [0.0, -60.0, 40.0, 20.0, 0.0, 50.0]
FIVE = np.array([[15.0 * k, *MIDDLE[1:]] for k in range(-2, 3)])


def test_a_pose_is_approached_from_both_sides_where_both_are_clear():
    poses = np.array([*FIVE, LOW])
    with closing(Arm()) as arm:
        side, clear = both_sides(poses, UNLIMITED, arm)
        for way in (1, -1):
            assert (clearances(arm, poses[clear] + way * APPROACH * side) >= LEAST_CLEARANCE_M).all()
    assert clear.tolist() == [True] * 5 + [False]
    assert (np.abs(side) == 1).all()


def test_a_joint_near_its_limit_stays_and_a_pose_with_one_is_left_out():
    arm_limits = UNLIMITED.copy()
    arm_limits[4] = [-2.0, 170.0]  # of this arm's own calibration: every pose is near it
    with closing(Arm()) as arm:
        near = np.array([*FIVE, [*MIDDLE[:3], arm.bounds[3, 1] - 5.0, *MIDDLE[4:]]])  # of the model
        side, clear = both_sides(near, arm_limits, arm)
    assert side[4] == 0 and (np.abs(side[[0, 1, 2, 3, 5]]) == 1).all()
    assert clear.tolist() == [True] * 5 + [False]
