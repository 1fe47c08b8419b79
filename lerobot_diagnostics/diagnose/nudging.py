"""Each joint nudged a little either way around a few poses and photographed while the setup works; looked at later.

For arms of which no model is known, or whose model does not match the pictures: see
:mod:`lerobot_diagnostics.sight.nudges`.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from lerobot_diagnostics.diagnose.ladder import Outcome
from lerobot_diagnostics.diagnose.motion import (
    REST_S,
    SPEED,
    Driver,
    MotionEndedError,
    Picture,
    cannot,
    driving,
    rest,
    way_ended,
)
from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Status
from lerobot_diagnostics.recording.names import canonical, joint
from lerobot_diagnostics.report.write import atomic_file, file_name
from lerobot_diagnostics.robot.arm import Arm
from lerobot_diagnostics.robot.easing import ease, lowest_on_path
from lerobot_diagnostics.robot.kinematics import height_of, lowest_tool, lowest_wrist
from lerobot_diagnostics.robot.move import EASE_HZ, STOPPED, Ending, nothing
from lerobot_diagnostics.robot.stall import StallMonitor
from lerobot_diagnostics.sight.nudges import Nudged, compare_nudges, stands_still
from lerobot_diagnostics.vision.images import shrink

NUDGE_DEG = 4.0
"""Degrees, of a gripper's 0–100 as many. Faults begin at 3°; a picture changes almost linearly up to there."""
LEAST_NUDGE_DEG = 1.0
"""A joint that follows by less is stuck, or holds something. STS3215 servos stand 2–3° off their goal, but much alike
at two goals 4° apart."""
MOVES_DEG: Sequence[Mapping[str, float]] = (
    {},
    {"shoulder_pan": 12.0, "shoulder_lift": -12.0, "wrist_flex": -12.0},
    {"shoulder_pan": -12.0, "elbow_flex": -12.0, "wrist_roll": 12.0},
)
"""The poses, from where the arm stands: less lift, elbow and wrist is up. From three, the joint at fault explained most
in 255 of 288 draws in simulation, from the first alone in 226 (benchmarks/nudges.py)."""
LEAST_HEIGHT_M = 0.10
"""An arm stretched to 40 cm comes 28 mm lower by a nudge of 4°, and 56 mm by a zero of the lift that is off by 8°."""
WIDTH = 320
"""Pixels of the pictures kept: four times as wide as what is compared."""
FOLDER = "nudges"

LIFT = "Lift the arm so that nothing is within 10 cm below it, and run this again."
PLACE = (
    "Bring the arm by hand to where the cameras see most of it, with nothing within 10 cm below or beside it; hold it "
    "there and press ENTER."
)


@dataclass(frozen=True)
class Shot:
    """One picture of each camera, the arm at rest.

    Args:
        goal, joints: Where it was sent and what the joints read, by robot key: degrees, grippers 0–100.
        pictures: By camera, [H, W, 3] uint8 RGB, :data:`WIDTH` wide.
    """

    goal: Mapping[str, float]
    joints: Mapping[str, float]
    pictures: Mapping[str, Picture]


Pose = Sequence[Shot]
"""The pose itself, then its nudges."""


def take(
    robot: Any,
    *,
    yes: bool,
    clock: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
) -> list[list[Shot]]:
    """Connect, nudge the arm around where it stands, and give it back.

    Args:
        robot: Made and not connected.
        yes: Nobody is asked.
        clock, sleep: Injected by tests.

    Raises:
        UsageError: It does not connect, stands too low, does not follow, or has no camera that stands still.
        KeyboardInterrupt: The user stopped.
    """
    with driving(robot, yes=yes, place=PLACE, clock=clock, sleep=sleep) as driver:
        try:
            return still_cameras(nudge(driver))
        except (UsageError, MotionEndedError) as error:  # raised when somebody holds the arm again
            refused = error
            if not isinstance(error, MotionEndedError) or error.ending is not STOPPED:
                driver.desk.say(str(error))
    if isinstance(refused, UsageError):
        raise refused
    raise UsageError(
        f"the nudges were not finished: {refused.ending.detail or refused.ending.end}.",
        "The snapshot was kept without them; see that the arm is free, and run this again.",
    )


