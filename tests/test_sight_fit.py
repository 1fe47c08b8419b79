"""The parts of the fit, against finite differences and hand-made outlines."""

from contextlib import closing
from importlib.util import find_spec

import numpy as np
import pytest

from lerobot_diagnostics.sight.camera import look_at
from lerobot_diagnostics.sight.silhouette import cleaned, most_shown, outline, uncovered

CAMERA = look_at(np.array([0.6, -0.2, 0.4]), np.array([0.15, 0.0, 0.1]), 1.2, roll=0.1)


def test_a_camera_sees_its_target_in_the_middle_and_right_is_right():
    pixels = CAMERA.pixels(CAMERA.seen_from(np.array([0.15, 0.0, 0.1])), 320, 240)
    assert pixels == pytest.approx([159.5, 119.5])
    upright = look_at(np.array([0.6, 0.0, 0.1]), np.array([0.0, 0.0, 0.1]), 1.2)
    left = upright.pixels(upright.seen_from(np.array([0.0, 0.1, 0.1])), 320, 240)  # the arm's left, seen from before it
    assert left[0] > 159.5
    assert upright.pixels(upright.seen_from(np.array([0.0, 0.0, 0.2])), 320, 240)[1] < 119.5


def test_rays_invert_pixels():
    seen = CAMERA.seen_from(np.array([[0.1, 0.05, 0.2], [0.3, -0.1, 0.0]]))
    rays = CAMERA.rays(CAMERA.pixels(seen, 320, 240), 320, 240)
    assert rays * -seen[:, 2:] == pytest.approx(seen)


def test_camera_jacobians_agree_with_finite_differences():
    points = np.array([[0.1, 0.05, 0.2], [0.3, -0.1, 0.0]])
    found = CAMERA.by_parameters(CAMERA.seen_from(points), 240)
    for column in range(7):
        step = 1e-6 * np.eye(7)[column]
        ahead, behind = CAMERA.moved(step), CAMERA.moved(-step)
        numeric = ahead.pixels(ahead.seen_from(points), 320, 240) - behind.pixels(behind.seen_from(points), 320, 240)
        assert found[:, :, column] == pytest.approx(numeric / 2e-6, rel=1e-4, abs=1e-4)


def test_distance_to_an_outline_counts_from_half_a_pixel_outside_its_rim():
    inside = np.zeros((20, 20), bool)
    inside[5:15, 5:15] = True
    seen = outline(inside, np.ones_like(inside))
    assert seen.distance_px[10, [3, 4, 5, 6]] == pytest.approx([1.5, 0.5, -0.5, -1.5])
    assert seen.slope[:, 10, 4] == pytest.approx([-1.0, 0.0], abs=0.05)


def test_specks_and_pinholes_go_the_arm_stays():
    marked = np.zeros((100, 100), bool)
    marked[20:60, 20:60] = True
    wanted = marked.copy()
    marked[80, 80] = True
    marked[40, 40] = False
    assert (cleaned(marked) == wanted).all()


def test_the_background_is_shown_where_the_arm_is_in_most_pictures():
    rng = np.random.default_rng(0)
    pictures = [np.full((20, 20, 3), 100, np.uint8) for _ in range(10)]
    for picture in pictures[:6]:
        picture[5:15, 5:15] = rng.integers(130, 255, (10, 10, 3))  # an arm's shading, never twice the same
    assert (most_shown(pictures) == 100).all()
    assert (np.median(pictures, axis=0) != 100).any()


def test_the_background_is_what_is_seen_while_the_arm_is_elsewhere():
    table = np.full((20, 20, 3), 100, np.uint8)
    pictures, covered = [], []
    for k in range(5):
        arm = np.zeros((20, 20), bool)
        arm[:, : 4 * (k + 1)] = True  # the left edge is always covered, the right one only once
        pictures.append(np.where(arm[..., None], 7, table).astype(np.uint8))
        covered.append(arm)
    found = uncovered(pictures, covered)
    assert not found.mask[:, :12].any()
    assert found.mask[:, 12:].all()
    assert (found.picture[:, 12:] == 100).all()


@pytest.mark.skipif(not find_spec("mujoco"), reason="extra sim")
def test_joints_and_base_move_the_arms_points_as_their_derivatives_say():
    from lerobot_diagnostics.sight.model import PAN_AXIS_M, Arm

    pose, base = np.array([10.0, -40.0, 50.0, 40.0, 15.0, 30.0]), np.array([0.01, -0.02, 0.1])
    with closing(Arm()) as arm:

        def at(p, b):
            arm.place(p, b)
            return arm.surface(5)

        points, links = at(pose, base)
        turned = base[:2] + np.cos(0.1) * PAN_AXIS_M + [0, np.sin(0.1) * PAN_AXIS_M[0]]
        assert arm._data.xanchor[0, :2] == pytest.approx(turned, abs=1e-4)
        by_joints, by_base = arm.by_joints(points, links), arm.by_base(points)
        for column, step in enumerate(1e-4 * np.eye(6)):
            numeric = (at(pose + step, base)[0] - at(pose - step, base)[0]) / 2e-4
            assert by_joints[:, :, column] == pytest.approx(numeric, abs=1e-6)
        for column, step in enumerate(1e-5 * np.eye(3)):
            numeric = (at(pose, base + step)[0] - at(pose, base - step)[0]) / 2e-5
            assert by_base[:, :, column] == pytest.approx(numeric, abs=1e-6)
