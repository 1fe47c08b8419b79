"""The comparison of two arms in one sentence. What the pictures say is asked in test_sight_compare.py."""

from importlib.util import find_spec

import pytest

if not find_spec("mujoco"):  # not imported here: the package chooses the renderer first
    pytest.skip("extra sim", allow_module_level=True)

from lerobot_diagnostics.sight.model import JOINTS
from lerobot_diagnostics.sight.play import Play, compare_arms, sentence

SAME = dict.fromkeys(JOINTS, (0.1, 0.3))
TIGHT = dict.fromkeys(JOINTS, Play(0.1, 0.1, 0.1))


def test_an_arm_like_the_recorded_one():
    assert sentence(SAME, {}) == "In the same place this arm reads what the recorded one did."
    assert sentence(SAME, TIGHT).endswith("what the recorded one did, has no play that the pictures show.")


def test_only_what_is_larger_than_its_uncertainty_is_said():
    zeros = SAME | {"elbow_flex": (-2.0, 0.4), "wrist_roll": (2.0, 2.5), "gripper": (3.0, 1.0)}
    play = TIGHT | {"shoulder_lift": Play(1.2, 0.9, 0.2), "wrist_flex": Play(0.0, 0.9, 0.6)}
    assert sentence(zeros, play) == (
        "In the same place this arm reads 2.0° less in elbow_flex and 3.0 of 100 more in gripper than the recorded one "
        "did, has play of 0.9° in shoulder_lift, and by the side it comes from it stops apart by 1.2° in shoulder_lift."
    )


def test_the_table_has_the_play_of_the_joints_that_were_tried():
    play = {joint: one for joint, one in TIGHT.items() if joint != "gripper"}
    table = compare_arms(SAME, play)
    assert table.rows[1] == ["shoulder_lift", "degrees", 0.1, 0.3, 0.1, 0.1, 0.2]
    assert str(table.rows[-1][-1]) == "nan"
    assert len(compare_arms(SAME).columns) == len(compare_arms(SAME).rows[0]) == 4
