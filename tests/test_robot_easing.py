"""Easing and the way there."""

import numpy as np
import pytest

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.robot.easing import MARGIN_M, ease, lowest_on_path, safe_route
from lerobot_diagnostics.robot.kinematics import lowest_tool, so_tool, tool_height_for, tools

REST = {"shoulder_pan.pos": 0.0, "shoulder_lift.pos": -90.0, "elbow_flex.pos": 85.0, "wrist_flex.pos": 60.0}
REST |= {"wrist_roll.pos": 0.0, "gripper.pos": 10.0}
PAN_AXIS_M = np.array([0.0388, 0.0, 0.0])  # from the base's origin


def test_ease_is_bounded_a_tick_and_arrives_exactly():
    start, goal = {"a": 0.0, "b": 10.0}, {"a": 60.0, "b": 0.0}
    path = [start, *ease(start, goal, 1.5)]
    steps = np.abs(np.diff([[pose["a"], pose["b"]] for pose in path], axis=0))
    assert steps.max() <= 1.5 and path[-1] == goal
    assert len(path) - 1 == 60  # 1.5 · 60 / 1.5
    assert steps[0].max() < 0.1 and steps[-1].max() < 0.1  # slow at both ends


def test_ease_to_where_it_is_sends_nothing():
    assert list(ease(REST, REST, 1.0)) == []


def test_the_tool_is_where_the_simulated_arm_has_it():
    pytest.importorskip("lerobot_diagnostics.sim.scene", reason="the extra sim is not installed")
    from lerobot_diagnostics.sim.config_so101_sim import JOINTS
    from lerobot_diagnostics.sim.world import World

    world = World()
    rng = np.random.default_rng(1)
    for _ in range(5):
        pose = rng.uniform(-80, 80, 5)
        world.data.qpos[:5] = np.deg2rad(pose)
        tool = tools(dict(zip((f"{j}.pos" for j in JOINTS), pose, strict=False)))
        assert tool[0] + PAN_AXIS_M == pytest.approx(world.truth().tool_m, abs=1e-4)


def test_the_lower_of_two_tools_counts():
    both = {f"left_{k}": v for k, v in REST.items()} | {f"right_{k}": v for k, v in REST.items()}
    both["right_shoulder_lift.pos"] = 0.0
    left, right = so_tool(0.0, -90.0, 85.0, 60.0, 0.0), so_tool(0.0, 0.0, 85.0, 60.0, 0.0)
    assert tools(both) == pytest.approx(np.array([left, right]))
    assert lowest_tool(both) == right[2] < left[2]
    assert tool_height_for("so101_follower") is lowest_tool and tool_height_for("koch_follower") is None


def pose(lift, elbow, flex):
    return REST | {"shoulder_lift.pos": lift, "elbow_flex.pos": elbow, "wrist_flex.pos": flex}


START, GOAL = pose(0.0, 25.0, 85.0), pose(55.0, -10.0, -40.0)  # the jaws down, and stretched out: 23 and 65 mm high


def test_a_way_that_stays_high_is_taken_straight():
    assert safe_route(REST, GOAL, [REST, GOAL], lowest_tool) == [GOAL]


def test_a_way_that_dips_is_lifted_first():
    floor = lowest_tool(START) - MARGIN_M
    assert lowest_on_path([START, GOAL], lowest_tool) < 0 < floor  # the straight way hits the table
    route = safe_route(START, GOAL, [GOAL], lowest_tool)
    assert len(route) == 3 and route[-1] == GOAL
    assert route[0] == START | {"shoulder_lift.pos": -15.0}
    assert lowest_on_path([START, *route], lowest_tool) >= floor


def test_no_way_is_a_refusal():
    with pytest.raises(UsageError, match=r"below 995 mm.*by hand"):
        safe_route(START, GOAL, [GOAL], lambda p: 1.0 if p in (START, GOAL) else 0.0)


def test_without_a_model_the_recorded_range_decides():
    recorded = [pose(-90.0, 80.0, 0.0), pose(0.0, 0.0, 0.0)]
    inside, outside = pose(-40.0, 40.0, 5.0), pose(-40.0, 40.0, 60.0)
    assert safe_route(inside, recorded[0], recorded, None) == [recorded[0]]
    with pytest.raises(UsageError, match=r"wrist_flex.pos \(60, recorded 0 to 0\)"):
        safe_route(outside, recorded[0], recorded, None)
