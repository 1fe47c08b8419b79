"""The rungs that move the arm, run only with ``--replay=true``: calibration by sight, and the replay."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lerobot_diagnostics.diagnose.ladder import Outcome
from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Cause, Finding, Status
from lerobot_diagnostics.recording import Episode, Recording
from lerobot_diagnostics.recording.names import match
from lerobot_diagnostics.replay.desk import Desk
from lerobot_diagnostics.replay.play import Player
from lerobot_diagnostics.robot.arm import Arm, Reading
from lerobot_diagnostics.robot.connect import connected
from lerobot_diagnostics.robot.keys import need_terminal, open_keys
from lerobot_diagnostics.robot.move import EASE_HZ, End, Ending
from lerobot_diagnostics.robot.parts import releases_torque
from lerobot_diagnostics.robot.stall import StallMonitor
from lerobot_diagnostics.robot.stop import StopSignals

Picture = NDArray[np.uint8]
Angles = NDArray[np.float64]

SPEED = 20.0
"""Degrees a second of the fastest joint on the way to a look."""
REST_S = 0.4
"""The arm stands still this long before a picture counts: a camera's newest picture is up to 0.1 s old at 10 fps."""
LOOKS = 8
"""Recorded poses driven to. ``benchmarks/calibration_by_sight.py`` names the joint nearly as well with four."""

TWICE = 6
"""Poses that are approached from both sides, at most. With six, ``benchmarks/calibration_by_sight.py --arms 6`` tells
play to 0.15° (wrist_roll 0.4°, gripper 0.9 of 100) from the front."""
APPROACHES_S = 4.0
"""What the two approaches of such a pose take: 4° away and back at :data:`SPEED`, with rests."""


class MotionEndedError(Exception):
    """The arm did not get to a pose; the ending says why."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending.detail)
        self.ending = ending


@dataclass(frozen=True)
class Driver:
    """A connected arm and the person in front of it."""

    player: Player
    desk: Desk

    @property
    def arm(self) -> Arm:
        """The one command path."""
        return self.player.arm


@contextlib.contextmanager
def driving(
    robot: Any,
    *,
    yes: bool,
    place: str = "",
    clock: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Driver]:
    """Connect the robot for motion; disconnected at the end, after somebody holds the arm.

    Args:
        robot: Made and not connected.
        yes: Nobody is asked.
        place: What is to be done by hand first, and confirmed; connecting waits for it.
        clock, sleep: Injected by tests.

    Raises:
        UsageError: There is no terminal to confirm on, or the robot does not connect.
    """
    with StopSignals() as stop, open_keys() as keys:
        need_terminal(keys, yes)
        desk = Desk(keys, stopped=stop, yes=yes, sleep=sleep)
        releases = releases_torque(robot)
        if releases:
            desk.say("Support the arm: connecting lets it go for a moment.")
        if place and not desk.confirm(place):
            raise KeyboardInterrupt
        with connected(robot) as live:
            yield Driver(Player(Arm(live, clock=clock), stopped=stop, clock=clock, sleep=sleep), desk)
            if releases and not stop():
                with contextlib.suppress(KeyboardInterrupt):
                    desk.confirm("Support the arm, then press ENTER to release its torque.")
        if stop():
            raise KeyboardInterrupt


def judge_by_sight(
    driver: Driver, recording: Recording, episodes: Sequence[int], cameras: Mapping[str, str], *, looks: int = LOOKS
) -> Outcome:
    """Drive slowly to recorded poses, the highest first, and compare where the pictures show the arm.

    Args:
        driver: See :func:`driving`.
        recording: Of an SO-100 or SO-101, in degrees or ±100.
        episodes: Episodes to take poses from.
        cameras: ``{recorded key: live camera}`` of those whose view is right.
        looks: Poses, at most.
    """
    from lerobot_diagnostics.sight.compare import compare_live, recorded_poses
    from lerobot_diagnostics.sight.driving import APPROACH, both_sides, clearest
    from lerobot_diagnostics.sight.model import JOINTS
    from lerobot_diagnostics.sight.play import compare_arms
    from lerobot_diagnostics.sight.solve import CannotTellError

    arm = driver.arm
    keys = match(JOINTS, list(arm.joints))
    if lost := [joint for joint, key in keys.items() if key is None]:
        return cannot(f"the robot has no joint {', '.join(lost)}")
    try:
        ranges = {key: joint.calibration for key, joint in arm.joints.items() if joint.calibration}
        before = recorded_poses(recording, list(cameras), list(episodes), calibration=ranges)
    except CannotTellError as reason:
        return cannot(str(reason))
    poses = clearest(before.readings, looks)
    if len(poses) < 4:
        return cannot("the recording has no four poses that are high enough above the table to drive to")
    side, clear = both_sides(poses, _bounds(arm, keys))
    sides: Angles = (clear & (np.cumsum(clear) <= TWICE))[:, None] * side
    seconds = _duration(poses) / SPEED + len(poses) * (REST_S + 1) + int(sides.any(axis=1).sum()) * APPROACHES_S
    if not driver.desk.confirm(
        f"The arm moves to {len(poses)} recorded poses, the highest first, at {SPEED:.0f}°/s: about {seconds:.0f} s. "
        "Keep clear, then press ENTER; Ctrl-C stops."
    ):
        return cannot("stopped before it moved")
    first = driver.player.read()
    if isinstance(first, Ending):
        return cannot(first.detail)
    start = {str(key): first.joints[str(key)] for key in keys.values()}
    recorded = [_goal(arm, keys, reading) for reading in before.readings]

    def go(pose: Angles) -> Any:
        goal = _goal(arm, keys, pose)
        ending = driver.player.ease_to(goal, recorded, SPEED)
        if not ending.finished:
            raise MotionEndedError(ending)
        return rest(driver, goal)

    def capture(pose: Angles, side: Angles) -> tuple[Angles, Mapping[str, Picture]]:
        if side.any():
            go(pose + APPROACH * side)
        reading = go(pose)
        angles = arm.degrees(reading.joints)
        seen = {key: reading.pictures[name] for key, name in cameras.items() if name in reading.pictures}
        return np.array([angles[str(keys[joint])] for joint in JOINTS]), seen

    try:
        compared = compare_live(before, capture, poses, sides)
        driver.player.ease_to(start, recorded, SPEED)
    except MotionEndedError as ended:
        return way_ended(ended.ending)
    except UsageError as error:  # no safe way to a pose
        return cannot(str(error))
    tables = [compare_arms(compared.zeros, compared.play)] if compared.zeros else []
    return Outcome(compared.findings, tables, results={"poses": poses.tolist(), "cameras": dict(cameras)})


def _bounds(arm: Arm, keys: Mapping[str, str | None]) -> Angles:
    """[6, 2] lowest and highest reading in the order of the model's joints."""
    ends = [arm.degrees({str(key): arm.joints[str(key)].bounds[end] for key in keys.values()}) for end in (0, 1)]
    return np.array([[limits[str(key)] for limits in ends] for key in keys.values()])


