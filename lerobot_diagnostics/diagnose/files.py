"""The first rung: what policy, data set and robot say of themselves, without a device and without a prediction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lerobot_diagnostics.diagnose import data, features, recorded
from lerobot_diagnostics.diagnose.following import Pair
from lerobot_diagnostics.diagnose.ladder import Outcome
from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Cause, Finding, Status
from lerobot_diagnostics.openloop.checkpoint import PREPROCESSOR, RENAME_STEP, CheckpointRef
from lerobot_diagnostics.openloop.checks import judge_stationary_prefix
from lerobot_diagnostics.openloop.scores import spread, states_as_actions
from lerobot_diagnostics.recording import Episode, Recording
from lerobot_diagnostics.recording.dataset import spans
from lerobot_diagnostics.recording.names import match
from lerobot_diagnostics.robot.calibration import Limits
from lerobot_diagnostics.robot.joints import RobotJoint, check_units

PICTURE_EPISODES = 12
"""Episodes whose pictures are looked at, evenly spread: 60 seeks a camera, seconds rather than minutes."""

ARRAY_EPISODES = 50
"""Episodes whose arrays are read, evenly spread."""


@dataclass(frozen=True)
class Files:
    """What the first rung looks at.

    Args:
        ref: The checkpoint, if there is one.
        recording: The data set, if there is one; opened without asking for its videos.
        episodes: Episodes asked for; None for all.
        trained: Episodes that training was given, where known.
        same: Whether ``recording`` is the training data set.
        robot: The robot's features, if one was named.
        joints: The robot's position keys.
        calibration: Its calibration, as on file.
        rename_map: ``--rename_map``; None where none was given.
        fps: ``--fps``, the rollout's rate, where given.
    """

    ref: CheckpointRef | None
    recording: Recording | None
    episodes: Sequence[int] | None = None
    trained: Sequence[int] | None = None
    same: bool = False
    robot: features.Side | None = None
    joints: Mapping[str, RobotJoint] | None = None
    calibration: Mapping[str, Limits] | None = None
    rename_map: Mapping[str, str] | None = None
    fps: float | None = None


def judge_files(files: Files) -> Outcome:
    """Run every check of the first rung that its inputs allow."""
    findings: list[Finding] = []
    sides: list[features.Side] = []
    config = (files.ref.read_json("config.json") or {}) if files.ref else {}
    policy = features.policy_side(config) if files.ref else None
    given = features.data_side(files.recording) if files.recording else None
    sides = [side for side in (policy, given, files.robot) if side is not None]
    saved = saved_rename(files.ref.read_json(PREPROCESSOR)) if files.ref else {}
    rename = dict(saved if files.rename_map is None else files.rename_map)
    if policy is not None:
        kind = str(config.get("type", ""))
        for other in sides[1:]:
            findings += features.judge_inputs(policy, other, rename, kind)
        findings += features.judge_rename(saved, files.rename_map, policy, given or files.robot, trained_on=files.same)
        findings += features.judge_framing(config, policy)
    if given is not None:
        findings += features.judge_names(given, files.robot)
        if policy is not None or files.fps is not None:
            findings += features.judge_fps(given.fps, files.fps)
    if files.recording is not None:
        findings += _data_set(files, files.recording)
    tables = [features.side_by_side(sides, rename)] if sides else []
    return Outcome(findings, tables)


def saved_rename(preprocessor: Mapping[str, Any] | None) -> dict[str, str]:
    """The rename map in a checkpoint's ``policy_preprocessor.json``."""
    for step in (preprocessor or {}).get("steps", []):
        if step.get("registry_name") == RENAME_STEP:
            return dict((step.get("config") or {}).get("rename_map") or {})
    return {}


