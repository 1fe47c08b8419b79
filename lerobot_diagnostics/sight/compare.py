"""Calibration by sight: the arm's place in the pictures now against the recording's, at known joint readings.

Offline, two recordings are compared; live, the arm is driven to recorded poses by whoever calls, one at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Finding, Status
from lerobot_diagnostics.recording import Recording
from lerobot_diagnostics.recording.names import canonical, match
from lerobot_diagnostics.recording.units import TURN, WIDTH_TICKS, Unit, UnitGuess, infer_joint_units
from lerobot_diagnostics.robot.calibration import DEGREES_A_TICK, FULL_TURN
from lerobot_diagnostics.robot.joints import from_old_convention, is_old_convention
from lerobot_diagnostics.sight.camera import Array
from lerobot_diagnostics.sight.explain import explain
from lerobot_diagnostics.sight.model import JOINTS, Arm
from lerobot_diagnostics.sight.play import Play, measure_play, zeros_of
from lerobot_diagnostics.sight.shift import Shift, shift_of
from lerobot_diagnostics.sight.solve import LEAST_POSES, POOL, POSES, CannotTellError, Solved, solve_camera, spread
from lerobot_diagnostics.sight.verdicts import judge, undecided
from lerobot_diagnostics.vision import background_of, nearest_states
from lerobot_diagnostics.vision.images import Picture

MOST_EPISODES = 20
MOVES_ALONG = "it moves with the arm"
STILLER = 0.5
"""Share of the frames, the slowest, that poses are chosen from: a picture and a reading are never of one instant."""


class Poses(NamedTuple):
    """Pictures at known joint readings.

    Args:
        readings: [N, 6] in the order of :data:`~lerobot_diagnostics.sight.model.JOINTS`: degrees, gripper 0–100.
        pictures: By camera, N × [H, W, 3] uint8 RGB.
    """

    readings: Array
    pictures: Mapping[str, Sequence[Picture]]


Ranges = Mapping[str, Mapping[str, int]]
"""``range_min`` and ``range_max`` in ticks by joint, of an arm's calibration."""

Capture = Callable[[Array, Array], tuple[Array, Mapping[str, Picture]]]
"""Takes a recorded pose [6] and for each joint [6] the side to come from (+1 from above, −1 from below, 0: either),
brings the arm there if it can, and returns what the joints read [6] and the pictures."""


class Compared(NamedTuple):
    """What the pictures say of an arm now, against a recording.

    Args:
        findings: JOINT_OFFSET or BASE_MOVED, failed or passed, or UNDECIDED with the reason.
        zeros: By joint, how much more it reads in the same place, and two standard errors; empty where the pictures do
            not tell, or where the base has moved.
        play: By joint; empty where it was not measured.
    """

    findings: list[Finding]
    zeros: Mapping[str, tuple[float, float]] = {}
    play: Mapping[str, Play] = {}


def compare_poses(before: Poses, after: Poses) -> Compared:
    """Judge the arm's zeros and base by what fixed cameras saw before and see now.

    Args:
        before: Some 30 poses, the farthest apart first (see :func:`~lerobot_diagnostics.sight.solve.spread`).
        after: At least four poses, better ten; near the first of ``before`` where possible.

    Raises:
        UsageError: The extra ``sim``, which brings the arm's model, is not installed.
    """
    with closing(Arm()) as arm:
        solved, reasons = _solve(arm, before, [camera for camera in before.pictures if camera in after.pictures])
        return _judge(arm, solved, reasons, before, after)


def compare_recordings(
    before: Recording,
    after: Recording,
    *,
    cameras: Collection[str] | None = None,
    episodes: Sequence[int] | None = None,
    episodes_after: Sequence[int] | None = None,
) -> Compared:
    """Compare two recordings of one setup: has a joint's zero or the base moved between them?

    Args:
        before: While it worked.
        after: Now.
        cameras: Keys of the cameras to use; all that both have by default.
        episodes, episodes_after: Episodes to use; up to 20 spread over each recording by default.

    Raises:
        UsageError: No camera in common, or the extra ``sim`` is not installed.
    """
    shared = [key for key in before.cameras if key in after.cameras and (cameras is None or key in cameras)]
    if not shared:
        raise UsageError(
            f"{before.label} and {after.label} have no camera in common.",
            f"There are: {', '.join(before.cameras) or 'none'}; and {', '.join(after.cameras) or 'none'}.",
        )
    try:
        reference = recorded_poses(before, shared, episodes)
        now = recorded_poses(after, shared, episodes_after, near=reference.readings[:POSES])
    except CannotTellError as reason:
        return Compared([undecided("arm", f"Cannot compare by sight: {reason}.", {})])
    return compare_poses(reference, now)


