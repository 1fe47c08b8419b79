"""What is going to be sent, and whether it may be: every check that the files and the robot's settings allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import maximum_filter1d

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Cause, Finding, Status, Table
from lerobot_diagnostics.recording import Episode
from lerobot_diagnostics.recording.names import is_gripper, is_velocity, match
from lerobot_diagnostics.recording.units import Unit
from lerobot_diagnostics.report.format import hundredths
from lerobot_diagnostics.robot.joints import (
    RobotJoint,
    check_units,
    from_old_convention,
    is_old_convention,
    joint_map,
)

Array = NDArray[np.float64]

BEYOND = 5.0
"""How far recorded *states* may lie outside the motors' limits. What a follower measured lies within its own limits; a
tick or two of play is nothing, more means another calibration. Actions are the leader's wishes and may go anywhere."""

MOVES = 5.0
"""Range of motion from which a joint says something about whether actions are differences."""

LAG_WINDOW_S = 0.3

START_STEP = 5.0
"""First commands farther than this from the first recorded state are eased to: in so101_record_test_stateonly one
episode begins 42 of ±100 from its first action."""

OPENING_S = 1.0
"""Recorded time in which a follower has caught up with its first command, at most. Measured: 66° within 0.3 s
(so101_sim), 42 of ±100 within 0.3 s (so101_record_test_stateonly, a real arm). A joint that is still away then is held
up, and only this long is left out."""


@dataclass(frozen=True)
class Plan:
    """One episode as commands for one robot.

    Args:
        episode: The recording.
        keys: K robot keys, positions and velocities, in the robot's order.
        actions: ``[T, K]`` what is sent, in the robot's units.
        states: ``[T, K]`` what was measured when it was recorded; NaN where it was not.
        speed: 1 as recorded, 0.5 half as fast.
    """

    episode: Episode
    keys: tuple[str, ...]
    actions: Array
    states: Array
    speed: float

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def positions(self) -> tuple[str, ...]:
        """The position keys."""
        return tuple(key for key in self.keys if not is_velocity(key))

    @property
    def period_s(self) -> float:
        """Seconds from one command to the next."""
        return 1 / (self.episode.fps * self.speed)

    @property
    def duration_s(self) -> float:
        """Seconds of playing."""
        return len(self) * self.period_s

    def goal(self, k: int) -> dict[str, float]:
        """Command ``k`` as plain floats by key."""
        return dict(zip(self.keys, self.actions[k].tolist(), strict=True))

    def pose(self, k: int) -> dict[str, float]:
        """The recorded state at frame ``k`` by position key; the action where none was recorded."""
        values = np.where(np.isfinite(self.states[k]), self.states[k], self.actions[k])
        return {key: float(v) for key, v in zip(self.keys, values, strict=True) if not is_velocity(key)}

    def jumps(self) -> dict[str, float]:
        """By position key, how far the first action is from the first recorded state, where beyond START_STEP."""
        start, goal = self.pose(0), self.goal(0)
        return {key: away for key in start if (away := abs(goal[key] - start[key])) > START_STEP}

    def opening(self) -> int:
        """Frames at the start in which the recorded state is still catching up with the first actions.

        A replay eases through this jump before its first frame, so there is nothing to compare them with. Caught up is
        a joint within START_STEP of any command it has got so far: a follower's lag behind a moving command does not
        keep it from that.
        """
        last = min(len(self), round(OPENING_S * self.episode.fps))
        frames = 0
        for key in self.jumps():
            j = self.keys.index(key)
            state, action = self.states[:last, j], self.actions[:last, j]
            away = np.maximum(np.minimum.accumulate(action) - state, state - np.maximum.accumulate(action))
            caught_up = np.flatnonzero(away <= START_STEP)
            frames = max(frames, int(caught_up[0]) if len(caught_up) else last)
        return frames

    def allowed_lag(self) -> Array:
        """``[T, K]`` how far behind its action each joint was when recorded, at most, within 0.3 s either way."""
        lag = np.nan_to_num(np.abs(self.actions - self.states))
        window = 2 * round(LAG_WINDOW_S * self.episode.fps) + 1
        allowed: Array = maximum_filter1d(lag, window, axis=0, mode="nearest")
        return allowed


