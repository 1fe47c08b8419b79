"""A drawn two-joint arm: nudged pictures in, the joint that moved out."""

from itertools import pairwise

import cv2
import numpy as np
import pytest

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.sight.nudges import Nudged, fit_nudges

TABLE = cv2.resize(
    np.random.default_rng(1).integers(90, 200, (12, 16, 3)).astype(np.uint8), (320, 240), interpolation=cv2.INTER_CUBIC
)


def drawn(shoulder: float, elbow: float, cube: tuple[int, int] = (280, 40), light: float = 1.0) -> np.ndarray:
    picture = TABLE.copy()
    cv2.rectangle(picture, cube, (cube[0] + 16, cube[1] + 16), (200, 30, 30), -1)
    first = np.array([160, 220]) + 110 * np.array([np.sin(np.deg2rad(shoulder)), -np.cos(np.deg2rad(shoulder))])
    angle = np.deg2rad(shoulder + elbow)
    second = first + 80 * np.array([np.sin(angle), -np.cos(angle)])
    joints = [np.array([160, 220]), first, second]
    for a, b in pairwise(joints):
        cv2.line(picture, tuple(a.round().astype(int)), tuple(b.round().astype(int)), (250, 220, 40), 16, cv2.LINE_AA)
    return np.clip(picture * light, 0, 255).astype(np.uint8)


POSES = ((-10.0, 70.0), (15.0, -60.0))
SNAPSHOT = [
    Nudged(
        drawn(a, b),
        {
            "shoulder": [(d, drawn(a + d, b)) for d in (-4.0, 4.0)],
            "elbow": [(d, drawn(a, b + d)) for d in (-4.0, 4.0)],
        },
    )
    for a, b in POSES
]


@pytest.mark.parametrize(("joint", "offset"), [("shoulder", 3.0), ("shoulder", -4.0), ("elbow", 4.0), ("elbow", -3.0)])
def test_the_joint_whose_zero_moved_is_named(joint, offset):
    """A joint that reads ``offset`` too much stands ``offset`` below its reading."""
    live = [drawn(a - offset * (joint == "shoulder"), b - offset * (joint == "elbow")) for a, b in POSES]
    found = fit_nudges(SNAPSHOT, live)
    assert found.joint == joint
    assert found.offset == pytest.approx(offset, abs=0.8)
    assert found.error < 1.0


@pytest.mark.parametrize("change", [{}, {"light": 0.8}, {"cube": (40, 60)}])
def test_an_unchanged_arm_is_quiet_in_another_light_and_beside_a_moved_cube(change):
    assert fit_nudges(SNAPSHOT, [drawn(*pose, **change) for pose in POSES]).joint is None


def test_a_moved_camera_is_not_a_joint():
    shift = np.array([[1.0, 0.0, 5.0], [0.0, 1.0, 3.0]])
    assert fit_nudges(SNAPSHOT, [cv2.warpAffine(drawn(*pose), shift, (320, 240)) for pose in POSES]).joint is None


def test_every_pose_needs_a_live_picture():
    with pytest.raises(UsageError, match="1 live pictures for 2 poses"):
        fit_nudges(SNAPSHOT, [SNAPSHOT[0].picture])
