"""Faults drawn at random, judged blind: who names the cause, who cries wolf?

    python benchmarks/calibration_by_sight.py --views front --draws 10 --healthy 30  # zeros, base, camera, healthy
    python benchmarks/calibration_by_sight.py --views front,side --draws 0 --healthy 0 --arms 20  # a second arm

A draw is a setup of the simulated arm in which something was changed after its demonstrations were recorded, or
nothing was. A judge gets what a user has, the recording before and one after, and answers with a label; it is never
told the truth. Printed: the confusion table, the error of the degrees, and the misses with the evidence that decided.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lerobot_diagnostics.findings import Finding, Status
from lerobot_diagnostics.sight.compare import Poses, pick
from lerobot_diagnostics.sight.driving import both_sides, clearest
from lerobot_diagnostics.sight.explain import explain
from lerobot_diagnostics.sight.model import JOINTS, Arm
from lerobot_diagnostics.sight.play import measure_play, zeros_of
from lerobot_diagnostics.sight.solve import POSES, CannotTellError, Solved, solve_camera
from lerobot_diagnostics.sight.verdicts import judge
from lerobot_diagnostics.sim.config_so101_sim import CameraFault, SimFaults
from lerobot_diagnostics.sim.expert import plan
from lerobot_diagnostics.sim.scene import CUBE_XY_M, build
from lerobot_diagnostics.sim.world import World

import mujoco  # isort: skip  (after scene, which chooses how it renders)

HEALTHY, BASE, CAMERA, UNDECIDED, SEVERAL = "healthy", "base", "camera", "undecided", "several"
FPS = 30
LOOKS = 8
"""Poses a second arm is driven to, as by lerobot-diagnose."""
SIZE = (320, 240)
VIEWS = {  # camera's position and what it looks at
    "front": ((0.66, -0.10, 0.40), (0.17, 0.03, 0.07)),
    "side": ((0.22, -0.62, 0.30), (0.17, 0.0, 0.08)),
    "oblique": ((0.50, 0.42, 0.45), (0.17, 0.02, 0.07)),
    "top": ((0.24, 0.0, 0.80), (0.2399, 0.0, 0.0)),
}


@dataclass(frozen=True)
class Draw:
    """One setup.

    Args:
        number: Seeds the cube's places.
        truth: A joint, or one of the labels above.
        faults: What has changed since the demonstrations.
        view: One of :data:`VIEWS`.
    """

    number: int
    truth: str
    faults: SimFaults
    view: str


@dataclass(frozen=True)
class Answer:
    """What a judge says of one setup: a label like :attr:`Draw.truth`, the size of the fault, and why."""

    label: str
    size: float = float("nan")
    evidence: dict[str, Any] = field(default_factory=dict)


Judge = Callable[[Poses], Answer]


def draw_all(rng: np.random.Generator, view: str, each: int, healthy: int) -> Iterator[Draw]:
    """``each`` draws of every fault and ``healthy`` of none. Light and cube differ from the demonstrations in all."""
    truths = [*JOINTS * each, *[BASE, CAMERA] * each, *[HEALTHY] * healthy]
    for number, truth in enumerate(truths):
        faults = SimFaults(light_level=rng.uniform(0.8, 1.2), noise_deg=0.05)
        if truth in JOINTS:
            faults.joint_zero_deg = {truth: float(rng.choice((-1, 1)) * rng.uniform(3, 6))}
        elif truth == BASE:
            faults.base_move_m = rng.uniform(-0.015, 0.015, 2).tolist()
            faults.base_turn_deg = float(rng.uniform(-4, 4))
        elif truth == CAMERA:
            moved = CameraFault(move_m=rng.uniform(-0.015, 0.015, 3).tolist(), turn_deg=rng.uniform(-2, 2, 3).tolist())
            faults.cameras = {"front": moved}
        yield Draw(1000 + number, truth, faults, view)


def world_seen_from(faults: SimFaults, view: str) -> World:
    """The scene, its front camera where ``view`` says."""
    model = build()
    position, target = (np.array(point) for point in VIEWS[view])
    back = (position - target) / np.linalg.norm(position - target)
    right = np.cross((0.0, 0.0, 1.0), back)
    right /= np.linalg.norm(right)
    mujoco.mju_mat2Quat(model.camera("front").quat, np.column_stack((right, np.cross(back, right), back)).ravel())
    model.camera("front").pos[:] = position
    return World(faults, model)


def record(faults: SimFaults, view: str, seeds: Sequence[int], near: np.ndarray | None = None) -> Poses:
    """Demonstrations of the scripted expert, and pictures of the frames that calibration by sight looks at."""
    world = world_seen_from(faults, view)
    episodes, positions = [], []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        world.reset(tuple(CUBE_XY_M + rng.uniform(-0.02, 0.02, 2)), rng.uniform(-40, 40))
        truth, states = world.truth(), []
        for j, command in enumerate(plan(world, truth.cube_m.tolist(), truth.tray_m.tolist(), FPS)):
            reading = world.reading() + rng.normal(0, faults.noise_deg, len(JOINTS))
            states.append(np.round(reading * 4095 / 360) * 360 / 4095)
            positions.append(world.data.qpos.copy())
            world.command(dict(zip(JOINTS, command, strict=True)))
            world.advance_to((j + 1) / FPS)
        episodes.append(np.array(states))
    rows = pick(episodes, near)
    pictures = []
    for row in rows:
        world.data.qpos[:] = positions[row]
        mujoco.mj_forward(world.model, world.data)
        pictures.append(world.render("front", *SIZE))
    world.close()
    return Poses(np.concatenate(episodes)[rows], {"front": pictures})


def second_arms(
    arm: Arm, solved: dict[str, Solved], before: Poses, view: str, rng: np.random.Generator, count: int
) -> None:
    """Other arms at the recorded poses: two zeros differ by 2–4, one joint has play of 0.5–2 (degrees, gripper of 100).

    Printed: by joint the error of its zero and of its play, and how many standard errors that is.
    """
    poses = clearest(before.readings, LOOKS, arm)
    side, clear = both_sides(poses, np.array([[-180.0, 180.0]] * 5 + [[0.0, 100.0]]), arm)
    ways = [(pose, way * side) for pose, ok in zip(poses, clear, strict=True) for way in ((1, -1) if ok else (0,))]
    first, second = ([i for i, (_, came) in enumerate(ways) if (came == way * side).all()] for way in (1, -1))
    print(f"{view}: {len(poses)} poses, {len(first)} of them from both sides {side.astype(int).tolist()}")
    zeros, plays, sure, seconds = [], [], [], []
    for _ in range(count):
        off, loose = np.zeros(len(JOINTS)), np.zeros(len(JOINTS))
        off[rng.choice(len(JOINTS), 2, replace=False)] = rng.uniform(2, 4, 2) * rng.choice([-1, 1], 2)
        loose[rng.choice(np.flatnonzero(side))] = rng.uniform(0.5, 2)
        world = world_seen_from(SimFaults(joint_zero_deg=dict(zip(JOINTS, off.tolist(), strict=True))), view)
        pictures = []
        for pose, came in ways:
            world.data.qpos[: len(JOINTS)] = world._radians(pose - world._encoder_error + came * loose / 2)
            mujoco.mj_forward(world.model, world.data)
            pictures.append(world.render("front", *SIZE))
        world.close()
        after = {"front": (np.array([pose for pose, _ in ways]), pictures)}
        started = time.perf_counter()
        try:
            found = zeros_of(explain(arm, solved, after))
            play = measure_play(arm, solved, after, side, first, second)
        except CannotTellError as reason:
            print(f"  cannot tell: {reason}")
            continue
        seconds.append(time.perf_counter() - started)
        zeros.append([found[joint][0] for joint in JOINTS] - off)
        plays.append([play[joint].unseen - loose[j] if joint in play else np.nan for j, joint in enumerate(JOINTS)])
        sure.append([play[joint].error if joint in play else np.nan for joint in JOINTS])
    for name, errors_of in (("zero", np.abs(zeros)), ("play", np.abs(plays)), ("play in s.e.", np.abs(plays) / sure)):
        for word, shown in (("median", np.median(errors_of, axis=0)), ("largest", errors_of.max(axis=0))):
            print(f"{view}: |error| of {name}, {word}: {np.round(shown, 2).tolist()} ({len(zeros)} arms)")
    print(f"{view}: {np.median(seconds):.1f} s an arm (median)")


def by_sight(arm: Arm, solved: dict[str, Solved]) -> Judge:
    """The judge of this package's calibration by sight, its camera solved from the demonstrations once."""

    def answer(after: Poses) -> Answer:
        try:
            explained = explain(arm, solved, {camera: (after.readings, after.pictures[camera]) for camera in solved})
        except CannotTellError as reason:
            return Answer(UNDECIDED, evidence={"reason": str(reason)})
        return _answer(judge(explained, solved))

    return answer


