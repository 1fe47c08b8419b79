"""Stock ``lerobot-rollout`` on a guarded checkpoint: what a refusal leaves on the wire."""

import contextlib
import re

import numpy as np
import pytest
from vision_scenes import camera, recording

pytest.importorskip("pty", reason="the rig needs a pseudo-terminal")

from rig import JOINTS, FramePublisher, ServoRig, stock
from rig.servos import REST, to_ticks

from lerobot_diagnostics.guard.attach import attach
from lerobot_diagnostics.vision import ReferenceViews

SEEDS = {"front": 1, "wrist": 2}
TARGET = {**REST, "shoulder_pan": 20.0}
"""Where the policy wants the arm to go: 20° from where it is, so that a policy command cannot be missed."""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    root = tmp_path_factory.mktemp("rig")
    policy = stock.checkpoint(root / "policy", dict.fromkeys(SEEDS, (240, 320)), mean=TARGET)
    frames, episodes = recording(SEEDS)
    return attach(policy, root / "guarded", ReferenceViews.build(frames, episodes=episodes)).folder


def shown(count):
    front, wrist = (camera(seed, 0, 1000 + count) for seed in SEEDS.values())
    return {
        "front": front,
        "wrist": wrist,
        "black": np.zeros_like(front),
        "channels": np.ascontiguousarray(front[..., ::-1]),
        "turned": np.ascontiguousarray(np.rot90(front, 2)),
        "dimmed": (front * 0.7).astype(np.uint8),
    }


@pytest.fixture(scope="module")
def publisher():
    count = iter(range(10**6))
    with FramePublisher(lambda _seconds: shown(next(count)), fps=15) as running:
        yield running


def arguments(guarded, publisher, rig, folder, front="front", wrist="wrist", *more):
    """Stock rollout's flags, with the view that each camera shows."""
    rig.save_calibration(folder)
    cameras = ", ".join(
        f"{name}: {publisher.config(view, 240, 320)}" for name, view in {"front": front, "wrist": wrist}.items()
    )
    return [
        "--strategy.type=base",
        f"--policy.path={guarded}",
        "--policy.device=cpu",
        "--robot.type=so101_follower",
        "--robot.id=rig",
        f"--robot.port={rig.port}",
        f"--robot.calibration_dir={folder}",
        f"--robot.cameras={{{cameras}}}",
        "--duration=1",
        *more,
    ]


def held(goals):
    """Whether every goal is the pose the servos reported from the start, within a tick of theirs."""
    return all(abs(to_ticks(j, goal[j]) - round(to_ticks(j, REST[j]))) <= 1.01 for goal in goals for j in JOINTS)


STAY, RETURN = "--return_to_initial_position=false", "--return_to_initial_position=true"
CASES = {
    "right": ("front", "wrist", STAY),
    "dimmed": ("dimmed", "wrist", STAY),
    "swapped, returning": ("wrist", "front", RETURN),
    "dead": ("black", "wrist", STAY),
    "channels": ("channels", "wrist", STAY),
    "rotated": ("turned", "wrist", STAY),
}


@pytest.fixture(scope="module")
def rollouts(guarded, publisher, tmp_path_factory):
    """{case: (exit code, standard error, goals on the wire)} of stock rollouts."""
    with contextlib.ExitStack() as stack:
        rigs = {case: stack.enter_context(ServoRig()) for case in CASES}
        flags = [
            arguments(guarded, publisher, rigs[case], tmp_path_factory.mktemp("calibration"), *views)
            for case, views in CASES.items()
        ]
        done = stock.run_many("rollout", flags)
    return {case: (*outcome, rigs[case].bank.goals()) for case, outcome in zip(CASES, done, strict=True)}


def test_right_cameras_run(rollouts):
    code, said, goals = rollouts["right"]
    assert code == 0, said
    assert len(goals) > 3
    assert goals[-1]["shoulder_pan"] == pytest.approx(TARGET["shoulder_pan"], abs=3)
    assert "camera-swap guard" not in said


def test_dimmed_to_70_percent_runs_with_a_warning(rollouts):
    code, said, goals = rollouts["dimmed"]
    assert code == 0, said
    assert goals[-1]["shoulder_pan"] == pytest.approx(TARGET["shoulder_pan"], abs=3)
    (warned,) = [line for line in said.splitlines() if "camera-swap guard" in line]
    assert "LIGHTING: front is 30% darker" in warned


@pytest.mark.parametrize(
    ("case", "code"),
    [("dead", "DEAD"), ("channels", "CHANNELS"), ("rotated", "ROTATED"), ("swapped, returning", "SWAPPED")],
)
def test_wrong_pictures_never_reach_the_wire(rollouts, case, code):
    exit_code, said, goals = rollouts[case]
    assert exit_code == 1
    assert said.strip().splitlines()[-1].startswith(f"camera-swap guard: {code}: ")
    # Stock rollout's teardown sends the arm back to where it already is, unless told not to.
    assert len(goals) == (150 if "returning" in case else 0)
    assert held(goals)


def test_as_a_user_runs_it_the_verdict_is_the_last_line(guarded, publisher, tmp_path):
    with ServoRig() as rig:
        done = stock.run("rollout", *arguments(guarded, publisher, rig, tmp_path, "wrist", "front", STAY))
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("camera-swap guard: SWAPPED: ")
    assert "--rename_map=" in last
    assert rig.bank.goals() == []


RTC = """
from lerobot.policies.act.modeling_act import ACTPolicy
predict = ACTPolicy.predict_action_chunk
ACTPolicy.supports_rtc = lambda self: True  # policies that really do are VLAs of some gigabytes
ACTPolicy.predict_action_chunk = lambda self, batch, inference_delay=0, prev_chunk_left_over=None: predict(self, batch)
"""


def test_rtc_inference_computes_no_action_and_logs_the_verdict(guarded, publisher, tmp_path):
    inference = ["--inference.type=rtc", "--inference.queue_threshold=5", STAY]
    with ServoRig() as right, ServoRig() as wrong:
        cases = [
            arguments(guarded, publisher, right, tmp_path, "front", "wrist", *inference, "--duration=3"),
            arguments(guarded, publisher, wrong, tmp_path, "wrist", "front", *inference, "--duration=20"),
        ]
        (right_code, right_said), (wrong_code, wrong_said) = stock.run_many("rollout", cases, preamble=RTC)
    assert right_code == 0, right_said
    assert right.bank.goals()[-1]["shoulder_pan"] == pytest.approx(TARGET["shoulder_pan"], abs=3)
    assert wrong_code == 0  # stock exits 0 when its inference thread has failed
    assert "Fatal error in RTC thread" in wrong_said
    assert re.search(r"^ERROR .*RTC inference error", wrong_said, re.MULTILINE)
    assert "camera-swap guard: SWAPPED: " in wrong_said
    assert wrong.bank.goals() == []
