"""Recorded episodes through one or several checkpoints: every picture decoded once, every look batched."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.openloop.checkpoint import WEIGHTS, CheckpointRef, LoadedPolicy
from lerobot_diagnostics.openloop.folding import folded
from lerobot_diagnostics.openloop.predict import (
    PROVEN_TYPES,
    ExecutionPlan,
    Mode,
    Predictor,
    confirm_plan,
    plan_execution,
    take_rows,
)
from lerobot_diagnostics.recording import Episode, Recording, frame_batches

RESIDENT_BYTES = 4 * 2**30
"""Checkpoints of a sweep are held in memory together up to this size, so that pictures are decoded once for all of
them. Counted at twice the file's size: weights may be stored in half precision and load in single."""


@dataclass(frozen=True)
class Binding:
    """Which features of a data set feed a policy: the data set's own keys."""

    vectors: tuple[str, ...]
    cameras: tuple[str, ...]


def bind(recording: Recording, loaded: LoadedPolicy) -> Binding:
    """Match a data set's features with a policy's inputs and outputs by name and shape.

    Raises:
        UsageError: When the action or an input has another size, or an input is missing; both sides are printed.
    """
    config = loaded.config
    wanted = dict(config.input_features or {})
    policy_key = {key: loaded.rename_map.get(key, key) for key in recording.features if key.startswith("observation.")}
    cameras = tuple(key for key in recording.cameras if policy_key[key] in wanted)
    vectors = tuple(
        key
        for key, feature in recording.features.items()
        if key not in recording.cameras
        and policy_key.get(key) in wanted
        and str(feature["dtype"]).startswith(("float", "int"))
    )
    for key in vectors:
        _same_size(key, wanted[policy_key[key]].shape, recording.features[key]["shape"])
    if config.action_feature is not None:
        if "action" not in recording.features:
            raise UsageError(f"{recording.label} records no action, so there is nothing to compare with.")
        _same_size("action", config.action_feature.shape, recording.features["action"]["shape"])
    fed = {policy_key[key] for key in (*vectors, *cameras)}
    missing = [key for key in wanted if key not in fed]
    spare = [key for key in recording.cameras if key not in cameras]
    lost = [key for key in missing if key not in config.image_features]
    if lost or (missing and (spare or not cameras)):
        have = ", ".join(key for key in policy_key) or "none"
        hint = ""
        if spare and not lost:
            pairs = ", ".join(f'"{a}": "{b}"' for a, b in zip(spare, missing, strict=False))
            hint = f"If they are the same cameras: --rename_map='{{{pairs}}}'."
        raise UsageError(
            f"the policy takes {', '.join(missing)}, which {recording.label} does not have (it has: {have}).",
            hint or "Choose the data set it was trained on with --dataset.repo_id or --dataset.root.",
        )
    return Binding(vectors, cameras)


def _same_size(key: str, expected: Sequence[int], given: Sequence[int]) -> None:
    if tuple(expected) != tuple(given):
        raise UsageError(
            f"{key} has shape {list(given)} in the data set and {list(expected)} in the policy.",
            "Choose the data set it was trained on with --dataset.repo_id or --dataset.root.",
        )


@dataclass
class EpisodeResult:
    """One evaluated episode.

    Args:
        episode: The recording.
        side: What training saw of it (:mod:`~lerobot_diagnostics.openloop.split`).
        predicted: Actions by checkpoint label, [T, J] in the data set's units; NaN where the run was interrupted.
        looks: Frames at which the policy was asked, by checkpoint label.
        done: Whether all frames were predicted, by checkpoint label.
    """

    episode: Episode
    side: str
    predicted: dict[str, npt.NDArray[np.float32]] = field(default_factory=dict)
    looks: dict[str, list[int]] = field(default_factory=dict)
    done: dict[str, bool] = field(default_factory=dict)


