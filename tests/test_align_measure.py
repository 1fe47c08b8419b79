"""The meter, its thread, and what counts as motion in view."""

import time

import numpy as np
import pytest
import vision_scenes as scenes

from lerobot_diagnostics.align.measure import HOLD_S, SLOW_S, Meter, MotionDetector, Worker
from lerobot_diagnostics.align.misalignment import Tolerance
from lerobot_diagnostics.align.reference import Reference
from lerobot_diagnostics.vision import background_of

POSE = 20.0


def start(noise: int = 0) -> np.ndarray:
    return scenes.camera(1, POSE, noise)


def with_cube(picture: np.ndarray, x: int) -> np.ndarray:
    result = picture.copy()
    result[60:84, x : x + 24] = (210, 30, 25)
    return result


@pytest.fixture(scope="module")
def background():
    return background_of([scenes.camera(1, angle, k) for k, angle in enumerate(range(-50, 51, 10))])


def meter(background, reference: np.ndarray, steady: bool | None = True) -> Meter:
    m = Meter(Tolerance(), backgrounds={"front": background}, steady={"front": steady})
    m.use(Reference(0, {"front": reference}))
    return m


def test_it_measures_a_known_move(background):
    m = meter(background, start())
    live = scenes.warped(start(9), 6, -4, turn_deg=1.5)
    found = m.measure("front", live, now=0.0, still=False, at_pose=True)
    assert (found.motion.dx_px, found.motion.dy_px) == pytest.approx((6, -4), abs=0.5)
    assert found.motion.rotation_deg == pytest.approx(1.5, abs=0.2)
    assert found.changes is None  # a moved camera shows everything elsewhere
    assert found.can_judge_changes


def test_objects_are_looked_at_once_the_camera_stands_and_nothing_moves(background):
    m = meter(background, with_cube(start(), 40))
    live = with_cube(start(5), 64)
    busy = m.measure("front", live, now=0.0, still=False, at_pose=True)
    assert busy.changes is None
    calm = m.measure("front", live, now=0.1, still=True, at_pose=True)
    moved = [c for c in calm.displaced(Tolerance()) if c.kind == "object" and c.confidence > 0]
    assert moved[0].dx_px == pytest.approx(24, abs=1.5)
    assert not calm.within(Tolerance())
    put_back = m.measure("front", with_cube(start(6), 40), now=0.1 + SLOW_S, still=True, at_pose=True)
    assert put_back.changes == ()
    assert put_back.within(Tolerance())


def test_an_object_counts_against_this_episode_wherever_others_had_it(background):
    m = meter(background, with_cube(start(), 40))
    others = {"front": [with_cube(start(7), 64), with_cube(start(8), 52)]}
    m.use(Reference(0, {"front": with_cube(start(), 40)}, {}, others))
    found = m.measure("front", with_cube(start(5), 64), now=0.0, still=True, at_pose=True)
    assert [c.kind for c in found.displaced(Tolerance())] == ["object"]


def test_the_slow_look_is_taken_once_a_second(background):
    m = meter(background, with_cube(start(), 40))
    m.measure("front", with_cube(start(5), 40), now=0.0, still=True, at_pose=True)
    soon = m.measure("front", with_cube(start(5), 64), now=0.5 * SLOW_S, still=True, at_pose=True)
    assert soon.changes == ()
    later = m.measure("front", with_cube(start(5), 64), now=SLOW_S, still=True, at_pose=True)
    assert later.changes


def test_an_answer_stands_until_the_next_exact_one_and_no_longer(background):
    m = meter(background, start())
    assert m.measure("front", scenes.warped(start(2), 3, 0), now=0.0, still=False, at_pose=True).motion.found
    covered = np.full_like(start(), 120)
    held = m.measure("front", covered, now=HOLD_S, still=False, at_pose=True)
    assert held.motion.dx_px == pytest.approx(3, abs=0.3)
    assert not m.measure("front", covered, now=HOLD_S + 0.1, still=False, at_pose=True).motion.found


@pytest.mark.parametrize("steady", [False, None])
def test_a_camera_on_the_arm_waits_for_the_pose(background, steady):
    m = meter(background, start(), steady)
    away = m.measure("front", start(3), now=0.0, still=True, at_pose=False)
    assert "go_to_start" in away.unknown and not away.within(Tolerance())
    there = m.measure("front", start(3), now=0.1, still=True, at_pose=True)
    assert there.within(Tolerance())


def test_a_camera_that_stands_is_measured_while_the_arm_is_elsewhere(background):
    m = meter(background, start())
    elsewhere = m.measure("front", scenes.warped(scenes.camera(1, -40, 3), 8, 0), now=0.0, still=True, at_pose=False)
    assert elsewhere.motion.dx_px == pytest.approx(8, abs=0.7)
    assert elsewhere.changes is None and not elsewhere.can_judge_changes


def test_the_thread_measures_the_newest_pictures_of_every_camera():
    def load():
        return Reference(7, {"front": start(), "side": scenes.camera(2, POSE)})

    worker = Worker(Meter(Tolerance()))
    with worker:
        worker.use(load)
        live = {"front": scenes.warped(start(4), 5, 0), "side": scenes.camera(2, POSE, 8)}
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            worker.offer(live, still=False, at_pose=True)
            reference, measured = worker.latest()
            if len(measured) == 2:
                break
            time.sleep(0.01)
    assert reference.episode == 7
    assert measured["front"].motion.dx_px == pytest.approx(5, abs=0.5)
    assert measured["side"].motion.dx_px == pytest.approx(0, abs=0.3)


def test_what_fails_in_the_thread_reaches_the_loop():
    def load():
        raise ValueError("no such episode")

    with Worker(Meter(Tolerance())) as worker:
        worker.use(load)
        with pytest.raises(ValueError, match="no such episode"):
            for _ in range(2000):
                worker.latest()
                time.sleep(0.005)


def motion_between(before: np.ndarray, after: np.ndarray) -> bool:
    detector = MotionDetector()
    assert detector.moving({"front": before}, 0.0)  # nothing to compare with yet: not known to be still
    return detector.moving({"front": after}, 0.3)


def test_a_hand_or_the_arm_is_motion():
    hand = start(1).copy()
    hand[150:200, 20:60] = (200, 150, 120)
    assert motion_between(start(), hand)
    assert motion_between(start(), scenes.camera(1, POSE + 6, 1))
    assert motion_between(start(), scenes.warped(start(1), 4, 0))


def test_noise_and_flicker_are_not():
    assert not motion_between(start(), start(1))
    assert not motion_between(start(), scenes.relit(start(1), 1.06))
    assert not motion_between(start(), scenes.relit(start(1), 0.94))
