import av
import cv2
import numpy as np
import pytest
from vision_scenes import relit, warped, with_arm

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Finding, Status
from lerobot_diagnostics.vision import Background, background_of, compare_workspace, foreground
from lerobot_diagnostics.vision.workspace import Change, _object_changes

POSE = -25.0


def scene(cube: tuple[int, int] = (240, 90), tray: tuple[int, int] = (60, 110)) -> np.ndarray:
    """A wooden table with marks, a tray and a cube."""
    rng = np.random.default_rng(3)
    picture = np.full((240, 320, 3), (170, 140, 100), np.float64)
    picture += cv2.resize(rng.normal(0, 14, (24, 32, 3)), (320, 240), interpolation=cv2.INTER_CUBIC)
    for x, y in ((20, 20), (300, 30), (150, 30), (20, 220), (300, 210), (110, 60), (210, 200), (270, 150)):
        cv2.rectangle(picture, (x - 6, y - 5), (x + 7, y + 6), (60, 70, 90), -1)
        cv2.circle(picture, (x + 3, y), 3, (230, 220, 210), -1)
    cv2.rectangle(picture, tray, (tray[0] + 50, tray[1] + 36), (40, 110, 60), -1)
    cv2.rectangle(picture, (tray[0] + 5, tray[1] + 5), (tray[0] + 45, tray[1] + 31), (90, 160, 100), -1)
    cv2.rectangle(picture, cube, (cube[0] + 14, cube[1] + 14), (210, 40, 40), -1)
    cv2.rectangle(picture, (cube[0] + 3, cube[1] + 3), (cube[0] + 8, cube[1] + 8), (240, 120, 110), -1)
    return np.clip(picture, 0, 255).astype(np.uint8)


def noisy(picture: np.ndarray, seed: int) -> np.ndarray:
    return np.clip(picture + np.random.default_rng(seed).normal(0, 2, picture.shape), 0, 255).astype(np.uint8)


@pytest.fixture(scope="module")
def background() -> Background:
    """Twelve frames: the arm sweeps, the cube is carried about, the tray stands."""
    cubes = [(240, 90), (200, 60), (230, 130), (180, 100)]
    return background_of([noisy(with_arm(scene(cubes[k % 4]), -60 + 11 * k), k) for k in range(12)])


@pytest.fixture(scope="module")
def at_pose() -> list[np.ndarray]:
    """The start pose in three episodes, the cube always in its place."""
    return [noisy(with_arm(scene(), POSE), 50 + k) for k in range(3)]


@pytest.fixture(scope="module")
def spread() -> list[np.ndarray]:
    """The start pose in five episodes; the cube begins 4 px further right and 3 px further down in each."""
    return [noisy(with_arm(scene((232 + 4 * k, 84 + 3 * k)), POSE), 50 + k) for k in range(5)]


def judged(live: np.ndarray, at_pose: list[np.ndarray], background: Background) -> dict[str, list[Finding]]:
    result: dict[str, list[Finding]] = {}
    for finding in compare_workspace({"top": live}, {"top": at_pose}, {"top": background}):
        result.setdefault(finding.code, []).append(finding)
    return result


def statuses(findings: dict[str, list[Finding]]) -> dict[str, str]:
    return {
        code: str(max((f.status for f in items), key=lambda s: s is Status.WARN)) for code, items in findings.items()
    }


UNMOVED = {"MOVED": "pass", "BASE_MOVED": "pass", "OBJECT_MOVED": "pass"}


def test_background_mask_keeps_the_table_and_drops_what_moves(background: Background) -> None:
    assert background.mask is not None
    assert background.mask[15:40, 100:220].all()
    assert background.mask[110:146, 60:110].mean() > 0.9  # the tray's edges survive
    assert background.mask[205:235, 155:165].mean() < 0.7  # the base, under the sweeping arm
    assert 0.6 < background.mask.mean() < 0.995


