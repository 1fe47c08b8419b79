"""What recorded arrays say about how they were recorded: units, leader, delay, direction, seams, rate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lerobot_diagnostics.diagnose.following import Following, Pair, follow
from lerobot_diagnostics.findings import Cause, Finding, FindingsOf, Status
from lerobot_diagnostics.recording.names import canonical, is_gripper
from lerobot_diagnostics.recording.units import WIDTH_TICKS, Unit, UnitGuess, infer_joint_units
from lerobot_diagnostics.report.format import count_of
from lerobot_diagnostics.robot.calibration import DEGREES_A_TICK, Limits
from lerobot_diagnostics.robot.joints import OLD_CONVENTION, is_old_convention

_data = FindingsOf(Cause.DATA)

DEGREES: Mapping[Unit, float] = {
    Unit.DEGREES: 1.0,
    Unit.RADIANS: 180 / np.pi,
    Unit.TICKS: DEGREES_A_TICK,
    # a range of 200 units is 194 to 230° wide on the joints of a real SO-101
    Unit.RANGE_M100_100: 1.05,
}
"""Degrees in one unit."""

TURN_UNITS: Mapping[Unit, float] = {
    Unit.DEGREES: 360,
    Unit.RADIANS: 2 * np.pi,
    Unit.TICKS: 4096,
    Unit.RANGE_M100_100: 200,
}
"""A whole turn; for ±100 the whole range."""

LEADER_WARN_DEG, LEADER_FAIL_DEG = 4.0, 8.0
"""Real recordings stand 0 to 1.3° apart (record_test, still stretches, all joints); STS3215 servos at P = 16 stand 2–3°
off under load. The case reported in public was 17°."""

WAY_ROUND, FOLLOWING = -0.7, 0.9
"""Correlation of half-second moves. Healthy: 0.6 to 1.0 on the joints of five real and simulated recordings."""

GAIN_WARN, GAIN_FAIL = 1.35, 1.6
"""Healthy joints that follow (correlation above 0.9) move 0.82 to 1.02 of their action in five recordings."""

SEAM = 0.8
"""Share of a turn between two frames: 288° in a thirtieth of a second is no motion (an STS3215 turns 300° a second)."""

FASTEST_DEG_S = 450.0
"""An STS3215 turns 270–300° a second without load; half as fast again is no motion at the stated rate."""

REPEATED = 0.4
"""Share of rows equal to the one before while the arm moves. Real recordings: at most 0.02 (record_test), and 0 in four
others; one recorded at half its stated rate: 0.5."""


def find_units(values: NDArray[Any], names: Sequence[str]) -> dict[str, UnitGuess]:
    """The unit of every joint; one that does not tell, and a gripper, takes the common one of the others, if any."""
    own = infer_joint_units(values, names)
    told = {guess.unit for guess in own.values()} - {Unit.UNKNOWN}
    common = told.pop() if len(told) == 1 else Unit.UNKNOWN
    filled = UnitGuess(common, None, None, 0.0)
    return {name: own[name] if name in own and own[name].unit is not Unit.UNKNOWN else filled for name in names}


def judge_following(pairs: Sequence[Pair], names: Sequence[str], fps: float) -> list[Finding]:
    """LAG, LEADER_OFFSET, SIGN, SCALE, INVERTED: how the recorded states follow the recorded actions.

    Args:
        pairs: Episodes, actions and states of the same J joints.
        names: J joint names.
        fps: Frames a second.
    """
    measured = follow(pairs, fps)
    units = find_units(np.concatenate([p.states for p in pairs]), names)
    findings = [_lag(measured, fps)]
    if measured.copied:
        summary = "Whether leader and follower agree cannot be told: the actions are the recorded states themselves."
        return [*findings, _data("LEADER_OFFSET", Status.UNKNOWN, "action", summary, cause=Cause.CALIBRATION)]
    if measured.lag is None:
        summary = "The states do not follow the actions (delta or velocity actions?): leader and follower not compared."
        return [*findings, _data("LEADER_OFFSET", Status.UNKNOWN, "action", summary, cause=Cause.CALIBRATION)]
    grippers = [j for j, name in enumerate(names) if is_gripper(name)]
    inverted = [j for j in grippers if _is_inverted(pairs, measured, j)]
    found = [_inverted(names[j], pairs, j) for j in inverted]
    for j, name in enumerate(names):
        if j in inverted:
            continue
        r, gain = measured.correlation[j], measured.gain[j]
        evidence = {"correlation": r, "gain": gain, "lag_frames": measured.lag}
        if r < WAY_ROUND:
            summary = f"{name}: the state moves against its action (correlation {r:.2f}): one of the two is reversed."
            fix = f"Check drive_mode of {name} in leader and follower calibration; recorded data need one sign turned."
            found.append(_data("SIGN", Status.FAIL, name, summary, evidence, fix, Cause.CALIBRATION))
        elif r > FOLLOWING and j not in grippers and max(gain, 1 / gain) > GAIN_WARN:
            status = Status.FAIL if max(gain, 1 / gain) > GAIN_FAIL else Status.WARN
            summary = f"{name}: the state moves {gain:.2f} times as far as its action."
            fix = f"Compare the ranges of {name} in leader and follower calibration, and the units of action and state."
            found.append(_data("SCALE", status, name, summary, evidence, fix, Cause.CALIBRATION))
        if j not in grippers:  # a gripper that holds something stands off its goal
            found += _leader(name, measured, j, units[name].unit)
    said = {
        "SIGN": "Every joint that moves goes the way its action does.",
        "SCALE": "Every joint that follows moves about as far as its action.",
        "LEADER_OFFSET": _at_rest(measured, names, grippers),
    }
    if grippers:
        said["INVERTED"] = "The gripper opens where its action opens."
    present = {f.code for f in found}
    passed = [
        _data(c, Status.PASS, "all joints", s, cause=Cause.CALIBRATION) for c, s in said.items() if c not in present
    ]
    return [*findings, *found, *passed]


def _lag(measured: Following, fps: float) -> Finding:
    if measured.copied:
        what = "the recorded state of the next frame" if measured.lag else "the recorded state of the same frame"
        summary = f"action is {what} to the last digit: relabelled states, not the targets a leader gave."
        fix = "On the robot such a policy asks for where it would be anyway: expect slower, weaker motion under load."
        return _data("LAG", Status.INFO, "action", summary, {"lag_frames": measured.lag}, fix)
    if measured.lag is None:
        return _data("LAG", Status.INFO, "action", "The states do not follow the actions as targets: no delay to tell.")
    lag = measured.lag
    evidence: dict[str, Any] = {"lag_frames": lag, "lag_ms": 1000 * lag / fps}
    if lag < 0:
        ahead = f"{count_of(-lag, 'frame')} ({-1000 * lag / fps:.0f} ms)"
        summary = f"The states run ahead of the actions by {ahead}: rows are misaligned."
        fix = "Shift the action column of the data set by that many frames."
        return _data("LAG", Status.WARN, "action", summary, evidence, fix)
    summary = f"The follower trails its action by {count_of(lag, 'frame')} ({1000 * lag / fps:.0f} ms)."
    # a delay is how position control works; it is only to be known when live motion is compared
    return _data("LAG", Status.INFO if lag else Status.PASS, "action", summary, evidence)


def _is_inverted(pairs: Sequence[Pair], measured: Following, j: int) -> bool:
    """A gripper the other way round: moves against its action, or rests at 100 − action."""
    if measured.correlation[j] < WAY_ROUND:
        return True
    a = np.concatenate([p.actions[:, j] for p in pairs])
    s = np.concatenate([p.states[:, j] for p in pairs])
    percent = np.nanmin([a, s]) >= -5 and np.nanmax([a, s]) <= 105 and np.ptp([a, s]) > 20
    # An action near 50 says nothing. Something held leaves the state between closed and open, never at 100 − action.
    return bool(percent and np.nanmedian(np.abs(s - (100 - a))) < 5 and np.nanmedian(np.abs(s - a)) > 20)


def _inverted(name: str, pairs: Sequence[Pair], j: int) -> Finding:
    a, s = (float(np.nanmedian(np.concatenate([getattr(p, side)[:, j] for p in pairs]))) for side in Pair._fields)
    summary = (
        f"{name} is mounted or calibrated the other way round: its state is 100 − action (median {s:.0f} at {a:.0f})."
    )
    fix = f"Calibrate {name} again on leader and follower, closed to open in the same direction."
    evidence = {"median_action": a, "median_state": s}
    return _data("INVERTED", Status.FAIL, name, summary, evidence, fix, Cause.CALIBRATION)


def _leader(name: str, measured: Following, j: int, unit: Unit) -> list[Finding]:
    offset, spread = measured.offset[j], measured.spread[j]
    # a constant is one that poses do not change: gravity and friction do
    if unit is Unit.UNKNOWN or not np.isfinite(offset) or spread > abs(offset) / 3:
        return []
    degrees = abs(offset) * DEGREES[unit]
    if degrees < LEADER_WARN_DEG:
        return []
    status = Status.FAIL if degrees >= LEADER_FAIL_DEG else Status.WARN
    evidence = {
        "offset": offset, "unit": unit.value, "offset_deg": degrees, "spread": spread, "still_s": measured.still[j],
    }  # fmt: skip
    summary = (
        f"{name}: action and state stand {degrees:.1f}° apart wherever the arm rests: leader and follower have "
        "different zeros."
    )
    fix = f"Calibrate leader and follower in the same poses; what was recorded needs {name} corrected by this constant."
    return [_data("LEADER_OFFSET", status, name, summary, evidence, fix, Cause.CALIBRATION)]


def _at_rest(measured: Following, names: Sequence[str], grippers: Sequence[int]) -> str:
    told = [j for j in range(len(names)) if j not in grippers and np.isfinite(measured.offset[j])]
    if not told:
        return "No stretch in which leader and follower rest together; nothing constant shows in motion."
    worst = max(told, key=lambda j: abs(measured.offset[j]))
    return f"At rest action and state differ by at most {abs(measured.offset[worst]):.3g} ({names[worst]})."


def judge_jumps(
    episodes: Sequence[NDArray[Any]], names: Sequence[str], units: Mapping[str, UnitGuess]
) -> list[Finding]:
    """WRAP: a joint that jumps by nearly a whole turn between two frames crosses its seam.

    Args:
        episodes: ``[T, J]`` recorded states (or actions).
        names: J joint names.
        units: From :func:`find_units`.
    """
    found = []
    for j, name in enumerate(names):
        turn = TURN_UNITS.get(units[name].unit)
        if turn is None or is_gripper(name):
            continue
        jumps = [
            (e, int(t))
            for e, values in enumerate(episodes)
            for t in np.flatnonzero(np.abs(np.diff(values[:, j])) > SEAM * turn)
        ]
        if jumps:
            e, t = jumps[0]
            size = abs(float(episodes[e][t + 1, j] - episodes[e][t, j]))
            summary = f"{name} jumps by {size:.0f} between two frames ({len(jumps)} times): it crosses its ±180° seam."
            fix = (
                f"Calibrate {name} with its working range away from the seam; do not replay or train on these episodes."
            )
            evidence = {"jumps": len(jumps), "first_frame": t, "episode_position": e, "jump": size}
            found.append(_data("WRAP", Status.FAIL, name, summary, evidence, fix, Cause.CALIBRATION))
    if found or not any(units[name].unit in TURN_UNITS for name in names):
        return found
    return [_data("WRAP", Status.PASS, "all joints", "No joint jumps across a seam.", cause=Cause.CALIBRATION)]


def judge_rate(
    timestamps: Sequence[NDArray[Any]],
    states: Sequence[NDArray[Any]],
    fps: float,
    names: Sequence[str],
    units: Mapping[str, UnitGuess],
) -> list[Finding]:
    """RATE_SUSPECT: do the rows come at the stated rate?

    Three signs: time stamps of another rate; rows that repeat while the arm moves (the reader was slower than the
    writer); joints faster than a servo can turn (frames are missing, or the stated rate is too high).

    Args:
        timestamps: ``[T]`` seconds of each episode.
        states: ``[T, J]`` of each episode.
        fps: As stated.
        names: J joint names.
        units: From :func:`find_units`.
    """
    found = []
    steps = np.concatenate([np.diff(t) for t in timestamps]) if timestamps else np.zeros(0)
    if len(steps):
        real, worst = float(np.median(steps)), float(steps.max())
        evidence = {"stated_fps": fps, "median_step_ms": 1000 * real, "longest_step_ms": 1000 * worst}
        if steps.min() <= 0 or abs(real * fps - 1) > 0.05:
            said = f"{1 / real:.1f} fps" if real > 0 else "no rate at all"
            summary = f"Time stamps give {said}, meta/info.json says {fps:g}."
            fix = "Correct fps in meta/info.json, or the timestamp column."
            found.append(_data("RATE_SUSPECT", Status.FAIL, "time stamps", summary, evidence, fix))
        elif worst * fps > 1.5:
            summary = f"Time stamps have gaps of up to {1000 * worst:.0f} ms at {fps:g} fps: frames are missing."
            found.append(_data("RATE_SUSPECT", Status.WARN, "time stamps", summary, evidence))
    share = repeated_share(states)
    if share > REPEATED:
        summary = (
            f"{share:.0%} of the rows repeat the one before while the arm moves: the states were read at about "
            f"{fps * (1 - share):.0f} fps, not {fps:g}."
        )
        fix = "Record at a rate the loop reaches (--dataset.fps), and look for a slow camera."
        found.append(_data("RATE_SUSPECT", Status.WARN, "states", summary, {"repeated_share": share}, fix))
    found += _too_fast(states, fps, names, units)
    if found:
        return found
    return [_data("RATE_SUSPECT", Status.PASS, "data set", f"Rows come at the stated {fps:g} fps.")]


def repeated_share(states: Sequence[NDArray[Any]]) -> float:
    """Share of rows equal to the one before in stretches of five rows in which the arm moves."""
    same, moving = [], []
    for values in states:
        if len(values) < 6 or not values.shape[1]:
            continue
        equal = (np.diff(values, axis=0) == 0).all(axis=1)
        changed = np.lib.stride_tricks.sliding_window_view(~equal, 5)
        # moves before and after, so that the start and end of a pause do not count
        active = changed[:, 0] | changed[:, 1]
        active &= changed[:, 3] | changed[:, 4]
        same.append(equal[2:-2])
        moving.append(active)
    if not same:
        return 0.0
    active = np.concatenate(moving)
    return float(np.concatenate(same)[active].mean()) if active.sum() >= 20 else 0.0


def _too_fast(
    states: Sequence[NDArray[Any]], fps: float, names: Sequence[str], units: Mapping[str, UnitGuess]
) -> list[Finding]:
    found = []
    for j, name in enumerate(names):
        unit = units[name].unit
        if unit is Unit.UNKNOWN or unit is Unit.RADIANS or is_gripper(name):  # radians: arms with other motors
            continue
        step = np.concatenate([np.abs(np.diff(values[:, j])) for values in states])
        step = step[step < SEAM * TURN_UNITS[unit]]  # a seam is another fault
        speed = float(np.percentile(step, 99.5)) * DEGREES[unit] * fps if len(step) else 0.0
        if speed > FASTEST_DEG_S:
            summary = f"{name} moves at {speed:.0f}° a second, which no servo does: {fps:g} fps is too high."
            fix = "Check fps in meta/info.json, and whether frames were dropped while recording."
            found.append(_data("RATE_SUSPECT", Status.WARN, name, summary, {"speed_deg_s": speed}, fix))
    return found


def judge_conventions(names: Sequence[str], *, robot: bool) -> list[Finding]:
    """OLD_CONVENTION: joints named, and angles counted, as before June 2025.

    Args:
        names: Recorded joint names.
        robot: Whether a robot of today is to execute them.
    """
    if not is_old_convention(names):
        return []
    said = ", ".join(
        f"{j} = {'−' if k < 0 else ''}(x {'+' if k * c > 0 else '−'} {abs(c):g})"
        for j, (k, c) in OLD_CONVENTION.items()
    )
    summary = f"Names such as {names[0]} are from before June 2025, when angles had other zeros: today's are {said}."
    fix = (
        "Convert the data set with this mapping before comparing it with, or replaying it on, an arm calibrated today; "
        "a policy trained on it needs the same."
    )
    status = Status.FAIL if robot else Status.WARN
    return [_data("OLD_CONVENTION", status, "joints", summary, {"mapping": said}, fix, Cause.UNITS)]


def judge_unit_pair(actions: Mapping[str, UnitGuess], states: Mapping[str, UnitGuess]) -> list[Finding]:
    """UNITS_MISMATCH between the recorded actions and the recorded states, told by their quanta."""
    by_joint = {canonical(name): guess for name, guess in states.items()}
    both = {
        name: (guess.unit, by_joint[canonical(name)].unit)
        for name, guess in actions.items()
        if canonical(name) in by_joint and not is_gripper(name)
    }
    told = {name: pair for name, pair in both.items() if Unit.UNKNOWN not in pair}
    if not told:
        summary = "The values do not tell their unit (rounded, filtered, simulated, or too little motion)."
        fix = "See how the arm was recorded: degrees need --robot.use_degrees=true, ±100 needs false."
        return [_data("UNITS_MISMATCH", Status.UNKNOWN, "joints", summary, {}, fix, Cause.UNITS)]
    wrong = [name for name, (a, s) in told.items() if a is not s]
    evidence: dict[str, Any] = {name: f"{a.value} / {s.value}" for name, (a, s) in told.items()}
    # one joint may lie on two lattices by chance; a setting concerns all
    if len(wrong) > len(told) / 2:
        a, s = told[wrong[0]]
        summary = f"Actions are in {a.value}, states in {s.value}: leader and follower were set differently."
        fix = "Set use_degrees alike for --robot and --teleop, and record again."
        return [_data("UNITS_MISMATCH", Status.FAIL, "joints", summary, evidence, fix, Cause.UNITS)]
    units = sorted({s.value for _, s in told.values()})
    summary = f"Actions and states are both in {', '.join(units)} ({len(told)} joints tell)."
    return [_data("UNITS_MISMATCH", Status.PASS, "joints", summary, evidence, cause=Cause.UNITS)]


def judge_default_unit(states: Mapping[str, UnitGuess], robot_type: str | None) -> list[Finding]:
    """UNITS_MISMATCH where no robot was named: recorded in a unit that an SO arm of today is not set to by itself.

    Args:
        states: Units of the recorded states.
        robot_type: As recorded.
    """
    units = [guess.unit for name, guess in states.items() if not is_gripper(name)]
    told = {unit for unit in units if unit in {Unit.RANGE_M100_100, Unit.TICKS}}
    if (
        not (robot_type or "").startswith(("so", "bi_so"))
        or len(told) != 1
        or units.count(next(iter(told))) < len(units) / 2
    ):
        return []
    unit = told.pop()
    evidence = {"recorded": unit.value, "joints": units.count(unit)}
    if unit is Unit.TICKS:
        summary = (
            "Recorded in raw servo ticks, which no LeRobot arm takes as a goal: they mean a pose on that arm only."
        )
        fix = "Convert with the arm's calibration before replaying it or running a policy trained on it."
    else:
        summary = "Recorded in ±100 of each joint's range; LeRobot's SO arms are set to degrees since 0.4.4."
        fix = "Pass --robot.use_degrees=false wherever this data set, or a policy trained on it, meets an arm."
    return [_data("UNITS_MISMATCH", Status.WARN, "robot setting", summary, evidence, fix, Cause.UNITS)]


WIDTH_FAIL = 0.03
"""3 units at the end of a ±100 range, a servo's own standing error."""


