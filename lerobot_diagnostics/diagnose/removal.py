"""The remove-the-object rung: with the object gone, does the policy still go to the same place?

It is asked where recorded episodes start. There the joints read the same wherever the object lies, so that only the
pictures can tell where to go. What it predicts is compared and never sent.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from lerobot_diagnostics.camera_names import camera_name
from lerobot_diagnostics.diagnose.attribution import OBJECT
from lerobot_diagnostics.diagnose.ladder import Outcome
from lerobot_diagnostics.diagnose.motion import SPEED, Driver, MotionEndedError, way_ended
from lerobot_diagnostics.diagnose.views import live_state
from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Cause, Finding, Status, Table
from lerobot_diagnostics.findings import Picture as Shown
from lerobot_diagnostics.openloop.checkpoint import LoadedPolicy
from lerobot_diagnostics.openloop.evaluate import Binding, bind
from lerobot_diagnostics.openloop.predict import Mode, Predictor, plan_execution
from lerobot_diagnostics.openloop.scores import spread
from lerobot_diagnostics.recording import Episode, Recording
from lerobot_diagnostics.recording.episode import STATE
from lerobot_diagnostics.recording.names import is_gripper
from lerobot_diagnostics.replay.plan import check_plan, make_plan
from lerobot_diagnostics.replay.session import poses
from lerobot_diagnostics.report.write import atomic_file, file_name
from lerobot_diagnostics.robot.arm import Arm, Reading
from lerobot_diagnostics.robot.joints import joint_map
from lerobot_diagnostics.robot.kinematics import tools_of
from lerobot_diagnostics.robot.move import STOPPED, Ending
from lerobot_diagnostics.vision import nearest_states
from lerobot_diagnostics.vision.workspace import LEAST_AREA, largest_change

Array = NDArray[np.float64]
Pixels = NDArray[np.uint8]

LOOKS, GAP_S = 4, 0.2
"""Observations with the object and as many without, so far apart that a camera of 5 fps has a new picture for each."""
SETTLE_S = 1.0
"""From ENTER to the first of them: exposure settles, and hands leave the picture."""
EPISODES, FEWEST = 30, 4
"""Recorded episodes compared, at most, and how many must start where this one does."""
NEARBY = 0.15
"""Distance of a start from the usual one, over the joints' ranges (``vision.nearest_states``). Of three teleoperated
sets 3 of 4, 11 of 25 and 0 of 8 episodes start so near; in simulated ones all do, exactly."""
LEAST_MM, LEAST_PERCENT = 10.0, 3.0
"""What recorded ways must differ by at least, so that a tenth of it (:data:`SAME`) is more than a policy's noise: under
0.7 mm in the draws below. The per cent are a choice: no arm of unknown geometry was tried."""
SAME, ELSEWHERE = 0.1, 0.25
"""Motions apart by under a tenth of what recorded ways differ by go to the same place, by a quarter or more elsewhere.
``benchmarks/remove_object.py`` (simulated arm, cube within 1.5 or 3 cm, light ±12 %, noisy pictures, 1 or 2 s
predicted), 60 draws of policies that look: 0.37 to 5.7; 120 of some trained on other moments' pictures or without eyes:
0.002 to 0.050. None was judged wrongly; in six the recorded ways differed by too little."""
SURE = 3.0
"""How many times its noise a motion must be apart to be elsewhere: 25 times and more where policies looked."""
MOVES = 0.5
"""Share of the recorded motion that must be predicted: 0.6 to 1.4 by trained policies, 0.2 and less by untrained."""


class Ruler(NamedTuple):
    """How far apart two motions are.

    Attributes:
        unit: Of distances.
        least: Distance under which recorded motions count as one.
        places: Makes points ``[..., M, D]`` of actions ``[..., J]`` in recorded order: M tools in mm, or all joints.
    """

    unit: str
    least: float
    places: Callable[[Array], Array]


def ruler_for(arm: Arm, names: Sequence[str] | None, recorded: Array) -> Ruler:
    """Millimetres at the tool where the arm's geometry is known, else the joints' recorded ranges; no grippers.

    Args:
        arm: Gives joints and units.
        names: Of the recorded actions.
        recorded: ``[N, J]`` recorded actions.

    Raises:
        UsageError: The recorded joints are not the robot's.
    """
    mapping = joint_map(list(arm.robot.action_features), names)
    columns = {key: c for key, c in mapping.columns.items() if key in arm.joints and not is_gripper(key)}
    tools = tools_of(arm.robot)
    if tools is not None:
        scale = {key: arm.joints[key].degrees(1.0) for key in columns}
        return Ruler(
            "mm",
            LEAST_MM,
            lambda rows: 1000 * tools({key: rows[..., c] * scale[key] for key, c in columns.items()}),
        )
    moving = [c for c in columns.values() if np.ptp(recorded[:, c]) > 0]
    share = 100 / np.ptp(recorded[:, moving], axis=0) / np.sqrt(max(len(moving), 1))
    return Ruler("% of the joints' range", LEAST_PERCENT, lambda rows: (rows[..., moving] * share)[..., None, :])


def farthest(points: Array) -> Array:
    """Length of the longest of vectors ``[..., H, M, D]``: ``[...]``."""
    longest: Array = np.linalg.norm(points, axis=-1).max(axis=(-2, -1))
    return longest


def ways_apart(a: Array, b: Array) -> float:
    """How far one way strays from another, whatever their pace: ``[H, M, D]`` and ``[H', M, D]``.

    Directed Hausdorff distances, the smaller of the two: people start and move sooner or later, and a way that has
    only come to the middle of another does not stray from it.
    """
    gaps = np.linalg.norm(a[:, None] - b[None], axis=-1)
    return float(np.minimum(gaps.min(axis=1).max(axis=0), gaps.min(axis=0).max(axis=0)).max())


class CannotCompareError(Exception):
    """The recording gives no measure of what the object does to a motion; the message says why."""


class Start(NamedTuple):
    """Where the policy is asked.

    Attributes:
        episode: Its first frame.
        moves: How far its recorded way goes from its first action.
        differ: Median distance of this way to those of the others that start there.
        near: Episodes that start there, this one included.
    """

    episode: Episode
    moves: float
    differ: float
    near: int


def choose_start(episodes: Sequence[Episode], ruler: Ruler, horizon: int) -> Start:
    """The episode whose recorded way differs most from the others' that start nearby, beyond what their starts differ.

    A policy that no longer finds the object may go where it went most often: of an object in the middle of its places
    nothing would be seen.

    Args:
        episodes: With states and actions.
        ruler: See :func:`ruler_for`.
        horizon: Frames compared.

    Raises:
        CannotCompareError: Too few episodes start at one pose, or they do not differ.
    """
    rows = np.concatenate([episode.states for episode in episodes])
    first = np.cumsum([0, *(len(episode) for episode in episodes)])[:-1]
    order, distances = nearest_states(rows, np.median(rows[first], axis=0), len(rows))
    away = np.empty(len(rows))
    away[order] = distances
    near = [episodes[i] for i, row in enumerate(first) if away[row] <= NEARBY]
    if len(near) < FEWEST:
        raise CannotCompareError(f"only {len(near)} of {len(episodes)} recorded episodes start near one pose")
    ways = [ruler.places(episode.actions[:horizon].astype(np.float64)) for episode in near]
    apart = np.full((len(near), len(near)), np.nan)
    for i, way in enumerate(ways):
        for j in range(i):
            beyond = ways_apart(way, ways[j]) - farthest(way[:1] - ways[j][:1])
            apart[i, j] = apart[j, i] = max(0.0, float(beyond))
    differ = np.nanmedian(apart, axis=1)
    chosen = int(np.argmax(differ))
    if differ[chosen] < ruler.least:
        raise CannotCompareError(
            f"recorded episodes that start near one pose differ by only {_length(differ[chosen], ruler.unit)} within "
            f"the {horizon / near[0].fps:.1f} s that the policy predicts at a look"
        )
    way = ways[chosen]
    return Start(near[chosen], float(farthest(way - way[0])), float(differ[chosen]), len(near))


@contextlib.contextmanager
def whole_chunks(loaded: LoadedPolicy) -> Iterator[None]:
    """Let the policy answer with all it predicts at a look, not only what it executes before the next."""
    config = loaded.config
    whole = {"n_action_steps": getattr(config, "chunk_size", None), "temporal_ensemble_coeff": None}
    before = {name: getattr(config, name) for name in whole if hasattr(config, name)} if whole["n_action_steps"] else {}
    try:
        for name in before:
            setattr(config, name, whole[name])
        loaded.policy.reset()
        yield
    finally:
        for name, value in before.items():
            setattr(config, name, value)
        loaded.policy.reset()


def judge_removal(
    driver: Driver,
    loaded: LoadedPolicy,
    recording: Recording,
    episodes: Sequence[int],
    cameras: Mapping[str, str],
    folder: Path,
) -> Outcome:
    """Ask the policy at a recorded start with the object there, then with it gone, and compare what it would do.

    Args:
        driver: See :func:`~lerobot_diagnostics.diagnose.motion.driving`; somebody must be there.
        loaded: The policy.
        recording: The data set.
        episodes: Episodes to choose a start from.
        cameras: ``{recorded key: live camera}`` of those whose view is right.
        folder: Where pictures go.

    Raises:
        UsageError: Policy, recording and robot do not fit, or there is no safe way to the start.
    """
    binding = bind(recording, loaded)
    if not episodes:
        return cannot("no episode has its pictures here")
    if not binding.cameras:
        return cannot("the policy takes no pictures")
    if lost := [camera_name(key) for key in binding.cameras if key not in cameras]:
        return cannot(f"{', '.join(lost)} does not show its recorded view")
    if spare := [key for key in binding.vectors if key != STATE]:
        return cannot(f"the policy also takes {', '.join(spare)}, which is not read from this arm")
    with whole_chunks(loaded):
        plan = plan_execution(loaded)
        if plan.mode is not Mode.CHUNKS or plan.horizon < 2:
            return cannot(f"the policy predicts one action at a time{f' ({plan.note})' if plan.note else ''}")
        known = [recording.episode(index) for index in spread(list(episodes), EPISODES)]
        actions = np.concatenate([episode.actions for episode in known]).astype(np.float64)
        ruler = ruler_for(driver.arm, recording.joint_names("action"), actions)
        try:
            start = choose_start(known, ruler, plan.horizon)
        except CannotCompareError as reason:
            return cannot(str(reason))

        def ask(readings: Sequence[Reading]) -> Array:
            chunks = []
            for seed, reading in enumerate(readings):  # the same noise in both groups
                look = _observation(reading, start.episode, cameras, binding)
                chunks.append(Predictor(loaded, plan, seed).chunks([look] * (plan.history + 1))[0])
            return np.stack(chunks).astype(np.float64)

        return _drive_and_ask(driver, start, ruler, ask, {key: cameras[key] for key in binding.cameras}, folder)


def _observation(reading: Reading, episode: Episode, cameras: Mapping[str, str], binding: Binding) -> dict[str, Any]:
    """One row as :func:`~lerobot_diagnostics.openloop.evaluate.observe` makes it of recorded frames."""
    row: dict[str, Any] = {key: reading.pictures[cameras[key]][None] for key in binding.cameras}
    if STATE in binding.vectors:
        state = live_state(episode.recording, reading.joints)
        if state is None:
            raise UsageError(
                f"the robot's joints are not the recorded ones ({', '.join(episode.state_names)}).",
                "Choose the --robot.type that recorded this data set.",
            )
        row[STATE] = state[None].astype(np.float32)
    return {**row, "task": [episode.task], "robot_type": episode.recording.robot_type or ""}


def _drive_and_ask(
    driver: Driver,
    start: Start,
    ruler: Ruler,
    ask: Callable[[Sequence[Reading]], Array],
    cameras: Mapping[str, str],
    folder: Path,
) -> Outcome:
    arm, player, desk = driver.arm, driver.player, driver.desk
    episode = start.episode
    plan = make_plan(episode, list(arm.robot.action_features), speed=1.0)
    checks = check_plan(plan, arm.joints, arm.max_step)
    # START_JUMP is about playing the recorded actions.
    if forbids := [f for f in checks if f.status is Status.FAIL and f.code != "START_JUMP"]:
        return cannot(forbids[0].summary)
    if not desk.confirm(
        f"The arm eases to where episode {episode.index} starts, at {SPEED:.0f}°/s. Nothing that the policy predicts "
        "is sent to it. Keep clear, then press ENTER; Ctrl-C stops."
    ):
        return cannot("stopped before it moved")
    first = player.read()
    if isinstance(first, Ending):
        return way_ended(first)
    recorded = {key: next(episode.frames(key, [0])) for key in cameras}
    paths = {key: f"object_{file_name(camera_name(key))}.png" for key in cameras}
    try:
        arrived = player.ease_to(plan.pose(0), poses(plan), SPEED)
        if not arrived.finished:
            return way_ended(arrived)
        for key, path in paths.items():
            _save(recorded[key], folder / path)
        if not desk.confirm(
            f"The arm stands still now. Put the object where episode {episode.index} shows it "
            f"({', '.join(str(folder / path) for path in paths.values())}), take your hands away, then press ENTER."
        ):
            return cannot("stopped with the object there")
        there = observe(driver)
        if not desk.confirm(
            "Now take the object away and leave everything else as it is. Keep clear, then press ENTER: the arm goes "
            "back slowly after that."
        ):
            return cannot("stopped before the object was gone")
        gone = observe(driver)
    except MotionEndedError as stopped:
        return way_ended(stopped.ending)
    back = player.ease_to({key: first.joints[key] for key in plan.positions}, poses(plan), SPEED)
    also = () if back.finished else way_ended(back).findings
    pictures = {
        key: ([r.pictures[name] for r in there], [r.pictures[name] for r in gone]) for key, name in cameras.items()
    }
    shown = [_draw(folder / paths[key], key, recorded[key], *groups) for key, groups in pictures.items()]
    if (reason := unusable(pictures)) is not None:
        return Outcome([*cannot(reason).findings, *also], pictures=shown)
    said, table, results = compare(ask(there), ask(gone), start, ruler)
    return Outcome([said, *also], [table], shown, results)


def observe(driver: Driver) -> list[Reading]:
    """Let the views settle, then :data:`LOOKS` readings at rest.

    Raises:
        MotionEndedError: The user stops, or arm or camera are lost.
    """
    pacer = driver.player.pacer(GAP_S)
    readings: list[Reading] = []
    for k in range(1, round(SETTLE_S / GAP_S) + LOOKS + 1):
        reading = driver.player.read() if pacer.wait(k) else STOPPED
        if isinstance(reading, Ending):
            raise MotionEndedError(reading)
        readings.append(reading)
    return readings[-LOOKS:]


def unusable(pictures: Mapping[str, tuple[Sequence[Pixels], Sequence[Pixels]]]) -> str | None:
    """Why pictures with and without the object cannot be compared; None where they can.

    Args:
        pictures: By camera, several with the object and several without, each ``[H, W, 3]`` uint8 RGB.
    """
    changed = []
    for key, groups in pictures.items():
        medians = []
        for group in groups:
            middle = len(group) // 2
            if largest_change(_median(group[:middle]), _median(group[middle:])) >= LEAST_AREA:
                return f"something moved in {camera_name(key)} while the policy was to look: hands off, and try again"
            medians.append(_median(group))
        changed.append(largest_change(*medians) >= LEAST_AREA)
    if not any(changed):
        names = ", ".join(camera_name(key) for key in pictures)
        return f"the pictures did not change ({names}): the object was not taken away, or no camera sees it"
    return None


def _median(pictures: Sequence[Pixels]) -> Pixels:
    return np.asarray(np.median(pictures, axis=0), np.uint8)


class Measured(NamedTuple):
    """What the answers differ by, in the ruler's unit.

    Attributes:
        apart: Farthest distance of the mean motion with the object from the one without.
        noise: The same between one pair of looks and the mean of all pairs, on average.
        moves: How far the motion with the object goes from its first action.
        recorded_moves, differ, near: See :class:`Start`.
        seconds: Of motion predicted.
    """

    apart: float
    noise: float
    moves: float
    recorded_moves: float
    differ: float
    near: int
    seconds: float


def compare(there: Array, gone: Array, start: Start, ruler: Ruler) -> tuple[Finding, Table, dict[str, Any]]:
    """Judge chunks ``[N, H, J]`` predicted with the object and without, pairs with the same noise."""
    with_object, without = ruler.places(there), ruler.places(gone)
    pairs = with_object - without
    mean = with_object.mean(axis=0)
    measured = Measured(
        apart=float(farthest(pairs.mean(axis=0))),
        noise=float(farthest(pairs - pairs.mean(axis=0)).mean()),
        moves=float(farthest(mean - mean[0])),
        recorded_moves=start.moves,
        differ=start.differ,
        near=start.near,
        seconds=there.shape[1] / start.episode.fps,
    )
    shift = (gone - there).mean(axis=0)
    most = np.abs(shift).argmax(axis=0)
    travel = np.ptp(there.mean(axis=0), axis=0)
    rows = [
        [name, float(travel[j]), float(shift[most[j], j]), float((most[j] + 1) / start.episode.fps)]
        for j, name in enumerate(start.episode.names)
    ]
    note = f"Predicted from where episode {start.episode.index} starts, in the data set's units; nothing was sent."
    table = Table("With the object gone", ["joint", "range with it", "differs by", "at s"], rows, note)
    return (
        judge(measured, ruler.unit),
        table,
        {**measured._asdict(), "unit": ruler.unit, "episode": start.episode.index},
    )


def judge(found: Measured, unit: str) -> Finding:
    """IGNORES_IMAGES, live."""
    lengths = {
        "apart": found.apart, "noise": found.noise, "moves": found.moves, "recorded_moves": found.recorded_moves,
        "recorded_differ": found.differ,
    }  # fmt: skip
    evidence = {f"{name}_{'mm' if unit == 'mm' else 'percent'}": length for name, length in lengths.items()}
    evidence |= {"episodes_compared": found.near, "predicted_s": found.seconds}

    def finding(status: Status, summary: str, fix: str = "") -> Finding:
        return Finding("IGNORES_IMAGES", status, Cause.MODEL, OBJECT, summary, evidence, fix)

    if not np.isfinite([found.apart, found.noise, found.moves]).all():
        return finding(Status.UNKNOWN, "The predicted actions are not finite: cannot tell whether the policy looks.")
    said = (
        f"{_length(found.apart, unit)} apart within {found.seconds:.1f} s (its own noise "
        f"{_length(found.noise, unit)}; recorded episodes that start here differ by {_length(found.differ, unit)})"
    )
    if found.apart >= max(ELSEWHERE * found.differ, SURE * found.noise):
        return finding(Status.PASS, f"With the object gone the policy goes elsewhere, {said}: it looks.")
    if found.moves < MOVES * found.recorded_moves:
        summary = (
            f"The policy predicts {_length(found.moves, unit)} of motion within {found.seconds:.1f} s where "
            f"{_length(found.recorded_moves, unit)} were recorded: too little to tell where it leads."
        )
        return finding(Status.UNKNOWN, summary)
    if max(found.apart, found.noise) < SAME * found.differ:
        fix = "Put the object in more different places while recording, see that the cameras show it, and train anew."
        summary = f"With the object gone the policy still goes to the same place, {said}: it repeats a motion "
        return finding(Status.FAIL, summary + "instead of looking.", fix)
    return finding(Status.UNKNOWN, f"With the object gone the policy goes {said}: too little to be sure that it looks.")


def _length(value: float, unit: str) -> str:
    return f"{value:.{0 if value >= 9.95 else 1}f} {unit}"


def cannot(reason: str) -> Outcome:
    """The test did not decide."""
    summary = f"Whether the policy goes elsewhere with the object gone: {reason}."
    return Outcome([Finding("IGNORES_IMAGES", Status.UNKNOWN, Cause.MODEL, OBJECT, summary)])


def _draw(path: Path, key: str, recorded: Pixels, there: Sequence[Pixels], gone: Sequence[Pixels]) -> Shown:
    """Recorded, with the object and without, side by side."""
    height, width = there[-1].shape[:2]
    small = np.asarray(Image.fromarray(recorded).resize((width, height)))
    _save(np.concatenate([small, there[-1], gone[-1]], axis=1), path)
    return Shown(path.name, f"{camera_name(key)}: recorded, with the object, without", "With the object gone")


def _save(picture: Pixels, path: Path) -> None:
    with atomic_file(path) as temporary:
        Image.fromarray(picture).save(temporary, "PNG")