@dataclass
class Evaluation:
    """All that was predicted.

    Args:
        episodes: In the order given.
        plans: How each checkpoint was executed, by label.
        configs: LeRobot's policy config of each checkpoint, by label.
        timings: Seconds spent waiting for pictures (``decode_wait_s``), predicting (``predict_s``), loading
            (``load_s``).
        passes: How often the pictures were decoded.
        interrupted: Whether the user stopped it.
    """

    episodes: list[EpisodeResult]
    plans: dict[str, ExecutionPlan] = field(default_factory=dict)
    configs: dict[str, Any] = field(default_factory=dict)
    timings: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys(("load_s", "decode_wait_s", "predict_s"), 0.0)
    )
    passes: int = 0
    interrupted: bool = False


class Look(NamedTuple):
    """One moment the policy is asked at: the episode's position in the list, and the frame."""

    position: int
    frame: int


def observe(
    episodes: Sequence[Episode], frames: npt.ArrayLike, images: Mapping[str, Any], binding: Binding
) -> dict[str, Any]:
    """A batch of raw observations (``Observation`` of :mod:`.predict`); ``action`` is never in it."""
    moments = list(zip(episodes, np.asarray(frames).tolist(), strict=True))
    vectors = {
        key: np.stack([np.atleast_1d(episode.column(key)[frame]) for episode, frame in moments]).astype(np.float32)
        for key in binding.vectors
    }
    tasks = [episode.tasks[frame] if episode.tasks else "" for episode, frame in moments]
    return {**vectors, **images, "task": tasks, "robot_type": episodes[0].recording.robot_type or ""}


def look_batches(
    episodes: Sequence[Episode], plan: ExecutionPlan, binding: Binding, batch_size: int
) -> Iterator[tuple[list[Look], list[dict[str, Any]]]]:
    """Looks with what the policy sees at each: ``plan.history + 1`` observation batches, oldest first.

    Pictures are decoded in order, each once, in the background. In the modes that run frame by frame a batch never
    spans two episodes.
    """
    apart = plan.mode is not Mode.CHUNKS
    positions = {id(episode): i for i, episode in enumerate(episodes)}
    requests = []
    for episode in episodes:
        needed = {frame for look in plan.looks(len(episode)) for frame in plan.window(look)}
        requests.append((episode, sorted(needed)))
    looks: list[Look] = []
    windows: list[list[Look]] = []
    kept: dict[Look, dict[str, Any]] = {}  # pictures that later windows may still need

    def ready() -> tuple[list[Look], list[dict[str, Any]]]:
        columns = []
        for column in zip(*windows, strict=True):
            images = {camera: np.stack([kept[m][camera] for m in column]) for camera in binding.cameras}
            columns.append(observe([episodes[m.position] for m in column], [m.frame for m in column], images, binding))
        done = list(looks)
        looks.clear()
        windows.clear()
        last = done[-1]
        for moment in [m for m in kept if m.position < last.position or m.frame <= last.frame - plan.history]:
            del kept[moment]
        return done, columns

    for batch in frame_batches(requests, binding.cameras, batch_size=batch_size):
        for row, (episode, frame) in enumerate(zip(batch.episodes, batch.indices.tolist(), strict=True)):
            now = Look(positions[id(episode)], frame)
            if apart and looks and looks[-1].position != now.position:
                yield ready()
            kept[now] = {camera: batch.images[camera][row] for camera in binding.cameras}
            if plan.mode is Mode.CHUNKS and frame % plan.horizon:
                continue  # history only
            looks.append(now)
            windows.append([Look(now.position, back) for back in plan.window(frame)])
            if len(looks) == batch_size:
                yield ready()
    if looks:
        yield ready()


Loader = Callable[[CheckpointRef], LoadedPolicy]
Progress = Callable[[int], None]