def _answer(findings: Sequence[Finding]) -> Answer:
    failed = [finding for finding in findings if finding.status is Status.FAIL]
    evidence = {finding.summary: dict(finding.evidence) for finding in findings}
    if len(failed) > 1:
        return Answer(SEVERAL, evidence=evidence)
    if failed:
        own = failed[0].evidence
        return Answer(failed[0].subject, own.get("offset_deg", own.get("offset_pct", float("nan"))), evidence)
    unknown = any(finding.status is Status.UNKNOWN for finding in findings)
    return Answer(UNDECIDED if unknown else HEALTHY, evidence=evidence)


def right(draw: Draw, answer: Answer) -> bool:
    """A moved camera is no fault of the arm: here it must be settled and leave no blame."""
    return answer.label == (HEALTHY if draw.truth == CAMERA else draw.truth)


def table(results: Sequence[tuple[Draw, Answer]]) -> str:
    """Truth down, answer across."""
    counts = Counter((draw.truth, answer.label) for draw, answer in results)
    truths = list(dict.fromkeys(draw.truth for draw, _ in results))
    labels = [label for label in (*JOINTS, BASE, HEALTHY, SEVERAL, UNDECIDED) if any(counts[t, label] for t in truths)]
    lines = [" " * 15 + "".join(f"{label:>15}" for label in labels)]
    for truth in truths:
        lines.append(f"{truth:15}" + "".join(f"{counts[truth, label] or '.':>15}" for label in labels))
    return "\n".join(lines)