def nudge(driver: Driver) -> list[list[Shot]]:
    """Move each joint of each pose by :data:`NUDGE_DEG` either way, one at a time, back at the pose in between.

    Raises:
        UsageError: The arm stands too low (nothing was sent), or a joint does not follow.
        MotionEndedError: Stopped, stalled or lost.
    """
    arm = driver.arm
    start = _stands(driver)
    known = height_of(arm.robot) is not None
    poses = [_moved(arm, start, moves) for moves in (MOVES_DEG if known else MOVES_DEG[:1])]
    _refuse_low(arm, [start, *poses, start])
    nudges = [[pose, *_nudged(arm, pose)] for pose in poses]
    count = sum(map(len, nudges))
    seconds = count * (REST_S + 3 * NUDGE_DEG / SPEED + 0.2) + len(poses) * 2
    go = driver.desk.confirm(
        f"The arm moves to {len(poses)} {'poses' if len(poses) > 1 else 'pose'} around where it stands, up to 12° away,"
        f" and there each joint by ±{NUDGE_DEG:.0f}°, at {SPEED:.0f}°/s: {count} pictures in about {seconds:.0f} s. "
        "Keep clear, then press ENTER; Ctrl-C stops."
    )
    if not go:
        raise MotionEndedError(STOPPED)
    at, taken = start, []
    try:
        for pose, *around in nudges:
            shots = []
            for goal in (pose, *around):
                for stop in (pose, goal):
                    _slide(driver, at, stop)
                    at = stop
                shots.append(_shot(driver, goal))
            _refuse_stuck(shots)
            taken.append(shots)
    except UsageError:
        _slide(driver, at, start)
        raise
    _slide(driver, at, start)
    return taken


def _stands(driver: Driver) -> dict[str, float]:
    reading = driver.player.read()
    if isinstance(reading, Ending):
        raise MotionEndedError(reading)
    return {key: reading.joints[key] for key in driver.arm.joints}


def _moved(arm: Arm, start: Mapping[str, float], moves_deg: Mapping[str, float]) -> dict[str, float]:
    """A pose in the robot's values, within its limits."""
    return {key: _within(arm, key, value, moves_deg.get(joint(key), 0.0)) for key, value in start.items()}


def _within(arm: Arm, key: str, value: float, by_deg: float) -> float:
    low, high = arm.joints[key].bounds
    return min(max(value + arm.joints[key].from_degrees(by_deg), low), high)


def _nudged(arm: Arm, pose: Mapping[str, float]) -> Iterator[dict[str, float]]:
    """The pose with one joint elsewhere; at a limit only to the other side."""
    for key, value in pose.items():
        for by in (NUDGE_DEG, -NUDGE_DEG):
            there = _within(arm, key, value, by)
            if abs(arm.joints[key].degrees(there - value)) > NUDGE_DEG / 2:
                yield {**pose, key: there}


def _refuse_low(arm: Arm, poses: Sequence[Mapping[str, float]]) -> None:
    if height_of(arm.robot) is None:
        return
    in_degrees = [arm.degrees(pose) for pose in poses]
    lowest = min(lowest_on_path(in_degrees, height) for height in (lowest_tool, lowest_wrist))
    if lowest < LEAST_HEIGHT_M:
        raise UsageError(
            f"the gripper would come down to {lowest * 100:.0f} cm above the arm's foot, too low to be nudged.", LIFT
        )


def _refuse_stuck(shots: Pose) -> None:
    pose = shots[0]
    for key, value in pose.joints.items():
        followed = max(
            (abs(shot.joints[key] - value) for shot in shots if shot.goal[key] != pose.goal[key]), default=0.0
        )
        if followed < LEAST_NUDGE_DEG:
            raise UsageError(
                f"{canonical(key)} followed by {followed:.1f} of {NUDGE_DEG:.0f} degrees.",
                "Free it of what it holds or leans on, and run this again.",
            )


def _slide(driver: Driver, start: Mapping[str, float], goal: Mapping[str, float]) -> None:
    """From goal to goal, not from where the arm stands: 2–3° below its goal it would first drop by as much again."""
    pacer, monitor = driver.player.pacer(1 / EASE_HZ), StallMonitor()
    for k, pose in enumerate(ease(start, goal, SPEED / EASE_HZ), start=1):
        ended = driver.player.tick(pacer, k, pose, 1.0, monitor, {}, nothing)
        if ended is not None:
            raise MotionEndedError(ended)


def _shot(driver: Driver, goal: Mapping[str, float]) -> Shot:
    reading = rest(driver, goal)
    arm = driver.arm
    pictures = {
        name: shrink(picture, WIDTH, round(WIDTH * picture.shape[0] / picture.shape[1]))
        for name, picture in reading.pictures.items()
    }
    return Shot(arm.degrees(goal), arm.degrees(reading.joints), pictures)


def still_cameras(poses: Sequence[Pose]) -> list[list[Shot]]:
    """The same shots without the cameras that move with the arm.

    Raises:
        UsageError: No camera stands still.
    """
    keys = list(poses[0][0].joints)
    still = [name for name in poses[0][0].pictures if stands_still([_nudged_of(pose, name, keys) for pose in poses])]
    if not still:
        raise UsageError(
            "no camera stands still while the arm moves, and only such a camera shows its zeros.",
            "Pass a camera beside the arm in --robot.cameras, or leave --nudge out.",
        )
    return [
        [Shot(shot.goal, shot.joints, {name: shot.pictures[name] for name in still}) for shot in pose] for pose in poses
    ]