def _data_set(files: Files, recording: Recording) -> list[Finding]:
    asked = files.episodes if files.episodes is not None else list(recording.episode_indices)
    episodes, findings = open_episodes(recording, spread(asked, ARRAY_EPISODES))
    if not episodes:
        return findings
    states = [e.states.astype(np.float64) for e in episodes]
    findings += data.judge_finite({e.index: {"action": e.actions, "observation.state": e.states} for e in episodes})
    findings += _arrays(files, recording, episodes, states)
    cameras = [
        camera
        for camera in recording.cameras
        if camera in recording.image_cameras or all(e.video_path(camera).is_file() for e in episodes)
    ]
    findings += recorded.judge_alignment(
        recording, episodes, [camera for camera in cameras if camera in recording.video_cameras]
    )
    if cameras and not any(f.code == "MISALIGNED" and f.status is Status.FAIL for f in findings):
        span = np.ptp(np.concatenate(states), axis=0) if states[0].shape[1] else np.zeros(0)
        looked = {}
        for episode in spread(episodes, PICTURE_EPISODES):
            try:
                looked[episode.index] = recorded.sample(episode, cameras, span)
            except UsageError as error:
                findings.append(_missing(f"episode {episode.index}", error, Status.FAIL))
        findings += recorded.judge_pictures(looked, files.trained)
    return findings


def open_episodes(recording: Recording, indices: Sequence[int]) -> tuple[list[Episode], list[Finding]]:
    """Those episodes whose rows are there, and MISSING_FILES for what is not."""
    episodes: list[Episode] = []
    findings: list[Finding] = []
    lost: dict[str, list[int]] = {}
    for index in indices:
        try:
            episode = recording.episode(index)
            _ = episode.states
        except UsageError as error:
            findings.append(_missing(f"episode {index}", error, Status.FAIL))
            continue
        episodes.append(episode)
        for camera in recording.video_cameras:
            if not episode.video_path(camera).is_file():
                lost.setdefault(camera, []).append(index)
    for camera, absent in lost.items():
        summary = f"{camera} has no video for episodes {spans(absent)}; the joints are there."
        fix = "Restore the files; without them only joints are judged and replayed."
        evidence = {"episodes": absent}
        findings.append(Finding("MISSING_FILES", Status.FAIL, Cause.DATA, camera, summary, evidence, fix))
    if not findings:
        summary = f"Rows and videos of {len(episodes)} episodes are there."
        findings.append(Finding("MISSING_FILES", Status.PASS, Cause.DATA, "data set", summary))
    return episodes, findings


def _missing(subject: str, error: UsageError, status: Status) -> Finding:
    return Finding("MISSING_FILES", status, Cause.DATA, subject, error.message, {}, error.fix)


def _arrays(files: Files, recording: Recording, episodes: Sequence[Episode], states: Sequence[Any]) -> list[Finding]:
    names, fps = recording.state_names, recording.fps
    actions = [e.actions.astype(np.float64) for e in episodes]
    findings: list[Finding] = []
    units = data.find_units(np.concatenate(states), names) if names else {}
    if names:
        findings += data.judge_jumps(states, names, units)
    findings += data.judge_rate([e.timestamps for e in episodes], states, fps, names, units)
    findings += data.judge_conventions(recording.action_names or names, robot=files.robot is not None)
    if files.joints is None:
        findings += data.judge_default_unit(units, recording.robot_type)
    else:
        findings += robot_units(files.joints, np.concatenate(states), names)
    columns = states_as_actions(recording) if names and recording.action_names else None
    if columns is not None:
        action_units = data.find_units(np.concatenate(actions), recording.action_names)
        findings += data.judge_unit_pair(action_units, units)
        pairs = [Pair(a, s[:, columns]) for a, s in zip(actions, states, strict=True)]
        findings += data.judge_following(pairs, recording.action_names, fps)
    if files.calibration and names:
        findings += data.judge_widths(units, files.calibration)
    moving = [a for a in actions if a.shape[1]]
    if moving:
        index = np.concatenate([np.full(len(a), e.index) for a, e in zip(actions, episodes, strict=True)])
        findings += judge_stationary_prefix(np.concatenate(actions), fps=fps, episode_index=index)
    return findings


def robot_units(joints: Mapping[str, RobotJoint], states: NDArray[Any], names: Sequence[str]) -> list[Finding]:
    """UNITS_MISMATCH between recorded states ``[T, J]`` and the robot's setting; nothing where no name is shared."""
    bound = {key: names.index(name) for key, name in match(list(joints), names).items() if name is not None}
    return [check_units(joints, states[:, list(bound.values())], list(bound))] if bound else []