def make_plan(
    episode: Episode,
    robot_keys: Sequence[str],
    *,
    speed: float,
    old_convention: bool | None = None,
) -> Plan:
    """Bind an episode to a robot's keys.

    Args:
        episode: The recording.
        robot_keys: ``robot.action_features``.
        speed: See :class:`Plan`.
        old_convention: Whether the values are of before June 2025; None where the user has not said.

    Raises:
        UsageError: The recording has no actions, or its joints are not the robot's.
    """
    recording = episode.recording
    if not episode.actions.shape[1]:
        raise UsageError(f"{recording.label} has no recorded actions to replay.")
    names = recording.joint_names("action")
    mapping = joint_map(robot_keys, names)
    assert names is not None  # else joint_map has refused
    actions, states = episode.actions.astype(np.float64), episode.states.astype(np.float64)
    state_names = (recording.joint_names("observation.state") or ()) if states.shape[1] else ()
    if is_old_convention(names):
        if old_convention is None:
            raise UsageError(
                f"{recording.label} has the joint names of before mid-2025 ({names[0]}, …), when LeRobot's zeros were "
                "others: lift = −(x − 90), elbow = x − 90.",
                "Pass --old_convention=true to convert it so, false if its values are of today's convention.",
            )
        if old_convention:
            actions, states = from_old_convention(actions, names), from_old_convention(states, state_names)
    keys = tuple(mapping.columns)
    found = match(keys, state_names)
    column = {name: i for i, name in enumerate(state_names)}
    measured = np.full((len(actions), len(keys)), np.nan)
    for j, key in enumerate(keys):
        if (name := found[key]) is not None:
            measured[:, j] = states[:, column[name]]
    return Plan(episode, keys, actions[:, [mapping.columns[key] for key in keys]], measured, speed)


def check_plan(plan: Plan, joints: Mapping[str, RobotJoint], max_step: Mapping[str, float]) -> list[Finding]:
    """All checks before anything moves. A finding with status ``fail`` forbids the replay.

    Args:
        plan: See :func:`make_plan`.
        joints: The robot's position keys.
        max_step: Largest change from one command to the next by position key.
    """
    if not np.isfinite(plan.actions).all():
        frame, j = (int(v[0]) for v in np.nonzero(~np.isfinite(plan.actions)))
        text = f"the action of {plan.keys[j]} is not a number from frame {frame} on"
        return [
            Finding("NAN", Status.FAIL, Cause.DATA, plan.keys[j], text, {"frame": frame}, "Choose another episode.")
        ]
    index = [plan.keys.index(key) for key in plan.positions]
    known = [j for j in index if np.isfinite(plan.states[:, j]).all()]
    values, keys = (plan.states, known) if known else (plan.actions, index)
    return [
        check_units(joints, values[:, keys], [plan.keys[j] for j in keys]),
        _check_delta(plan, known),
        _check_seam(plan, joints),
        _check_limits(plan, joints),
        _check_steps(plan, max_step),
    ]


def _check_delta(plan: Plan, known: Sequence[int]) -> Finding:
    """Whether the actions are differences of states instead of goals.

    A goal lies near the state it leads to; a difference near the change of the state, around zero.
    """
    moving = [j for j in known if np.ptp(plan.states[:, j]) > MOVES]
    change = np.diff(plan.states[:, moving], axis=0)
    to_goal = np.abs(plan.actions[:-1, moving] - plan.states[1:, moving]).mean(axis=0)
    to_change = np.abs(plan.actions[:-1, moving] - change).mean(axis=0)
    delta = int((to_change < 0.5 * to_goal).sum())
    evidence = {"joints_like_differences": delta, "joints_moving": len(moving)}
    if not moving:
        text = "without moving recorded states nothing shows whether actions are goals or differences"
        return Finding("UNITS_MISMATCH", Status.UNKNOWN, Cause.UNITS, "action", text, evidence)
    if delta > len(moving) / 2:
        text = f"the actions of {delta} of {len(moving)} moving joints are differences, not positions"
        fix = "Replay a data set of absolute joint positions: a difference sent as a goal throws the arm towards zero."
        return Finding("UNITS_MISMATCH", Status.FAIL, Cause.UNITS, "action", text, evidence, fix)
    return Finding("UNITS_MISMATCH", Status.PASS, Cause.UNITS, "action", "the actions are positions", evidence)


def _check_seam(plan: Plan, joints: Mapping[str, RobotJoint]) -> Finding:
    """Commands that jump by more than half a turn: the joint crosses ±180° and would spin all the way back."""
    jumps = np.abs(np.diff(plan.actions, axis=0))
    for j, key in enumerate(plan.keys):
        if key in joints and joints[key].unit is not Unit.RANGE_M100_100 and not is_gripper(key):
            frame = int(np.argmax(jumps[:, j])) if len(jumps) else 0
            if len(jumps) and jumps[frame, j] > 180:
                text = f"{key} crosses its ±180° seam at frame {frame}: it would turn all the way back"
                fix = "Choose another episode, or recalibrate so that the motion stays on one side of the seam."
                return Finding("WRAP", Status.FAIL, Cause.CALIBRATION, key, text, {"frame": frame}, fix)
    return Finding("WRAP", Status.PASS, Cause.CALIBRATION, "joints", "no joint crosses its ±180° seam")


