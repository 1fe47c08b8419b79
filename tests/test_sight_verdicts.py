"""When a joint is named, when the base, and when nothing is."""

import numpy as np
import pytest

from lerobot_diagnostics.findings import Finding, Status
from lerobot_diagnostics.sight.camera import look_at
from lerobot_diagnostics.sight.explain import BASE, SEVERAL, Explained, Explanation
from lerobot_diagnostics.sight.fit import Fit, Scene
from lerobot_diagnostics.sight.model import JOINTS
from lerobot_diagnostics.sight.settle import Settled
from lerobot_diagnostics.sight.verdicts import judge
from lerobot_diagnostics.vision import Registration

CAMERA = look_at(np.array([0.6, -0.2, 0.4]), np.array([0.15, 0.0, 0.1]), 1.2)


def explanation(
    what: str, gain: float, zeros=(0,) * 6, base=(0, 0, 0), cost: float = 0.5, error: float = 0.1
) -> Explanation:
    scene = Scene((CAMERA,), np.array(zeros, float), np.array(base, float))
    return Explanation(what, gain, Fit(scene, np.eye(9) * error**2, cost, 0.5, 5000))


def verdict(
    *explanations: Explanation, recorded: float = 0.5, overlap: float = 0.95, recorded_overlap: float = 0.98
) -> list[Finding]:
    found = sorted(explanations, key=lambda one: -one.gain)
    settled = Settled(CAMERA, Registration(0.0, 0.0, 0.0, 1.0, 1.0, "identity", 1.0, 1.0), 0.0)
    return judge(Explained(2.0, recorded, found, overlap, {"front": settled}), {"front": _Solved(recorded_overlap)})


class _Solved:
    def __init__(self, overlap: float) -> None:
        self.overlap, self.readings = overlap, np.zeros((12, 6))


ELBOW, LIFT, PAN = (0, 0, 4.0, 0, 0, 0), (0, 3.0, 0, 0, 0, 0), (4.0, 0, 0, 0, 0, 0)


def test_one_joint_explains_it():
    (found,) = verdict(
        explanation(SEVERAL, 310, ELBOW),
        explanation(BASE, 90, base=(0.01, 0, 0)),
        explanation("elbow_flex", 300, ELBOW),
        explanation("shoulder_lift", 80, LIFT),
    )
    assert (found.code, found.status, found.subject) == ("JOINT_OFFSET", Status.FAIL, "elbow_flex")
    assert "4.0 ± 0.4 degrees more" in found.summary
    assert "-4.0 degrees" in found.fix


@pytest.mark.parametrize("gains", [(12, 4, 9, 3), (90, 60, 80, 20)])
def test_what_gains_little_or_means_little_is_no_change(gains):
    small = (0.1, 0.2, 0.1, 0, 0, 1.0)
    several, base, first, second = gains
    found = verdict(
        explanation(SEVERAL, several, small),
        explanation(BASE, base, base=(0.0005, 0, 0)),
        explanation("shoulder_pan", first, (0.2, 0, 0, 0, 0, 0)),
        explanation("shoulder_lift", second, (0, 0.1, 0, 0, 0, 0)),
    )
    assert {f.code: f.status for f in found} == {"JOINT_OFFSET": Status.PASS, "BASE_MOVED": Status.PASS}


@pytest.mark.parametrize("gain", [-15, 300])  # no explanation fits, and the arm is not where it was either
def test_an_outline_that_no_explanation_covers_is_neither_sound_nor_named(gain):
    explained = (
        explanation(SEVERAL, gain, ELBOW),
        explanation(BASE, -44, base=(0.01, 0, 0)),
        explanation("elbow_flex", gain - 5, ELBOW),
        explanation("shoulder_lift", -39, LIFT),
    )
    (found,) = verdict(*explained, overlap=0.65)
    assert (found.code, found.status) == ("UNDECIDED", Status.UNKNOWN)
    assert "UNDECIDED" not in {f.code for f in verdict(*explained, overlap=0.92)}  # 0.98 as recorded
    assert "UNDECIDED" not in {f.code for f in verdict(*explained, overlap=0.88, recorded_overlap=0.91)}


def test_two_joints_that_explain_it_alike_are_both_named_and_none_is_blamed():
    (found,) = verdict(
        explanation(SEVERAL, 300, ELBOW),
        explanation(BASE, 90, base=(0.01, 0, 0)),
        explanation("elbow_flex", 290, ELBOW),
        explanation("shoulder_lift", 285, LIFT),
    )
    assert (found.code, found.status) == ("UNDECIDED", Status.UNKNOWN)
    assert "elbow_flex by +4.0 or shoulder_lift by +3.0" in found.summary


def test_a_pan_is_preferred_to_a_base_that_turned_about_the_same_axis():
    (found,) = verdict(
        explanation(SEVERAL, 560, PAN),
        explanation(BASE, 640, base=(0.0001, 0.0027, -0.07)),
        explanation("shoulder_pan", 560, PAN),
        explanation("wrist_roll", 20),
    )
    assert found.subject == "shoulder_pan"


def test_a_base_that_explains_much_more_than_any_joint_has_moved():
    (found,) = verdict(
        explanation(SEVERAL, 330, PAN),
        explanation(BASE, 470, base=(0.01, -0.008, 0.035)),
        explanation("shoulder_pan", 190, PAN),
        explanation("elbow_flex", 130, ELBOW),
    )
    assert (found.code, found.subject) == ("BASE_MOVED", "base")
    assert "+10 mm forward, -8 mm to its left, and turned +2.0°" in found.summary


def test_several_joints_are_each_reported():
    found = verdict(
        explanation(SEVERAL, 370, (0.03, 0.2, 4.0, -5.0, 0.3, 1.2)),
        explanation(BASE, 170, base=(0.01, 0, 0)),
        explanation("shoulder_lift", 190, LIFT),
        explanation("elbow_flex", 70, ELBOW),
    )
    assert [(f.code, f.subject) for f in found] == [("JOINT_OFFSET", "elbow_flex"), ("JOINT_OFFSET", "wrist_flex")]


def test_an_arm_that_no_explanation_brings_back_is_undecided():
    (found,) = verdict(
        explanation(SEVERAL, 310, ELBOW, cost=2.0),
        explanation(BASE, 90, cost=2.0),
        explanation("elbow_flex", 300, ELBOW, cost=2.0),
        explanation("shoulder_lift", 80, LIFT, cost=2.0),
    )
    assert (found.code, found.status) == ("UNDECIDED", Status.UNKNOWN)
    assert JOINTS[0] not in found.summary


def test_pictures_too_blunt_to_show_a_fault_are_no_pass():
    (found,) = verdict(
        explanation(SEVERAL, 12, error=1.0),
        explanation(BASE, 5),
        explanation("shoulder_pan", 4),
        explanation("shoulder_lift", 3),
    )
    assert (found.code, found.status) == ("UNDECIDED", Status.UNKNOWN)
    assert "only from 4° on" in found.summary
