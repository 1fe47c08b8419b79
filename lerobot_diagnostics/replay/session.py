"""From the plan to the last question: ease, wait, play, return, ask; for several starts and several attempts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Table
from lerobot_diagnostics.replay.desk import Desk
from lerobot_diagnostics.replay.judge import Outcome
from lerobot_diagnostics.replay.pictures import key_moments, sampled
from lerobot_diagnostics.replay.plan import Plan, plan_table
from lerobot_diagnostics.replay.play import Player, Take
from lerobot_diagnostics.replay.pump import Pump
from lerobot_diagnostics.robot.arm import Reading
from lerobot_diagnostics.robot.kinematics import height_of
from lerobot_diagnostics.robot.move import End, Ending

Pose = Mapping[str, float]
WAYPOINTS = 200
"""Recorded poses that bound the way to the start: more cost a millisecond each and lie between these."""


@dataclass
class Session:
    """Everything that was measured.

    Attributes:
        takes, outcomes: One each an attempt.
        first: By attempt, the live pictures at the first recorded pose.
        start: Where the arm stood when it was connected.
        rested: Whether it is back there.
    """

    takes: list[Take] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    first: list[dict[str, NDArray[np.uint8]]] = field(default_factory=list)
    start: dict[str, float] = field(default_factory=dict)
    rested: bool = True


def poses(plan: Plan) -> list[dict[str, float]]:
    """Recorded poses spread over the episode."""
    return [plan.pose(k) for k in np.unique(np.linspace(0, len(plan) - 1, WAYPOINTS).astype(int)).tolist()]


def plan_moments(plan: Plan, player: Player) -> dict[int, str]:
    """:func:`~lerobot_diagnostics.replay.pictures.key_moments` with the arm's own kinematics, where known."""
    height = height_of(player.arm.robot)
    above: Callable[[Pose], float] | None = None if height is None else lambda pose: height(player.arm.degrees(pose))
    return key_moments(plan, above)


def run_session(
    player: Player,
    plans: Sequence[Plan],
    desk: Desk,
    pump: Pump,
    *,
    repeat: int,
    ease_speed: float,
    return_to_start: bool,
) -> Session:
    """Replay each plan ``repeat`` times. Stops at the first attempt that does not finish.

    Args:
        player: Moves the arm.
        plans: One an episode, checked.
        desk: Confirms and answers.
        pump: Shows and records.
        repeat: Attempts an episode.
        ease_speed: Degrees a second on the ways to and fro.
        return_to_start: Whether to go back after each attempt to where the arm stood at first.

    Raises:
        UsageError: The first way is not safe; nothing was sent.
    """
    session = Session()
    reading = player.read()
    if isinstance(reading, Ending):
        _note(session, Take(plans[0], ending=reading))
        return session
    session.start = {key: reading.joints[key] for key in plans[0].positions}
    for plan in plans:
        for attempt in range(1, repeat + 1):
            pump.plan(plan)
            take = _attempt(session, player, plan, attempt, desk, pump, ease_speed)
            if take.ending.finished and return_to_start:
                desk.say("Returning to where the arm stood.")
                back = _back(player, session.start, plan, ease_speed, pump)
                session.rested = back.finished
                if not back.finished:
                    desk.say(f"The arm did not return: {back.detail}.")
            _note(session, take, desk.outcome() if take.ending.finished else None)
            if not take.ending.finished or not (session.rested or not return_to_start):
                return session
    return session


def _note(session: Session, take: Take, outcome: Outcome | None = None) -> None:
    session.takes.append(take)
    session.outcomes.append(outcome or Outcome(None))
    if len(session.first) < len(session.takes):
        session.first.append({})


def _back(player: Player, start: Pose, plan: Plan, speed: float, pump: Pump) -> Ending:
    def watch(_frame: int, reading: Reading) -> None:
        pump(len(plan) - 1, reading)

    try:
        return player.ease_to(start, poses(plan), speed, watch)
    except UsageError as error:
        return Ending(End.NOT_ARRIVED, error.message)


def _attempt(
    session: Session, player: Player, plan: Plan, attempt: int, desk: Desk, pump: Pump, ease_speed: float
) -> Take:
    label = f"Episode {plan.episode.index}, attempt {attempt}"
    stopped: list[Ending] = []

    def look() -> Table | None:
        reading = player.read()
        if isinstance(reading, Ending):
            stopped.append(reading)
            return None
        pump(0, reading)
        return plan_table(plan, player.arm.joints, reading.joints)

    def confirmed(prompt: str) -> Ending | None:
        if not desk.confirm(prompt, look):
            return Ending(End.STOPPED, "stopped by the user")
        return stopped[0] if stopped else None

    if (ending := confirmed(f"{label}: press ENTER to ease to the first recorded pose, Ctrl-C to stop.")) is not None:
        return Take(plan, attempt, ending=ending)
    session.rested = False
    desk.say("Easing to the first recorded pose.")
    goal = plan.pose(0)
    try:
        ending = player.ease_to(goal, poses(plan), ease_speed, pump)
    except UsageError as error:
        if not session.takes:
            raise
        ending = Ending(End.NOT_ARRIVED, error.message)  # what earlier attempts measured is not thrown away
    if not ending.finished:
        return Take(plan, attempt, ending=ending)
    prompt = f"{label}: place the objects as in the recorded picture, then press ENTER to play."
    if (ending_or_none := confirmed(prompt)) is not None:
        return Take(plan, attempt, ending=ending_or_none)
    assert player.arm.last is not None  # just read
    here = player.arm.last
    session.first.append(here.pictures)
    start_error = max(abs(here.joints[key] - value) for key, value in goal.items())
    action = {key: value for key, value in plan.goal(0).items() if key in goal}
    if plan.jumps():
        # The recording begins with a jump. It is a step of the plan, not of the arm: eased to, then played.
        desk.say("Easing to the first recorded action.")
        ending = player.ease_to(action, poses(plan), ease_speed, pump)
        if not ending.finished:
            return Take(plan, attempt, ending=ending)
    desk.say(f"Playing episode {plan.episode.index} ({plan.duration_s:.1f} s).")
    take = player.play(plan, attempt=attempt, keep=sampled(plan, plan_moments(plan, player)), watch=pump)
    take.start_error = start_error
    return take
