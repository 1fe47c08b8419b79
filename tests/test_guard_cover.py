"""A hand over the lens."""

import numpy as np
import pytest

from lerobot_diagnostics.findings import Status
from lerobot_diagnostics.guard.cover import cover_test, darkened


def pictures(**levels):
    return {name: [np.full((20, 20, 3), level, np.uint8)] for name, level in levels.items()}


@pytest.mark.parametrize(
    ("after", "which"),
    [
        ({"left": 10, "right": 118}, "left"),
        ({"left": 120, "right": 20}, "right"),
        ({"left": 115, "right": 120}, None),  # nothing covered
        ({"left": 10, "right": 10}, None),  # the light went out
        ({"left": 10, "right": 70}, None),  # the hand is in front of both
    ],
)
def test_exactly_one_must_darken(after, which):
    found, ratios = darkened(pictures(left=120, right=120), pictures(**after))
    assert found == which
    assert ratios["left"] == pytest.approx((after["left"] + 1) / 121)


def rig(wiring):
    """Cameras whose live names show ``wiring[name]``; what is asked for is covered."""
    covered: list[str] = []

    def ask(text):
        covered[:] = [text.split("was ")[1].split()[0]] if text.startswith("Cover") else []

    return lambda: pictures(**{name: 8 if shown in covered else 130 for name, shown in wiring.items()}), ask


def test_right_cameras_pass_and_exchanged_ones_fail_with_what_each_shows():
    right = cover_test(["left", "right"], *rig({"left": "left", "right": "right"}))
    assert [(f.status, f.subject) for f in right] == [(Status.PASS, "left"), (Status.PASS, "right")]
    wrong = cover_test(["left", "right"], *rig({"left": "right", "right": "left"}))
    assert {(f.status, f.subject, f.evidence["shows"]) for f in wrong} == {
        (Status.FAIL, "left", "right"),
        (Status.FAIL, "right", "left"),
    }


def test_what_is_never_covered_stays_unknown_after_three_tries():
    asked: list[str] = []
    (found,) = cover_test(["left"], lambda: pictures(left=100, right=100), asked.append)
    assert found.status is Status.UNKNOWN
    assert len(asked) == 6
