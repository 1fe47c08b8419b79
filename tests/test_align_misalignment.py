"""What a measured misalignment says to a person, and when it counts as put back."""

import math

import pytest
import vision_scenes as scenes

from lerobot_diagnostics.align.misalignment import Misalignment, Tolerance, correction, findings, lines, pose_line
from lerobot_diagnostics.findings import Status
from lerobot_diagnostics.vision import Change, Lighting, Registration, register
from lerobot_diagnostics.vision.registration import NO_FIT

SAME_LIGHT = Lighting(1.0, 1.0, 1.0, 0.0)
BAND = Tolerance()


def moved(dx=0.0, dy=0.0, turn=0.0, zoom=1.0, **more) -> Misalignment:
    motion = Registration(dx, dy, turn, zoom, 0.9, "identity")
    return Misalignment("front", 640, 480, motion, **{"light": SAME_LIGHT, **more})


def test_the_correction_reads_as_a_person_would_say_it():
    assert (
        correction(moved(-14, turn=1.1), 0.643) == "slide the camera 14 px ≈ 9.0 mm to the left, turn it 1.1° clockwise"
    )
    assert correction(moved(3.2, -8.1)) == "slide the camera 3.2 px to the right and 8.1 px up"
    assert correction(moved(turn=-2, zoom=1.021)) == "turn the camera 2.0° counter-clockwise, move it 2.1 % back"
    assert correction(moved(zoom=0.98)) == "move the camera 2.0 % closer"
    assert correction(moved(0.2, 0.1, 0.05, 1.001)) == ""


def test_the_signs_are_those_of_a_camera_that_looks_at_a_scene():
    # A camera pushed to the left, or turned counter-clockwise, shows its scene farther right, or turned clockwise.
    scene = scenes.table(3)
    shown = Misalignment("front", 320, 240, register(scenes.warped(scene, 9, 4, turn_deg=2, zoom=1.03), scene))
    text = correction(shown)
    assert "to the right" in text and "down" in text and "° clockwise" in text and "back" in text


def test_the_band_has_an_edge_in_every_direction():
    assert moved(2.9).within(BAND)
    for outside in (moved(3.1), moved(0, -3.1), moved(turn=0.31), moved(zoom=0.993)):
        assert not outside.within(BAND)
    half_as_wide = Misalignment("front", 320, 240, Registration(2.0, 0, 0, 1, 0.9, "identity"), SAME_LIGHT)
    assert half_as_wide.camera_excess(BAND) == pytest.approx(2.0 / 1.5)


def test_what_is_not_known_is_not_in_the_band():
    for unknown in (Misalignment("wrist", 640, 480, NO_FIT), moved(unknown="moves with the arm")):
        assert not unknown.within(BAND)
        assert unknown.camera_excess(BAND) == math.inf
        assert [line.ok for line in lines(unknown, BAND)] == [None]
        assert findings([unknown], BAND, required=False)[0].status is Status.UNKNOWN
        assert findings([unknown], BAND, required=True)[0].status is Status.FAIL


def test_light_counts_and_says_what_it_does():
    dark = moved(light=Lighting(0.7, 1.0, 1.2, 0.0))
    assert not dark.within(BAND)
    assert lines(dark, BAND)[1].text == "light: 30% darker, 20% more blue than recorded"
    assert moved(light=Lighting(0.87, 1.05, 0.95, 0.0)).within(BAND)  # as between episodes of one recording


def test_base_and_objects_are_moved_back_in_words():
    shifted = Change("object", 100, 50, 12.0, -5.0, 400, 0.9)
    base = Change("arm", 300, 200, -6.0, 0.0, 9000, 0.8)
    still = Change("object", 10, 10, 1.0, 0.0, 90, 0.9)
    gone = Change("object", 200, 80, math.nan, math.nan, 900, 0.0)
    coding = Change("object", 20, 80, math.nan, math.nan, 300, 0.0)  # 0.1 % of the picture
    m = moved(changes=(shifted, base, still, gone, coding))
    assert not m.within(BAND)
    assert [line.text for line in lines(m, BAND, 0.5)][1:] == [
        "move the object at (100, 50) 12 px ≈ 6.0 mm left and 5.0 px ≈ 2.5 mm down in the picture",
        "move the arm's base 6.0 px ≈ 3.0 mm right in the picture",
        "something at (200, 80) is gone, new or looks different",
    ]
    codes = [(f.code, f.status) for f in findings([m], BAND, required=False)]
    assert codes.count(("OBJECT_MOVED", Status.WARN)) == 2
    assert codes.count(("BASE_MOVED", Status.WARN)) == 1
    assert moved(changes=(still, coding)).within(BAND)


def test_parts_of_the_arm_elsewhere_are_a_joint_not_the_base():
    m = moved(changes=(Change("arm", 300, 200, math.nan, math.nan, 9000, 0.0),))
    assert "a joint's zero may have moved" in lines(m, BAND)[1].text
    assert [f.code for f in findings([m], BAND, required=False) if f.status is Status.WARN] == ["JOINT_OFFSET"]


def test_findings_pass_warn_or_fail():
    assert {f.status for f in findings([moved(1, changes=())], BAND, required=True)} == {Status.PASS}
    warn = findings([moved(14, turn=1.1)], BAND, required=False)[0]
    assert (warn.code, warn.status) == ("MOVED", Status.WARN)
    assert warn.fix == "Slide the camera 14 px to the right, turn it 1.1° clockwise."
    assert findings([moved(14)], BAND, required=True)[0].status is Status.FAIL
    not_judged = [f for f in findings([moved(14)], BAND, required=False) if f.code == "OBJECT_MOVED"]
    assert not_judged[0].status is Status.UNKNOWN


def test_the_pose_is_compared_by_name():
    start = {"elbow_flex.pos": 90.0, "gripper.pos": 10.0}
    near = pose_line({"elbow_flex.pos": 93.0, "gripper.pos": 10.0, "x.vel": 0.0}, start, BAND)
    far = pose_line({"elbow_flex.pos": 80.0, "gripper.pos": 10.0}, start, BAND)
    assert near.ok and not far.ok
    assert "elbow_flex is 10.0 from the recorded start" in far.text
    assert pose_line({"joint_0": 1.0}, start, BAND) is None
