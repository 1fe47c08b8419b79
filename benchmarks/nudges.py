"""Calibration by a snapshot's nudges, no model of the arm: how often is the right joint named, from how many poses?

    python benchmarks/nudges.py --views front,side,oblique,top --snapshots 8

A snapshot is taken of the simulated arm at a random pose; then one joint's zero is moved by 3–6 (12 draws), the base by
up to 15 mm and 4° (2), the camera by up to 3 mm and 0.3° (1), or nothing (4). Joints stand up to 1–2° off where they
are sent and elsewhere the next time, pictures are noisy, light differs by up to 20 %, and the cube by up to 5 cm.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence

import numpy as np
from calibration_by_sight import SIZE, VIEWS, world_seen_from

from lerobot_diagnostics.diagnose.nudging import LEAST_HEIGHT_M, MOVES_DEG, NUDGE_DEG
from lerobot_diagnostics.findings import Finding, Status
from lerobot_diagnostics.robot.kinematics import so_tool
from lerobot_diagnostics.sight.model import JOINTS
from lerobot_diagnostics.sight.nudges import Nudged, compare_nudges
from lerobot_diagnostics.sim.config_so101_sim import CameraFault, SimFaults
from lerobot_diagnostics.sim.scene import CUBE_XY_M
from lerobot_diagnostics.sim.world import World

import mujoco  # isort: skip  (after scene, which chooses how it renders)

MOVES = np.array([[moves.get(joint, 0.0) for joint in JOINTS] for moves in MOVES_DEG])
LOW = np.array([-25.0, -75.0, 20.0, 0.0, -40.0, 5.0])
HIGH = np.array([25.0, -15.0, 75.0, 70.0, 40.0, 50.0])
TRUTHS = [*JOINTS * 2, "base", "base", "camera", *["nothing"] * 4]


def world_of(faults: SimFaults, view: str, rng: np.random.Generator, spread_m: float) -> World:
    """The arm seen from a view, the cube somewhere."""
    world = world_seen_from(faults, view)
    world.reset(tuple(CUBE_XY_M + rng.uniform(-spread_m, spread_m, 2)), rng.uniform(-40, 40))
    return world


def shoot(world: World, poses: np.ndarray, rng: np.random.Generator) -> Nudged:
    """What joints that truly read ``poses`` [N, 6] seem to read, and their pictures."""
    pictures = []
    for pose in poses:
        world.data.qpos[: len(JOINTS)] = world._radians(pose - world._encoder_error)
        mujoco.mj_forward(world.model, world.data)
        picture = world.render("front", *SIZE) + rng.normal(0, 2.0, (SIZE[1], SIZE[0], 3))
        pictures.append(np.clip(picture, 0, 255).astype(np.uint8))
    return Nudged(np.round((poses + rng.normal(0, 0.05, poses.shape)) * 4095 / 360) * 360 / 4095, pictures)


def snapshot(view: str, rng: np.random.Generator) -> list[Nudged]:
    """One of a random pose that is high enough."""
    while True:
        pose = rng.uniform(LOW, HIGH)
        if so_tool(*(pose + MOVES).T[:5])[:, 2].min() > LEAST_HEIGHT_M:
            break
    world = world_of(SimFaults(), view, rng, 0.02)
    around = np.concatenate([np.zeros((1, 6)), NUDGE_DEG * np.eye(6), -NUDGE_DEG * np.eye(6)])
    poses = []
    for moves in MOVES:
        stands = pose + moves + rng.normal(0, 1.0, 6)
        followed = around + np.where(around == 0, 0.3, 0.5) * rng.normal(size=around.shape)
        followed[0] = 0.0
        poses.append(shoot(world, stands + followed, rng))
    world.close()
    return poses


def fault(truth: str, rng: np.random.Generator) -> SimFaults:
    """What has changed since."""
    faults = SimFaults(light_level=rng.uniform(0.8, 1.2), light_color=(1 + rng.uniform(-0.05, 0.05, 3)).tolist())
    if truth in JOINTS:
        faults.joint_zero_deg = {truth: float(rng.choice((-1, 1)) * rng.uniform(3, 6))}
    elif truth == "base":
        faults.base_move_m = rng.uniform(-0.015, 0.015, 2).tolist()
        faults.base_turn_deg = float(rng.uniform(-4, 4))
    elif truth == "camera":
        move, turn = rng.uniform(-0.003, 0.003, 3).tolist(), rng.uniform(-0.3, 0.3, 3).tolist()
        faults.cameras = {"front": CameraFault(move_m=move, turn_deg=turn)}
    return faults


def answer(truth: str, findings: Sequence[Finding]) -> str:
    """The findings as one word, and in brackets whether the joint at fault is the one that explains most."""
    gain = findings[0].evidence.get("gain")
    if gain is None:
        return "camera not used"
    first = " (first)" if truth == max(gain, key=lambda joint: gain[joint]) else ""
    for finding in findings:
        if finding.status is Status.FAIL:
            return "right" + first if finding.subject == truth else f"wrong: {finding.subject}"
        if finding.status is Status.PASS and (finding.subject == "arm" or truth in finding.subject):
            return "passed" + first
    passed = any(finding.status is Status.PASS for finding in findings)
    return ("not told" if truth in JOINTS or not passed else "passed in part") + first


def main() -> None:
    """Draw, judge, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--views", default="front", help=f"comma-separated, of {', '.join(VIEWS)}")
    parser.add_argument("--snapshots", type=int, default=4, help="of each view")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    for view in arguments.views.split(","):
        rng = np.random.default_rng([arguments.seed, *map(ord, view)])
        counts: dict[int, Counter[tuple[str, str]]] = {1: Counter(), len(MOVES): Counter()}
        errors = []
        for _ in range(arguments.snapshots):
            before = snapshot(view, rng)
            for truth in TRUTHS:
                faults = fault(truth, rng)
                world = world_of(faults, view, rng, 0.05)
                now = [shoot(world, pose.readings[:1] + rng.normal(0, 0.7, (1, 6)), rng) for pose in before]
                world.close()
                for poses, count in counts.items():
                    readings = np.concatenate([one.readings for one in now[:poses]])
                    live = [one.pictures[0] for one in now[:poses]]
                    found = compare_nudges({"front": before[:poses]}, readings, {"front": live}, JOINTS)
                    said = answer(truth, found)
                    count["joint" if truth in JOINTS else truth, said] += 1
                    if poses > 1 and said.startswith("right"):
                        own = found[0].evidence
                        off = own.get("offset_deg", own.get("offset_pct"))
                        errors.append((truth, abs(off - faults.joint_zero_deg[truth])))
        for poses, count in counts.items():
            shown = ", ".join(f"{truth} {said} {n}" for (truth, said), n in sorted(count.items()))
            print(f"{view}, {poses} {'poses' if poses > 1 else 'pose'}: {shown}")
        own = {joint: [error for name, error in errors if name == joint] for joint in JOINTS}
        print(f"{view}, median error:", {joint: round(float(np.median(e)), 2) for joint, e in own.items() if e})


if __name__ == "__main__":
    main()