def test_one_pixel_of_shake_does_not_cost_the_edges() -> None:
    shaken = background_of([warped(scene(), 0.7 * (-1) ** k, 0.5 * (-1) ** (k // 2)) for k in range(10)])
    assert shaken.mask is not None
    assert shaken.mask.mean() > 0.97


def test_a_moving_camera_has_no_background() -> None:
    moving = background_of([np.random.default_rng(k).integers(0, 255, (60, 80, 3)).astype(np.uint8) for k in range(8)])
    assert moving.mask is None
    findings = compare_workspace({"wrist": moving.picture}, {"wrist": [moving.picture]}, {"wrist": moving})
    assert [f.status for f in findings] == [Status.UNKNOWN]


def test_nothing_moved(at_pose: list[np.ndarray], background: Background) -> None:
    assert statuses(judged(noisy(with_arm(scene(), POSE), 99), at_pose, background)) == UNMOVED


def test_dimmed_light_moves_nothing(at_pose: list[np.ndarray], background: Background) -> None:
    assert statuses(judged(relit(noisy(with_arm(scene(), POSE), 99), 0.7, 0.65, 0.6), at_pose, background)) == UNMOVED


def test_moved_camera(at_pose: list[np.ndarray], background: Background) -> None:
    found = judged(warped(noisy(with_arm(scene(), POSE), 99), 9, -5, 1.5), at_pose, background)
    assert statuses(found) == {"MOVED": "warn", "BASE_MOVED": "unknown", "OBJECT_MOVED": "unknown"}
    evidence = found["MOVED"][0].evidence
    assert (evidence["dx_px"], evidence["dy_px"], evidence["rotation_deg"]) == pytest.approx((9, -5, 1.5), abs=0.3)


def test_moved_base(at_pose: list[np.ndarray], background: Background) -> None:
    found = judged(noisy(with_arm(scene(), POSE, base=(172, 239)), 99), at_pose, background)
    assert statuses(found) == {**UNMOVED, "BASE_MOVED": "warn"}
    assert found["BASE_MOVED"][0].evidence["dx_px"] == pytest.approx(12, abs=1.0)
    assert "left" in found["BASE_MOVED"][0].fix


@pytest.mark.parametrize(
    ("live", "dx", "dy"),
    [
        (scene(cube=(262, 78)), 22, -12),  # far: the old and the new place do not overlap
        (scene(cube=(246, 94)), 6, 4),  # near: they overlap
        (scene(tray=(72, 118)), 12, 8),  # part of the background: it never moved in the recording
    ],
)
def test_moved_object(
    live: np.ndarray, dx: float, dy: float, at_pose: list[np.ndarray], background: Background
) -> None:
    found = judged(noisy(with_arm(live, POSE), 99), at_pose, background)
    assert statuses(found) == {**UNMOVED, "OBJECT_MOVED": "warn"}
    (finding,) = found["OBJECT_MOVED"]
    assert (finding.evidence["dx_px"], finding.evidence["dy_px"]) == pytest.approx((dx, dy), abs=1.0)


def test_object_gone_is_said_without_a_distance(at_pose: list[np.ndarray], background: Background) -> None:
    bare = scene()
    bare[88:107, 238:257] = (170, 140, 100)
    (finding,) = judged(noisy(with_arm(bare, POSE), 99), at_pose, background)["OBJECT_MOVED"]
    assert finding.status is Status.WARN
    assert "gone" in finding.summary
    assert (finding.evidence["x_px"], finding.evidence["y_px"]) == pytest.approx((247, 97), abs=4)


def test_a_cube_among_its_recorded_places_has_not_moved(spread: list[np.ndarray], background: Background) -> None:
    assert statuses(judged(noisy(with_arm(scene((243, 86)), POSE), 99), spread, background)) == UNMOVED


def test_a_cube_beyond_its_recorded_places_has_moved(spread: list[np.ndarray], background: Background) -> None:
    found = judged(noisy(with_arm(scene((275, 120)), POSE), 99), spread, background)
    assert statuses(found) == {**UNMOVED, "OBJECT_MOVED": "warn"}
    assert any(f.evidence["shift_px"] == pytest.approx(np.hypot(43, 36), abs=2) for f in found["OBJECT_MOVED"])


def test_a_thing_in_another_shade_is_no_other_thing(at_pose: list[np.ndarray], background: Background) -> None:
    live = with_arm(scene(), POSE)
    live[110:147, 60:111] = np.clip(live[110:147, 60:111] * 0.75, 0, 255)
    assert statuses(judged(noisy(live, 99), at_pose, background)) == UNMOVED


def objects(reference: np.ndarray, live: np.ndarray, excess: np.ndarray) -> list[Change]:
    nowhere = np.zeros(excess.shape, bool)
    found = _object_changes(reference, live, excess.astype(np.float32), ~nowhere, nowhere, None, 9, 1.0)
    return [change for change, _ in found]


@pytest.mark.parametrize(("excess", "moved"), [(1.2, False), (5.0, True)])
def test_what_differs_hardly_more_than_noise_has_not_moved(excess: float, moved: bool) -> None:
    marks = cv2.resize(np.random.default_rng(0).integers(0, 255, (8, 8, 3)).astype(np.uint8), (24, 24))
    reference, live = (np.full((60, 80, 3), 90, np.uint8) for _ in range(2))
    reference[20:44, 30:54], live[18:42, 32:56] = marks, marks
    differs = np.zeros((60, 80))
    differs[18:44, 30:56] = excess
    assert [(round(c.dx_px), round(c.dy_px)) for c in objects(reference, live, differs)] == [(2, -2)] * moved


@pytest.mark.parametrize("there_before", [True, False])
def test_nothing_arrives_where_the_same_thing_is_seen_in_another_shade(there_before: bool) -> None:
    marks = cv2.resize(np.random.default_rng(0).integers(0, 200, (4, 4, 3)).astype(np.uint8), (12, 12))
    reference = np.full((60, 120, 3), 90, np.uint8)
    live, differs = reference.copy(), np.zeros((60, 120))
    reference[20:32, 30:42] = marks
    differs[20:32, 30:42] = differs[24:36, 58:70] = 5.0
    live[24:36, 58:70] = np.clip(marks * 1.2, 0, 255)
    if there_before:
        reference[24:36, 58:70] = marks
    (change, *_) = objects(reference, live, differs)
    assert (change.confidence == 0) == there_before
    assert there_before or (round(change.dx_px), round(change.dy_px)) == (28, 4)


def test_colours_that_video_shares_among_pixels_move_nothing(at_pose: list[np.ndarray]) -> None:
    def blue(picture: np.ndarray) -> np.ndarray:
        result = picture.copy()
        for row in range(151, 190, 4):  # stripes across the pairs of rows that share a colour
            result[row : row + 2, 201:250] = (50, 104, 221)
        return result

    def decoded(picture: np.ndarray) -> np.ndarray:
        """In the pixel format of LeRobot's videos, without any other loss."""
        frame = av.VideoFrame.from_ndarray(blue(picture), format="rgb24")
        return frame.reformat(format="yuv420p").to_ndarray(format="rgb24")

    recorded = background_of([decoded(noisy(with_arm(scene(), -60 + 11 * k), k)) for k in range(12)])
    live = blue(noisy(with_arm(scene(), POSE), 99))
    assert statuses(judged(live, [decoded(picture) for picture in at_pose], recorded)) == UNMOVED


def test_an_arm_displaced_in_parts_is_a_joint(at_pose: list[np.ndarray], background: Background) -> None:
    found = judged(noisy(with_arm(scene(), POSE + 30), 99), at_pose, background)
    assert statuses(found) == {"MOVED": "pass", "OBJECT_MOVED": "pass", "JOINT_OFFSET": "warn"}
    assert found["JOINT_OFFSET"][0].cause == "calibration"


def test_another_place_says_unknown(at_pose: list[np.ndarray], background: Background) -> None:
    elsewhere = np.random.default_rng(1).integers(0, 255, (240, 320, 3)).astype(np.uint8)
    assert [f.status for items in judged(elsewhere, at_pose, background).values() for f in items] == [Status.UNKNOWN]


def test_too_few_frames_are_refused() -> None:
    with pytest.raises(UsageError, match="three or more"):
        background_of([scene()])


def test_foreground_is_the_arm_in_any_light_and_nothing_on_the_empty_table(background: Background) -> None:
    table = scene((180, 100))
    arm = (with_arm(table, POSE) != table).any(axis=2)
    for live in (with_arm(table, POSE), relit(with_arm(table, POSE), 0.9, 0.8, 0.7)):
        marked = foreground(noisy(live, 7), background)
        assert (marked & arm).sum() / (marked | (arm & background.mask)).sum() > 0.7
    assert foreground(noisy(table, 8), background).mean() < 0.01
