"""What blocks, what is said, and the line that mends it."""

import pytest

from lerobot_diagnostics.findings import Cause, Finding, Status
from lerobot_diagnostics.guard.verdict import Limits, checked_actions, decide, refusal_text, verdict


def found(code, status, subject="front", fix="do this", **evidence):
    return Finding(code, status, Cause.CAMERAS, subject, f"{subject} has {code}", evidence, fix)


@pytest.mark.parametrize(
    ("code", "status", "where"),
    [
        ("SWAPPED", Status.FAIL, "block"),
        ("SWAPPED", Status.PASS, None),
        ("UNDECIDED", Status.UNKNOWN, "block"),
        ("ROTATED", Status.UNKNOWN, "warn"),  # cannot tell whether upright: milder than turned
        ("CHANNELS", Status.UNKNOWN, "warn"),
        ("MOVED", Status.UNKNOWN, None),  # a camera on the arm
        ("MOVED", Status.WARN, "warn"),
        ("RESOLUTION", Status.WARN, "warn"),
    ],
)
def test_defaults(code, status, where):
    decision = decide([found(code, status)], checked_actions({}), Limits())
    assert [len(decision.block), len(decision.warn)] == [int(where == "block"), int(where == "warn")]


@pytest.mark.parametrize(
    ("evidence", "blocks"),
    [
        ({"shift_px": 38.0, "rotation_deg": 0.0, "zoom": 1.0}, False),
        ({"shift_px": 39.0, "rotation_deg": 0.0, "zoom": 1.0}, True),  # 6 % of 640 is 38.4
        ({"shift_px": 0.0, "rotation_deg": -5.1, "zoom": 1.0}, True),
        ({"shift_px": 0.0, "rotation_deg": 0.0, "zoom": 0.91}, True),
    ],
)
def test_motion_beyond_the_limit_blocks(evidence, blocks):
    decision = decide([found("MOVED", Status.WARN, width_px=640, **evidence)], checked_actions({}), Limits())
    assert bool(decision.block) is blocks


@pytest.mark.parametrize(
    ("exposure", "blue", "blocks"), [(0.7, 1.0, False), (0.49, 1.0, True), (2.1, 1.0, True), (1.0, 2.1, True)]
)
def test_light_beyond_the_limit_blocks(exposure, blue, blocks):
    light = found("LIGHTING", Status.WARN, exposure_ratio=exposure, red_ratio=1.0, blue_ratio=blue)
    assert bool(decide([light], checked_actions({}), Limits()).block) is blocks


def test_a_half_known_exchange_offers_no_map_that_would_lose_a_camera():
    half = [found("SWAPPED", Status.FAIL, "front", fix="Give wrist the device of front.", shows="wrist")]
    what, fix = verdict(half)
    assert fix == "Give wrist the device of front."
    assert "--rename_map" not in what + fix


def test_the_last_line_is_the_verdict_and_every_block_has_a_line():
    text = refusal_text([found("DEAD", Status.FAIL), found("ROTATED", Status.FAIL, "wrist")]).splitlines()
    assert text[-1] == "camera-swap guard: DEAD: front has DEAD. do this"
    assert "  ROTATED: wrist has ROTATED" in text


def test_what_pictures_cannot_decide_names_the_test_that_can():
    last = refusal_text([found("UNDECIDED", Status.UNKNOWN)]).splitlines()[-1]
    assert "--cover_test=true" in last
    assert "--actions=" in last