def evaluate(
    recording: Recording,
    episodes: Sequence[tuple[int, str]],
    checkpoints: Sequence[CheckpointRef],
    load: Loader,
    *,
    batch_size: int = 8,
    seed: int = 0,
    progress: Callable[[int, str], Progress] = lambda _total, _text: lambda _done: None,
    clock: Callable[[], float] = time.perf_counter,
) -> Evaluation:
    """Predict every executed action of the episodes with every checkpoint.

    Args:
        recording: The data set.
        episodes: Episode indices with their side.
        checkpoints: In the order to report.
        load: Loads one checkpoint.
        batch_size: Looks per forward pass.
        seed: Of the noise stochastic policies draw.
        progress: Called with the total number of frames and a text; returns what is called with frames done.
        clock: Seconds.

    Raises:
        UsageError: From loading, opening and decoding. ``KeyboardInterrupt`` is kept: what is done is returned.
    """
    results = [EpisodeResult(recording.episode(index), side) for index, side in episodes]
    evaluation = Evaluation(results)
    confirmed: dict[tuple[Any, ...], ExecutionPlan] = {}
    group: list[Predictor] = []
    binding: Binding | None = None
    size = 0
    try:
        for ref in checkpoints:
            started = clock()
            loaded = load(ref)
            mine = bind(recording, loaded)
            plan = plan_execution(loaded)
            key = (loaded.config.type, plan)
            if key not in confirmed:
                confirmed[key] = confirm_plan(
                    Predictor(loaded, plan, seed), _first_frames(results[0].episode, plan, mine, loaded.config.type)
                )
            plan = confirmed[key]
            evaluation.plans[ref.label] = plan
            evaluation.configs[ref.label] = loaded.config
            evaluation.timings["load_s"] += clock() - started
            weight = 2 * weight_bytes(ref)
            if group and (group[0].plan != plan or binding != mine or size + weight > RESIDENT_BYTES):
                _run(evaluation, group, binding or mine, batch_size, progress, clock)
                group, size = [], 0
            binding = mine
            group.append(Predictor(loaded, plan, seed))
            size += weight
        if group and binding:
            _run(evaluation, group, binding, batch_size, progress, clock)
    except KeyboardInterrupt:
        evaluation.interrupted = True
    return evaluation


def weight_bytes(ref: CheckpointRef) -> int:
    """Size of a checkpoint's weights on disk."""
    paths = [ref.file(name) for name in WEIGHTS]
    return sum(path.stat().st_size for path in paths if path is not None)


def _first_frames(episode: Episode, plan: ExecutionPlan, binding: Binding, policy_type: str) -> dict[str, Any]:
    """What :func:`~lerobot_diagnostics.openloop.predict.confirm_plan` needs: one frame, or a horizon and one."""
    count = 1 if policy_type in PROVEN_TYPES else min(plan.horizon + 1, len(episode))
    frames = list(range(count))
    images = {camera: np.stack(list(episode.frames(camera, frames))) for camera in binding.cameras}
    return observe([episode] * count, frames, images, binding)


def _run(
    evaluation: Evaluation,
    group: Sequence[Predictor],
    binding: Binding,
    batch_size: int,
    progress: Callable[[int, str], Progress],
    clock: Callable[[], float],
) -> None:
    """One pass over the pictures with the predictors of one group."""
    plan = group[0].plan
    results = evaluation.episodes
    labels = [predictor.loaded.ref.label for predictor in group]
    joints = results[0].episode.actions.shape[1]
    for result in results:
        for label in labels:
            result.predicted[label] = np.full((len(result.episode), joints), np.nan, dtype=np.float32)
            result.looks[label] = plan.looks(len(result.episode))
    advance = progress(sum(len(r.episode) for r in results) * len(group), ", ".join(labels))
    evaluation.passes += 1
    waiting = clock()
    with contextlib.ExitStack() as stack:
        for predictor in group:
            stack.enter_context(folded(predictor.loaded.policy))
        for looks, window in look_batches([r.episode for r in results], plan, binding, batch_size):
            started = clock()
            evaluation.timings["decode_wait_s"] += started - waiting
            for label, predictor in zip(labels, group, strict=True):
                frames = 0
                if plan.mode is Mode.CHUNKS:
                    chunks = predictor.chunks(window)
                    for (position, frame), actions in zip(looks, chunks, strict=True):
                        target = results[position].predicted[label][frame : frame + plan.horizon]
                        target[:] = actions[: len(target)]
                        frames += len(target)
                else:
                    act = predictor.ensembled if plan.mode is Mode.ENSEMBLE else predictor.stepped
                    actions = act(window[-1], start=looks[0].frame == 0)
                    results[looks[0].position].predicted[label][[look.frame for look in looks]] = actions
                    frames = len(looks)
                advance(frames)
                for position, frame in looks:
                    results[position].done[label] = frame == results[position].looks[label][-1]
            waiting = clock()
            evaluation.timings["predict_s"] += waiting - started