def _check_limits(plan: Plan, joints: Mapping[str, RobotJoint]) -> Finding:
    beyond = {}
    clipped = 0
    for j, key in enumerate(plan.keys):
        if key in joints:
            low, high = joints[key].bounds
            clipped += int(((plan.actions[:, j] < low) | (plan.actions[:, j] > high)).sum())
            states = plan.states[:, j][np.isfinite(plan.states[:, j])]
            if len(states) and (excess := float(max(low - states.min(), states.max() - high))) > BEYOND:
                beyond[key] = excess
    evidence = {"commands_clipped": clipped, **{f"{key}_beyond": value for key, value in beyond.items()}}
    if beyond:
        worst = max(beyond, key=lambda key: beyond[key])
        text = f"{worst} was recorded {beyond[worst]:.0f} beyond what this arm's calibration lets it reach"
        fix = "Calibrate the arm as it was when recording (compare the calibration files), or check --robot.id."
        return Finding("END_STOP", Status.FAIL, Cause.CALIBRATION, worst, text, evidence, fix)
    if all(np.isinf(joint.bounds).any() for joint in joints.values() if not joint.gripper):
        text = "the robot does not tell its joints' limits: they are not checked"
        return Finding("END_STOP", Status.UNKNOWN, Cause.CALIBRATION, "joints", text, evidence)
    text = f"the recorded motion lies within the joints' limits ({clipped} commands are cut to them)"
    return Finding("END_STOP", Status.PASS, Cause.CALIBRATION, "joints", text, evidence)


def _check_steps(plan: Plan, max_step: Mapping[str, float]) -> Finding:
    """START_JUMP also for jumps in the middle: the arm would be thrown just the same."""
    steps = np.abs(np.diff(plan.actions, axis=0))
    for j, key in enumerate(plan.keys):
        if key in max_step and len(steps) and steps[:, j].max() > max_step[key]:
            frame, step = int(np.argmax(steps[:, j])), float(steps[:, j].max())
            text = f"{key} jumps by {step:.0f} at frame {frame}, the limit is {max_step[key]:g} from command to command"
            fix = (
                f"If the demonstration is meant so: --max_step={np.ceil(step):.0f} (for a gripper --max_gripper_step)."
            )
            evidence = {"step": step, "frame": frame, "limit": max_step[key]}
            return Finding("START_JUMP", Status.FAIL, Cause.DATA, key, text, evidence, fix)
    text = "no recorded command is farther from the one before than the step limit"
    return Finding("START_JUMP", Status.PASS, Cause.DATA, "joints", text)


def plan_table(plan: Plan, joints: Mapping[str, RobotJoint], live: Mapping[str, float] | None = None) -> Table:
    """The plan, joint by joint: where the arm is, where the recording starts, how it goes on."""
    rows = []
    start = plan.pose(0)
    for key in plan.positions:
        j = plan.keys.index(key)
        steps = np.abs(np.diff(plan.actions[:, j]))
        here = "–" if live is None else hundredths(live[key])
        first = "–" if live is None else hundredths(abs(start[key] - live[key]))
        ahead = (steps.max(initial=0.0), plan.actions[:, j].min(), plan.actions[:, j].max())
        later = [hundredths(float(value)) for value in ahead]
        rows.append([key, unit_word(key, joints), here, hundredths(start[key]), first, *later])
    note = (
        f"episode {plan.episode.index}: {len(plan)} commands at {plan.episode.fps * plan.speed:g} Hz "
        f"(recorded at {plan.episode.fps:g}, speed {plan.speed:g}), {plan.duration_s:.1f} s"
    )
    if np.allclose(plan.episode.timestamps, np.arange(len(plan)) / plan.episode.fps, atol=1e-3):
        note += "; its time stamps are counted, not measured: how long the demonstration really took is not known"
    if jumps := plan.jumps():
        worst = max(jumps, key=lambda key: jumps[key])
        degrees = worst in joints and joints[worst].unit is Unit.DEGREES and not is_gripper(worst)
        note += (
            f"; the recording's first action is {jumps[worst]:.0f}{'°' if degrees else ''} ({worst}) from its first "
            "pose; eased to"
        )
    columns = ["joint", "unit", "live", "recorded start", "first step (eased)", "largest step", "least", "most"]
    return Table("Plan", columns, rows, note)


def unit_word(key: str, joints: Mapping[str, RobotJoint]) -> str:
    """A position key's unit for a heading: a symbol, "?" where the robot does not tell."""
    return "0–100" if is_gripper(key) else _UNITS[joints[key].unit] if key in joints else "?"


_UNITS = {
    Unit.DEGREES: "°",
    Unit.RANGE_M100_100: "±100",
    Unit.RADIANS: "rad",
    Unit.TICKS: "ticks",
    Unit.UNKNOWN: "?",
}
