"""End to end on the simulated arm: pictures and readings in, findings out. No camera pose is given away."""

import re
from importlib.util import find_spec

import numpy as np
import pytest

if not find_spec("mujoco"):  # not imported here: the package chooses the renderer first
    pytest.skip("extra sim", allow_module_level=True)

from sight_scenes import photograph, some_poses

from lerobot_diagnostics.findings import Status
from lerobot_diagnostics.sight import Poses, compare_live, compare_poses
from lerobot_diagnostics.sight.play import sentence
from lerobot_diagnostics.sim.config_so101_sim import CameraFault, SimFaults

POSES = some_poses()


@pytest.fixture(scope="module")
def before() -> Poses:
    return photograph(SimFaults(), POSES)


def now(faults: SimFaults, count: int = 12) -> Poses:
    return photograph(faults, POSES[:count])


def test_a_healthy_arm_is_quiet_even_when_the_camera_was_moved_and_the_light_is_another(before):
    moved = CameraFault(move_m=[0.01, 0.005, 0.0], turn_deg=[1.0, -1.5, 0.5])
    found = compare_poses(before, now(SimFaults(cameras={"front": moved}, light_level=0.8))).findings
    assert {f.code: f.status for f in found} == {"JOINT_OFFSET": Status.PASS, "BASE_MOVED": Status.PASS}
    assert found[0].evidence["camera_moved_px"]["front"] > 3


def test_a_shifted_elbow_is_named_with_its_degrees(before):
    (found,) = compare_poses(before, now(SimFaults(joint_zero_deg={"elbow_flex": -4.0}))).findings
    assert (found.code, found.status, found.subject) == ("JOINT_OFFSET", Status.FAIL, "elbow_flex")
    assert found.evidence["offset_deg"] == pytest.approx(-4.0, abs=0.3)
    assert re.search(r"by \+(3\.[7-9]|4\.[0-3]) degrees", found.fix)


@pytest.mark.parametrize(
    ("moved_mm", "turn", "within_mm", "within_deg"), [((8.0, -6.0), 2.0, 1.0, 0.3), ((-7.0, 18.0), 4.7, 1.5, 0.4)]
)
def test_a_shifted_base_is_no_joint(before, moved_mm, turn, within_mm, within_deg):
    faults = SimFaults(base_move_m=[mm / 1000 for mm in moved_mm], base_turn_deg=turn)
    compared = compare_poses(before, now(faults))
    (found,) = compared.findings
    assert compared.zeros == {}  # what six zeros would make of it means nothing
    assert (found.code, found.status) == ("BASE_MOVED", Status.FAIL)
    assert [found.evidence[key] for key in ("forward_mm", "left_mm")] == pytest.approx(moved_mm, abs=within_mm)
    assert found.evidence["turn_deg"] == pytest.approx(turn, abs=within_deg)


def test_pictures_that_show_no_arm_are_not_attributed_and_nothing_is_driven():
    rng = np.random.default_rng(0)
    noise = [rng.integers(0, 255, (180, 240, 3), dtype=np.uint8) for _ in POSES]

    def capture(pose, _side):
        raise AssertionError(f"driven to {pose}")

    (found,) = compare_live(Poses(POSES, {"front": noise}), capture, POSES[:4], np.zeros((4, 6))).findings
    assert (found.code, found.status) == ("UNDECIDED", Status.UNKNOWN)
    assert "Cannot attribute" in found.summary


@pytest.mark.parametrize(("lift", "seen"), [(4.0, True), (0.0, False)])
def test_an_arm_unlike_the_model_is_not_attributed_but_its_shift_is_seen(before, monkeypatch, lift, seen):
    monkeypatch.setattr("lerobot_diagnostics.sight.compare._solve", lambda *_: ({}, {"front": "unlike the model"}))
    (found,) = compare_poses(before, now(SimFaults(joint_zero_deg={"shoulder_lift": lift}), 5)).findings
    assert (found.code, found.status) == ("UNDECIDED", Status.UNKNOWN)
    assert ("A shift is seen" in found.summary) == seen


def test_two_arms_are_compared_joint_by_joint_with_the_play_of_each():
    """A second arm whose pan and elbow were zeroed otherwise, with play in the lift that its encoder does not show."""
    faults = SimFaults(joint_zero_deg={"shoulder_pan": 2.0, "elbow_flex": -3.0})
    side = np.array([1.0, -1.0, 1.0, -1.0, 1.0, 0.0])
    went = []

    def capture(pose, way):
        went.append(way)
        reading = pose + np.array([0.0, 0.4, 0.0, 0.0, 0.0, 0.0]) * way  # stops 0.4 short whichever way it comes
        loose = np.array([0.0, 2.0, 0.0, 0.0, 0.0, 0.0]) / 2 * way  # and stands on the side it came from
        return reading, {"front": photograph(faults, (reading + loose)[None], width=320).pictures["front"][0]}

    sides = np.vstack([np.tile(side, (6, 1)), np.zeros((6, 6))])
    before = photograph(SimFaults(), POSES, width=320)
    compared = compare_live(before, capture, POSES[:12], sides)
    assert [tuple(way) for way in went[:3]] == [tuple(side), tuple(-side), tuple(side)] and len(went) == 18
    off = {"shoulder_pan": 2.0, "elbow_flex": -3.0}
    for joint, (zero, error) in compared.zeros.items():
        assert zero == pytest.approx(off.get(joint, 0.0), abs=max(error, 0.4))
    assert "gripper" not in compared.play
    for joint, one in compared.play.items():
        assert one.unseen == pytest.approx(2.0 if joint == "shoulder_lift" else 0.0, abs=2.5 * one.error)
        assert one.stops == pytest.approx(0.8 if joint == "shoulder_lift" else 0.0, abs=1e-6)
    said = sentence(compared.zeros, compared.play)
    assert re.search(r"reads [12]\.\d° more in shoulder_pan and [23]\.\d° less in elbow_flex than the recorded", said)
    assert re.search(r"play of [12]\.\d° in shoulder_lift, and .* stops apart by 0\.8° in shoulder_lift\.$", said)