class Ablation(NamedTuple):
    """Predictions of the same looks with the true pictures, blank ones, and those of other moments: [N, horizon, J]."""

    recorded: npt.NDArray[np.float32]
    normal: npt.NDArray[np.float32]
    blank: npt.NDArray[np.float32]
    exchanged: npt.NDArray[np.float32]


def ablate_pictures(
    evaluation: Evaluation, loaded: LoadedPolicy, recording: Recording, *, looks: int = 24, seed: int = 0
) -> Ablation | None:
    """Predict some looks again without what the pictures tell, states unchanged.

    Blank pictures show their own mean colour; exchanged ones are those of a moment half the looks away, so that every
    picture is one the policy knows.

    Args:
        evaluation: Done, with this checkpoint.
        loaded: The checkpoint.
        recording: The data set.
        looks: How many, spread evenly over all episodes.
        seed: As for :func:`evaluate`.

    Returns:
        ``None`` for policies without cameras, those that cannot be batched, and fewer than four looks.
    """
    label = loaded.ref.label
    plan, binding = evaluation.plans[label], bind(recording, loaded)
    if plan.mode is Mode.STEP or not binding.cameras:
        return None
    horizon = 1 if plan.mode is Mode.ENSEMBLE else plan.horizon
    chosen = [
        Look(i, frame)
        for i, result in enumerate(evaluation.episodes)
        for frame in result.looks.get(label, [])
        if frame + horizon <= len(result.episode)
    ]
    if len(chosen) < 4:
        return None
    chosen = [chosen[i] for i in np.unique(np.linspace(0, len(chosen) - 1, min(looks, len(chosen))).astype(int))]
    predictor = Predictor(loaded, plan, seed)
    moments: dict[Look, dict[str, Any]] = {}
    for position, group in groupby(chosen, key=lambda look: look.position):
        episode = evaluation.episodes[position].episode
        frames = sorted({frame for look in group for frame in plan.window(look.frame)})
        for camera in binding.cameras:
            for frame, image in zip(frames, episode.frames(camera, frames), strict=True):
                moments.setdefault(Look(position, frame), {})[camera] = image

    def predict(alter: Callable[[npt.NDArray[np.uint8]], npt.NDArray[np.uint8]]) -> npt.NDArray[np.float32]:
        window = []
        for column in zip(*([Look(p, f) for f in plan.window(frame)] for p, frame in chosen), strict=True):
            images = {c: alter(np.stack([moments[m][c] for m in column])) for c in binding.cameras}
            episodes = [evaluation.episodes[m.position].episode for m in column]
            window.append(observe(episodes, [m.frame for m in column], images, binding))
        if plan.mode is Mode.ENSEMBLE:  # one frame of one ensemble: the first action of each chunk
            rows = (take_rows(window[-1], slice(i, i + 1)) for i in range(len(chosen)))
            return np.stack([predictor.ensembled(row, start=True) for row in rows])
        return predictor.chunks(window)

    def blank(pictures: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        return np.broadcast_to(pictures.mean(axis=(1, 2), keepdims=True), pictures.shape).astype(np.uint8)

    def exchanged(pictures: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        return np.roll(pictures, len(pictures) // 2, axis=0)

    recorded = np.stack([evaluation.episodes[p].episode.actions[f : f + horizon] for p, f in chosen])
    with folded(loaded.policy):
        return Ablation(recorded.astype(np.float32), predict(lambda same: same), predict(blank), predict(exchanged))