def errors(results: Sequence[tuple[Draw, Answer]]) -> str:
    """Error of the zero, by joint, where the right one was named."""
    lines = []
    for joint in JOINTS:
        off = np.array([a.size - d.faults.joint_zero_deg[joint] for d, a in results if d.truth == a.label == joint])
        if len(off):
            unit = "of 100" if joint == "gripper" else "deg"
            lines.append(
                f"{joint:15} median |error| {np.median(np.abs(off)):.2f}, largest {np.abs(off).max():.2f} {unit} "
                f"({len(off)} draws)"
            )
    return "\n".join(lines)


def main() -> None:
    """Draw, judge, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--views", default="front", help=f"comma-separated, of {', '.join(VIEWS)}")
    parser.add_argument("--draws", type=int, default=10, help="of each fault and view")
    parser.add_argument("--healthy", type=int, default=30, help="of each view")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--arms", type=int, default=0, help="other arms of each view, with play")
    parser.add_argument("--output", type=Path, help="write every draw and answer as JSON lines")
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    with closing(Arm()) as arm:
        for view in arguments.views.split(","):
            before = record(SimFaults(noise_deg=0.05), view, (arguments.seed, arguments.seed + 1, arguments.seed + 2))
            started = time.perf_counter()
            try:
                solved = {"front": solve_camera(arm, before.readings, before.pictures["front"])}
            except CannotTellError as reason:
                print(f"{view}: the camera cannot be solved: {reason}")
                continue
            print(f"{view}: camera solved in {time.perf_counter() - started:.1f} s, {solved['front'].overlap:.3f}")
            if arguments.arms:
                second_arms(arm, solved, before, view, rng, arguments.arms)
            by_hand = by_sight(arm, solved)
            results, seconds = [], []
            every = list(draw_all(rng, view, arguments.draws, arguments.healthy))
            for index in rng.permutation(len(every)):
                draw = every[index]
                after = record(draw.faults, view, (draw.number, 5000 + draw.number), before.readings[:POSES])
                started = time.perf_counter()
                answer = by_hand(after)
                seconds.append(time.perf_counter() - started)
                results.append((draw, answer))
                if arguments.output:
                    with arguments.output.open("a") as file:
                        line = [draw.truth, view, str(draw.faults), answer.label, answer.size, answer.evidence]
                        file.write(json.dumps(line, default=str) + "\n")
            if results:
                summary(view, results, seconds)


def summary(view: str, results: Sequence[tuple[Draw, Answer]], seconds: Sequence[float]) -> None:
    """Everything there is to say about one view."""
    faulty = [pair for pair in results if pair[0].truth not in (HEALTHY, CAMERA)]
    sound = [pair for pair in results if pair[0].truth in (HEALTHY, CAMERA)]
    print(table(results))
    print(errors(results))
    for what, pairs in (("faults named", faulty), ("sound arms left alone", sound)):
        print(f"{view}: {what}: {sum(right(*pair) for pair in pairs)} of {len(pairs)}")
    print(f"{view}: {np.median(seconds):.1f} s a judgement (median)")
    for draw, answer in results:
        if not right(draw, answer):
            print(f"  miss: draw {draw.number}, {draw.faults} -> {answer.label}: {answer.evidence}")


if __name__ == "__main__":
    main()