def judge_widths(states: Mapping[str, UnitGuess], calibration: Mapping[str, Limits]) -> list[Finding]:
    """ZERO_CHANGED by the recorded range width: ±100 values carry the width of the range they were calibrated to.

    Args:
        states: Units of the recorded *states* (actions carry the leader's widths).
        calibration: The follower's, today.
    """
    today = {canonical(name): limits for name, limits in calibration.items()}
    found, compared = [], 0
    for name, guess in states.items():
        limits = today.get(canonical(name))
        if limits is None or guess.range_width_ticks is None or guess.unit is not Unit.RANGE_M100_100:
            continue
        compared += 1
        if abs(guess.range_width_ticks - limits.width) <= WIDTH_TICKS:
            continue
        ratio = limits.width / guess.range_width_ticks
        evidence = {"recorded_width_ticks": guess.range_width_ticks, "width_ticks": limits.width, "ratio": ratio}
        summary = (
            f"{name} was recorded with a range of {guess.range_width_ticks} ticks, today's calibration has "
            f"{limits.width}: it has been calibrated since, and the same value is now {abs(ratio - 1):.1%} "
            f"{'more' if ratio > 1 else 'less'} motion."
        )
        fix = "Restore the calibration file of the recording; lerobot-setup-snapshot keeps one."
        status = Status.FAIL if abs(ratio - 1) > WIDTH_FAIL else Status.WARN
        found.append(_data("ZERO_CHANGED", status, name, summary, evidence, fix, Cause.CALIBRATION))
    if compared and not found:
        summary = f"The recorded ranges of {compared} joints are those of today's calibration, to the tick."
        found.append(_data("ZERO_CHANGED", Status.PASS, "all joints", summary, cause=Cause.CALIBRATION))
    return found


def judge_finite(episodes: Mapping[int, Mapping[str, NDArray[Any]]]) -> list[Finding]:
    """NAN in recorded vectors.

    Args:
        episodes: ``{episode: {feature: [T, …]}}``.
    """
    found = []
    for index, features in episodes.items():
        for key, values in features.items():
            bad = ~np.isfinite(values).reshape(len(values), -1).all(axis=1)
            if bad.any():
                summary = (
                    f"{key} of episode {index} is not a number in {bad.sum()} frames, from frame {np.argmax(bad)} on."
                )
                fix = f"Leave episode {index} out of training."
                evidence = {"frames": int(bad.sum()), "first_frame": int(np.argmax(bad))}
                found.append(_data("NAN", Status.FAIL, f"episode {index}", summary, evidence, fix))
    return found