def compare_live(before: Poses, capture: Capture, poses: Array, sides: Array) -> Compared:
    """Compare a recording with the live arm.

    Args:
        before: See :func:`recorded_poses`.
        capture: See :data:`Capture`; an exception that it raises passes through.
        poses: [M, 6] where to drive, in this order (see :func:`~lerobot_diagnostics.sight.driving.clearest`).
        sides: [M, 6] for each pose the side to approach it from, and then once more from the opposite one, so that
            play shows (see :func:`~lerobot_diagnostics.sight.driving.both_sides`); zeros: it is gone to once.

    Raises:
        UsageError: The extra ``sim`` is not installed.
    """
    with closing(Arm()) as arm:
        solved, reasons = _solve(arm, before, list(before.pictures))
        if not solved:  # then nothing needs to move
            return Compared([_cannot(reasons)])
        ways = [
            (pose, way * side)
            for pose, side in zip(poses, sides, strict=True)
            for way in ((1, -1) if side.any() else (1,))
        ]
        taken = [capture(pose, side) for pose, side in ways]
        readings = np.array([reading for reading, _ in taken])
        cameras = [camera for camera in before.pictures if all(camera in seen for _, seen in taken)]
        pictures = {camera: [seen[camera] for _, seen in taken] for camera in cameras}
        compared = _judge(arm, solved, reasons, before, Poses(readings, pictures))
        twice = sides.any(axis=1)
        if not compared.zeros or twice.sum() < LEAST_POSES:
            return compared
        side = sides[twice][0]
        first, second = (
            [i for i, (_, came) in enumerate(ways) if came.any() and (came == way * side).all()] for way in (1, -1)
        )
        after = {camera: (readings, pictures[camera]) for camera in cameras if camera in solved}
        try:
            play = measure_play(arm, {name: solved[name] for name in after}, after, side, first, second)
        except CannotTellError:  # the zeros are told all the same
            return compared
        return compared._replace(play=play)


def recorded_poses(
    recording: Recording,
    cameras: Sequence[str],
    episodes: Sequence[int] | None = None,
    near: Array | None = None,
    calibration: Ranges = MappingProxyType({}),
) -> Poses:
    """Poses of a recording and their pictures, as far apart as possible.

    Args:
        recording: A data set of an SO-100 or SO-101.
        cameras: Keys of the cameras.
        episodes: Up to 20 spread over the recording by default.
        near: [K, 6] poses whose nearest are taken first.
        calibration: Of an arm, perhaps the one that recorded: the ranges of joints in ±100 that hardly move.

    Raises:
        CannotTellError: Joints or units are not those of an SO-100/SO-101 in degrees or ±100.
    """
    if episodes is None:
        every = recording.episode_indices
        episodes = np.unique(np.linspace(0, len(every) - 1, min(len(every), MOST_EPISODES)).astype(int)).tolist()
    opened = [recording.episode(index) for index in episodes]
    states = _in_degrees(recording, [np.asarray(episode.states, float) for episode in opened], calibration)
    rows = pick(states, near)
    start = np.cumsum([0, *map(len, states)])
    owner = np.searchsorted(start, rows, side="right") - 1
    pictures: dict[str, list[Picture]] = {}
    for camera in cameras:
        seen: dict[int, Picture] = {}
        for number, episode in enumerate(opened):
            own = np.sort(rows[owner == number])
            seen |= dict(zip(own.tolist(), episode.frames(camera, own - start[number]), strict=True))
        pictures[camera] = [seen[int(row)] for row in rows]
    return Poses(np.concatenate(states)[rows], pictures)


def pick(episodes: Sequence[Array], near: Array | None = None) -> NDArray[np.intp]:
    """Rows of the concatenated states to look at, as far apart as possible: first slow ones, to be compared, then more
    for the background.

    Args:
        episodes: [T, 6] states each.
        near: [K, 6] poses whose nearest are taken first.
    """
    speed = np.concatenate([np.abs(np.gradient(states, axis=0)).max(axis=1) for states in episodes])
    states = np.concatenate(episodes)
    calm = np.flatnonzero(speed <= np.quantile(speed, STILLER))
    if near is None:
        first = spread(states[calm], POSES)
    else:
        first = list(dict.fromkeys(int(nearest_states(states[calm], pose)[0][0]) for pose in near))
    return np.array(spread(states, POOL, calm[first].tolist()))