def save(poses: Sequence[Pose], folder: Path) -> list[list[dict[str, Any]]]:
    """Write the pictures.

    Args:
        poses: From :func:`take`.
        folder: Of the snapshot.

    Returns:
        The entry ``nudges`` of ``snapshot.json``: by pose a list of shots, the pose itself first.
    """
    entry: list[list[dict[str, Any]]] = []
    for number, pose in enumerate(poses):
        entry.append([])
        for index, shot in enumerate(pose):
            pictures = {}
            for name, picture in shot.pictures.items():
                pictures[name] = f"{FOLDER}/{file_name(name, number, index)}.png"
                with atomic_file(folder / pictures[name]) as temporary:
                    Image.fromarray(picture).save(temporary)
            goal, joints = ({key: round(value, 3) for key, value in of.items()} for of in (shot.goal, shot.joints))
            entry[-1].append({"goal_deg": goal, "joints_deg": joints, "pictures": pictures})
    return entry


def load(snapshot: Mapping[str, Any], folder: Path) -> list[list[Shot]]:
    """The nudges of a snapshot; empty where it was taken without.

    Args:
        snapshot: The content of ``snapshot.json``.
        folder: Where it is.

    Raises:
        UsageError: A picture is missing.
    """
    poses = []
    for pose in snapshot.get("nudges", ()):
        shots = []
        for shot in pose:
            pictures = {}
            for name, path in shot["pictures"].items():
                try:
                    with Image.open(folder / path) as image:
                        pictures[name] = np.array(image.convert("RGB"))
                except OSError as error:
                    raise UsageError(f"{folder / path} cannot be read: {error}.", RETAKE) from error
            shots.append(Shot(shot["goal_deg"], shot["joints_deg"], pictures))
        poses.append(shots)
    return poses


RETAKE = "Take a snapshot with lerobot-setup-snapshot --nudge=true while the setup works."


def judge(driver: Driver, poses: Sequence[Pose]) -> Outcome:
    """Drive slowly to a snapshot's poses and explain by its nudges what the pictures show there.

    Args:
        driver: See :func:`~lerobot_diagnostics.diagnose.motion.driving`.
        poses: From :func:`load`; not empty.
    """
    arm, player = driver.arm, driver.player
    keys = list(poses[0][0].joints)
    if sorted(keys) != sorted(arm.joints):
        return cannot(f"the snapshot is of an arm with the joints {', '.join(map(canonical, keys))}")
    recorded = [arm.from_degrees(shot.joints) for pose in poses for shot in pose]
    if not driver.desk.confirm(
        f"The arm moves to the {len(poses)} poses of the snapshot at {SPEED:.0f}°/s. Keep clear, then press ENTER; "
        "Ctrl-C stops."
    ):
        return cannot("stopped before it moved")
    try:
        start = _stands(driver)
        live = []
        for pose in poses:
            goal = arm.from_degrees(pose[0].goal)
            ending = player.ease_to(goal, recorded, SPEED)
            if not ending.finished:
                raise MotionEndedError(ending)
            live.append(_shot(driver, goal))
        player.ease_to(start, recorded, SPEED)
    except MotionEndedError as ended:
        return way_ended(ended.ending)
    except UsageError as error:  # no safe way to a pose
        near = ", ".join(f"{canonical(key)} {value:.0f}" for key, value in poses[0][0].joints.items())
        return cannot(f"{error.message.removesuffix('.')}; bring the arm by hand near the snapshot's pose: {near}")
    findings = compare_nudges(
        {name: [_nudged_of(pose, name, keys) for pose in poses] for name in poses[0][0].pictures},
        np.array([[shot.joints[key] for key in keys] for shot in live]),
        {name: [shot.pictures[name] for shot in live] for name in live[0].pictures},
        [canonical(key) for key in keys],
    )
    return Outcome(findings, results={"poses": [dict(shot.joints) for shot in live]})


def _nudged_of(pose: Pose, camera: str, keys: Sequence[str]) -> Nudged:
    readings = np.array([[shot.joints[key] for key in keys] for shot in pose])
    return Nudged(readings, [shot.pictures[camera] for shot in pose])


def settle(driver: Driver, by_model: Outcome, poses: Sequence[Pose]) -> Outcome:
    """What the nudges tell where the arm's model could not be fitted; ``sight.verdicts`` always says what it gained.

    Args:
        driver, poses: As for :func:`judge`.
        by_model: What calibration by sight found with the model.
    """
    if any(f.status is not Status.UNKNOWN or "gain" in f.evidence for f in by_model.findings):
        return by_model
    outcome = judge(driver, poses)
    if all(f.status is Status.UNKNOWN for f in outcome.findings):
        return dataclasses.replace(outcome, findings=[*by_model.findings, *outcome.findings])
    said = [dataclasses.replace(f, status=Status.INFO) for f in by_model.findings]
    return dataclasses.replace(outcome, findings=[*said, *outcome.findings])