def _goal(arm: Arm, keys: Mapping[str, str | None], reading: Angles) -> dict[str, float]:
    """A pose in the order of the model's joints, as the robot's own values."""
    angles = {str(key): float(value) for key, value in zip(keys.values(), reading, strict=True)}
    return arm.from_degrees(angles)


def rest(driver: Driver, goal: Mapping[str, float]) -> Reading:
    """Stand at a goal until pictures and joints are of one instant.

    Raises:
        MotionEndedError: The arm or a camera was lost, a joint does not follow, or the user stopped.
    """
    pacer, monitor = driver.player.pacer(1 / EASE_HZ), StallMonitor()
    seen: list[Reading] = []
    for k in range(1, round(REST_S * EASE_HZ) + 1):
        ended = driver.player.tick(pacer, k, goal, 1.0, monitor, {}, lambda _, reading: seen.append(reading))
        if ended is not None:
            raise MotionEndedError(ended)
    if not seen:
        raise MotionEndedError(Ending(End.ARM_LOST, "no reading while it stood still"))
    return seen[-1]


def _duration(poses: Angles) -> float:
    """Degrees that the fastest joint turns over all ways, easing in and out included."""
    return 1.5 * float(np.abs(np.diff(poses[:, :5], axis=0)).max(axis=1).sum())


def judge_replay(
    driver: Driver, episode: Episode, cameras: Mapping[str, str], folder: Path, *, speed: float, versions: Any
) -> Outcome:
    """Replay one recorded episode and compare, as ``lerobot-replay-compare`` does.

    Args:
        driver: See :func:`driving`.
        episode: The recording.
        cameras: ``{recorded key: live camera}``.
        folder: Output folder.
        speed: 1 as recorded.
        versions: For the report.
    """
    from lerobot_diagnostics.replay.plan import check_plan, make_plan, plan_table
    from lerobot_diagnostics.replay.pump import Pump
    from lerobot_diagnostics.replay.session import plan_moments, run_session
    from lerobot_diagnostics.replay.summary import summarize

    arm, player = driver.arm, driver.player
    plan = make_plan(episode, list(arm.robot.action_features), speed=speed)
    checks = check_plan(plan, arm.joints, arm.max_step)
    if any(f.status is Status.FAIL for f in checks):
        return Outcome(checks)
    pairs = {name: key for key, name in cameras.items()}
    moments = {episode.index: plan_moments(plan, player)}
    with Pump([], pairs) as pump:
        session = run_session(player, [plan], driver.desk, pump, repeat=1, ease_speed=SPEED, return_to_start=True)
    report = summarize(
        "replay", session, checks, pairs, moments,
        alpha=0.5, folder=folder, inputs={}, versions=versions, tables=[plan_table(plan, arm.joints)],
    )  # fmt: skip
    landed = session.outcomes[0].landed if session.outcomes else None
    return Outcome(report.findings, report.tables, report.pictures, {**report.results, "landed": landed})


def cannot(reason: str) -> Outcome:
    """Calibration by sight did not decide."""
    summary = f"Calibration by sight: {reason}."
    return Outcome([Finding("JOINT_OFFSET", Status.UNKNOWN, Cause.CALIBRATION, "arm", summary)])


def way_ended(ending: Ending) -> Outcome:
    """Why the arm did not get to a pose."""
    status = Status.UNKNOWN if ending.end == "stopped" else Status.FAIL
    code = {"stalled": "OVERLOAD", "not arrived": "STANDING_ERROR", "arm lost": "BUS_ERRORS"}.get(
        ending.end, "TRACKING"
    )
    cause = Cause.CAMERAS if ending.end == "camera lost" else Cause.MOTORS
    code = "DEAD" if cause is Cause.CAMERAS else code
    subject = ending.joint or ("camera" if cause is Cause.CAMERAS else "arm")
    summary = f"The way to a recorded pose ended: {ending.detail or ending.end}."
    return Outcome([Finding(code, status, cause, subject, summary)])