def _in_degrees(recording: Recording, episodes: Sequence[Array], calibration: Ranges) -> list[Array]:
    """[T, 6] of each episode in the order of JOINTS: degrees, gripper 0–100.

    Values of ±100 tell by their quantum how many ticks the range has that they are shares of, and so the angle; it is
    another one in episodes before and after a calibration.
    """
    names = recording.state_names
    found = match(JOINTS, names)
    if missing := [joint for joint, name in found.items() if name is None]:
        raise CannotTellError(
            f"{recording.label} has no joint {', '.join(missing)}; the model at hand is that of one SO-100 or SO-101"
        )
    columns = [names.index(str(found[joint])) for joint in JOINTS]
    values = [states[:, columns] for states in episodes]
    guesses = [infer_joint_units(states, JOINTS) for states in values]
    units = Counter(guess.unit for told in guesses for guess in told.values())
    for unit in (Unit.RADIANS, Unit.TICKS):
        if units[unit] > units[Unit.DEGREES] + units[Unit.RANGE_M100_100]:
            raise CannotTellError(f"{recording.label} is in {unit}; degrees or ±100 are needed")
    if units[Unit.RANGE_M100_100] <= units[Unit.DEGREES]:
        if is_old_convention(names):
            return [from_old_convention(states, JOINTS) for states in values]
        return values
    widths = [{joint: ticks for joint, guess in told.items() if (ticks := _width(guess))} for told in guesses]
    usual = {joint: {own[joint] for own in widths if joint in own} for joint in JOINTS[:-1]}
    known = _ranges_of(calibration, usual)
    result = []
    for states, own in zip(values, widths, strict=True):
        degrees = states.copy()
        for column, joint in enumerate(JOINTS[:-1]):
            ticks = own.get(joint) or (min(usual[joint]) if len(usual[joint]) == 1 else known.get(joint))
            if ticks is None:
                raise CannotTellError(
                    f"{recording.label} is in ±100, and {joint} moves too little to tell of what range"
                )
            degrees[:, column] *= ticks / 200 * DEGREES_A_TICK
        result.append(degrees)
    return result


def _width(guess: UnitGuess) -> int | None:
    """Ticks of the range that values of ±100 are shares of. One of 2275 ticks is told as degrees: a share is one."""
    return round(200 / DEGREES_A_TICK) if guess.unit is Unit.DEGREES else guess.range_width_ticks


def _ranges_of(calibration: Ranges, told: Mapping[str, Collection[int]]) -> dict[str, int]:
    """Ticks of the joints' ranges by a calibration, if it is that of the recording, as far as the recording tells.

    A wrist's roll LeRobot lets turn all the way, without measuring its range.
    """
    ranges = {canonical(key): entry["range_max"] - entry["range_min"] for key, entry in calibration.items()}
    theirs = all(abs(ranges.get(joint, width) - width) <= WIDTH_TICKS for joint in told for width in told[joint])
    turning = {joint: TURN - 1 for joint in told if any(part in joint for part in FULL_TURN)}
    return turning | (ranges if theirs else {})


def _solve(arm: Arm, before: Poses, cameras: Sequence[str]) -> tuple[dict[str, Solved], dict[str, str]]:
    """The cameras that can be solved, and why the others cannot."""
    solved, reasons = {}, {}
    for camera in cameras:
        pictures = before.pictures[camera]
        try:
            if len(pictures) >= 3 and background_of(pictures[:POSES]).mask is None:
                raise CannotTellError(MOVES_ALONG)
            solved[camera] = solve_camera(arm, before.readings, pictures)
        except CannotTellError as reason:
            reasons[camera] = str(reason)
    return solved, reasons


def _judge(arm: Arm, solved: Mapping[str, Solved], reasons: Mapping[str, str], before: Poses, after: Poses) -> Compared:
    usable = {camera: one for camera, one in solved.items() if camera in after.pictures}
    try:
        if usable:
            explained = explain(arm, usable, {camera: (after.readings, after.pictures[camera]) for camera in usable})
            findings = judge(explained, usable)
            told = all(f.code == "JOINT_OFFSET" or f.status is Status.PASS for f in findings)
            return Compared(findings, zeros_of(explained) if told else {})
    except CannotTellError as reason:
        reasons = {**reasons, "now": str(reason)}
    shifts = {
        camera: shift_of(before.readings, before.pictures[camera], after.readings, pictures)
        for camera, pictures in after.pictures.items()
        if camera in before.pictures and reasons.get(camera) != MOVES_ALONG
    }
    return Compared([_cannot(reasons, shifts)])


def _cannot(reasons: Mapping[str, str], shifts: Mapping[str, Shift] | None = None) -> Finding:
    why = "; ".join(f"{camera}: {reason}" for camera, reason in reasons.items()) or "no camera in common"
    seen = {camera: shift for camera, shift in (shifts or {}).items() if shift.found}
    shown = "".join(
        f" A shift is seen: at the same joint readings {camera} shows the arm {shift.pixels:.0f} px (of 320) from "
        f"where it was in {shift.displaced} of {shift.pairs} poses."
        for camera, shift in seen.items()
    )
    evidence = {"reasons": dict(reasons), "shifts": {camera: shift._asdict() for camera, shift in seen.items()}}
    return undecided("arm", f"Cannot attribute by sight: {why}.{shown}", evidence)
