"""What the policy takes, the data set holds and the robot gives, side by side: features, names, sizes, cameras."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lerobot_diagnostics.camera_names import IMAGES, camera_name
from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Cause, Finding, Status, Table
from lerobot_diagnostics.recording import Recording
from lerobot_diagnostics.recording.names import is_velocity
from lerobot_diagnostics.robot.joints import joint_map

STATE, ACTION = "observation.state", "action"

PACKING = frozenset({"smolvla", "pi0", "pi05", "pi0_fast", "xvla"})
"""Policy types that take the pictures present in the order of their config and pad at the end (``present_img_keys`` in
their modeling files, LeRobot 0.6.1): a missing one moves the later ones up by a slot."""

RESIZING = PACKING | {"groot", "wall_x", "evo1", "eo1", "molmoact2", "vla_jepa", "fastwam", "lingbot_va"}
"""Policy types that resize pictures to the size they want by themselves."""

CROP_WARN, CROP_FAIL = 0.5, 0.1
"""Share of the picture that is left. 0.1 is a tenth of the view: the case reported in public saw 3 %. LeRobot's own
PushT recipe keeps 77 % (84 of 96 pixels each way)."""

ROLLOUT_FPS = 30.0
"""``RolloutConfig.fps`` of LeRobot 0.6.1."""


@dataclass(frozen=True)
class Side:
    """Features of one of the three.

    Args:
        name: ``policy``, ``data set`` or ``robot``.
        vectors: Size by key (``observation.state``, ``action``, …).
        cameras: (height, width) by key.
        names: Joint names by key, where there are any.
        fps: Frames a second, where stated.
    """

    name: str
    vectors: Mapping[str, int]
    cameras: Mapping[str, tuple[int, int]]
    names: Mapping[str, Sequence[str]]
    fps: float | None = None


def policy_side(config: Mapping[str, Any]) -> Side:
    """From a checkpoint's ``config.json``."""
    features = {**(config.get("input_features") or {}), **(config.get("output_features") or {})}
    visual = {key: f["shape"] for key, f in features.items() if str(f.get("type")).upper() == "VISUAL"}
    vectors = {key: _size(f["shape"]) for key, f in features.items() if key not in visual}
    return Side("policy", vectors, {key: (int(s[-2]), int(s[-1])) for key, s in visual.items()}, {})


def data_side(recording: Recording) -> Side:
    """From ``meta/info.json``."""
    vectors = {
        key: _size(f["shape"])
        for key, f in recording.features.items()
        if key in {STATE, ACTION} or (key.startswith("observation.") and str(f["dtype"]).startswith("float"))
    }
    cameras = {key: _picture(recording.features[key]["shape"]) for key in recording.cameras}
    names = {key: found for key in vectors if (found := recording.joint_names(key)) is not None}
    return Side("data set", vectors, cameras, names, recording.fps)


def robot_side(observation: Mapping[str, Any], action: Mapping[str, Any]) -> Side:
    """From a robot's ``observation_features`` and ``action_features``: vectors in the order LeRobot packs them."""
    state = [key for key, kind in observation.items() if kind is float]
    cameras = {IMAGES + key: (int(s[0]), int(s[1])) for key, s in observation.items() if isinstance(s, tuple)}
    vectors = {STATE: len(state), ACTION: len(action)}
    return Side("robot", vectors, cameras, {STATE: state, ACTION: list(action)})


def side_by_side(sides: Sequence[Side], rename: Mapping[str, str]) -> Table:
    """One row a feature: what each side has of it.

    Args:
        sides: Policy first where there is one.
        rename: Data set (and robot) key → policy key.
    """

    def key_of(side: Side, key: str) -> str:
        return key if side.name == "policy" else rename.get(key, key)

    cells: dict[str, dict[str, str]] = {}
    for side in sides:
        for key, size in side.vectors.items():
            cells.setdefault(key_of(side, key), {})[side.name] = f"{size} values"
        for key, (height, width) in side.cameras.items():
            renamed = f" ({key})" if key_of(side, key) != key else ""
            cells.setdefault(key_of(side, key), {})[side.name] = f"{width}×{height}{renamed}"
    rows = [[key, *(found.get(side.name, "–") for side in sides)] for key, found in cells.items()]
    for key in (ACTION, STATE):
        named = [side for side in sides if side.names.get(key)]
        if named:
            texts = {side.name: ", ".join(side.names[key]) for side in named}
            rows.append([f"{key} names", *(texts.get(side.name, "–") for side in sides)])
    if any(side.fps for side in sides):
        rows.append(["fps", *(f"{side.fps:g}" if side.fps else "–" for side in sides)])
    return Table("Features side by side", ["feature", *(side.name for side in sides)], rows)


def _size(shape: Sequence[int]) -> int:
    size = 1
    for length in shape:
        size *= int(length)
    return size


def _picture(shape: Sequence[int]) -> tuple[int, int]:
    """(height, width) of a shape in either order of channels."""
    return (int(shape[0]), int(shape[1])) if int(shape[-1]) in {1, 3, 4} else (int(shape[-2]), int(shape[-1]))


def judge_inputs(policy: Side, other: Side, rename: Mapping[str, str], policy_type: str) -> list[Finding]:
    """MISSING_CAMERA, SLOT_SHIFT, RESOLUTION, NAMES_MISMATCH: does ``other`` give what the policy takes?

    Args:
        policy: What it takes.
        other: The data set or the robot.
        rename: Key of ``other`` → policy key.
        policy_type: LeRobot's name of the policy type.
    """
    found = []
    own = {rename.get(key, key): key for key in (*other.cameras, *other.vectors)}
    missing = [key for key in policy.cameras if key not in own]
    spare = [key for key in other.cameras if rename.get(key, key) not in policy.cameras]
    present = [key for key in policy.cameras if key in own]
    if missing:
        later = [key for key in present if list(policy.cameras).index(key) > list(policy.cameras).index(missing[0])]
        suggestion = _renames(missing, spare)
        hint = f"--rename_map='{_json(suggestion)}'" if suggestion else ""
        if policy_type in PACKING and present:
            code, status = ("SLOT_SHIFT", Status.FAIL) if later else ("MISSING_CAMERA", Status.WARN)
            what = (
                f"and {policy_type} packs what is present: {_list(later)} would be taken for another camera"
                if later
                else f"the last of {policy_type}'s slots, which it then fills with black"
            )
        else:
            code, status, what = "MISSING_CAMERA", Status.FAIL, f"which the policy takes; it has {_list(other.cameras)}"
        summary = f"The {other.name} has no {', '.join(map(camera_name, missing))}, {what}."
        fix = f"If it is the same camera under another name: {hint}." if hint else (
            f"Give the {other.name} a camera of this name, or map one to it with --rename_map."
        )  # fmt: skip
        evidence = {"missing": missing, "unused": spare}
        found.append(Finding(code, status, Cause.CAMERAS, ", ".join(map(camera_name, missing)), summary, evidence, fix))
    elif policy.cameras:
        summary = f"The {other.name} has all {len(policy.cameras)} cameras of the policy."
        found.append(Finding("MISSING_CAMERA", Status.PASS, Cause.CAMERAS, other.name, summary))
    for key in present:
        found += _resolution(key, policy.cameras[key], other.cameras.get(own[key]), other.name, policy_type)
    for key, size in policy.vectors.items():
        given = other.vectors.get(own.get(key, key))
        if given is None and key != ACTION:
            summary = f"The policy takes {key}, which the {other.name} does not have."
            fix = "Choose the data set or robot it was trained with."
            found.append(Finding("NAMES_MISMATCH", Status.FAIL, Cause.CONFIG, key, summary, {}, fix))
        elif given is not None and given != size:
            summary = f"{key} has {size} values in the policy and {given} in the {other.name}."
            fix = "Choose the data set or robot it was trained with."
            sizes = {"policy": size, other.name: given}
            found.append(Finding("NAMES_MISMATCH", Status.FAIL, Cause.CONFIG, key, summary, sizes, fix))
    return found


def _resolution(
    key: str, wanted: tuple[int, int], given: tuple[int, int] | None, where: str, policy_type: str
) -> list[Finding]:
    if given is None or given == wanted:
        return []
    evidence = {"policy_px": f"{wanted[1]}x{wanted[0]}", f"{where.replace(' ', '_')}_px": f"{given[1]}x{given[0]}"}
    said = (
        f"{camera_name(key)} is {given[1]}×{given[0]} in the {where}, the policy was trained on {wanted[1]}×{wanted[0]}"
    )
    if policy_type in RESIZING:
        summary = f"{said}; {policy_type} resizes by itself."
        return [Finding("RESOLUTION", Status.INFO, Cause.CAMERAS, camera_name(key), summary, evidence)]
    fix = f"Set width: {wanted[1]}, height: {wanted[0]} for {camera_name(key)} in --robot.cameras."
    return [Finding("RESOLUTION", Status.FAIL, Cause.CAMERAS, camera_name(key), said + ".", evidence, fix)]


def _renames(missing: Sequence[str], spare: Sequence[str]) -> dict[str, str]:
    """Likely pairs of an unused key and a missing one: the same but for an arm's prefix, else in order when as many."""
    pairs = {}
    for key in missing:
        like = [s for s in spare if _bare(s) == _bare(key)]
        if len(like) == 1:
            pairs[like[0]] = key
    if not pairs and len(missing) == len(spare) == 1:
        pairs = {spare[0]: missing[0]}
    return pairs


def _bare(key: str) -> str:
    return camera_name(key).removeprefix("left_").removeprefix("right_")


def judge_names(data: Side, robot: Side | None) -> list[Finding]:
    """NAMES_MISMATCH: are the joints named, and are they the robot's?

    Args:
        data: The data set.
        robot: The robot, if there is one.
    """
    if ACTION not in data.vectors:
        return []
    names = data.names.get(ACTION)
    if robot is None:
        if names is None:
            summary = "The data set does not name its action's dimensions: whether they fit a robot cannot be told."
            fix = "Write the names into features.action.names of meta/info.json."
            return [Finding("NAMES_MISMATCH", Status.UNKNOWN, Cause.UNITS, "action", summary, {}, fix)]
        return [Finding("NAMES_MISMATCH", Status.PASS, Cause.UNITS, "action", f"All {len(names)} joints are named.")]
    try:
        joint_map(robot.names[ACTION], names)
    except UsageError as error:
        evidence = {"data_set": list(names or []), "robot": list(robot.names[ACTION])}
        return [Finding("NAMES_MISMATCH", Status.FAIL, Cause.UNITS, "action", error.message, evidence, error.fix)]
    summary = f"The recorded joints are the robot's {len(robot.names[ACTION])}."
    found = [Finding("NAMES_MISMATCH", Status.PASS, Cause.UNITS, "action", summary)]
    speeds = [name for name in robot.names[ACTION] if is_velocity(name)]
    if speeds:
        found.append(
            Finding("NAMES_MISMATCH", Status.INFO, Cause.UNITS, "velocities", f"{', '.join(speeds)} are velocities.")
        )
    return found


def judge_rename(
    saved: Mapping[str, str], given: Mapping[str, str] | None, policy: Side, other: Side | None, *, trained_on: bool
) -> list[Finding]:
    """RENAME_ERASED, SWAPPED: what the rename map on the command line does to the checkpoint's own.

    Args:
        saved: The map in the checkpoint's preprocessor.
        given: ``--rename_map``; None where none was given.
        policy: The policy's features.
        other: The data set's or robot's.
        trained_on: Whether ``other`` is the training data set.
    """
    found = []
    if saved and not given:
        flag = f"--rename_map='{_json(saved)}'"
        summary = (
            f"The checkpoint renames {_arrows(saved)}; stock lerobot-rollout erases that unless it is given again."
        )
        status = Status.WARN if given is None else Status.FAIL
        found.append(
            Finding("RENAME_ERASED", status, Cause.CONFIG, "rename map", summary, {"saved": dict(saved)},
                     f"Pass {flag} to lerobot-rollout.")
        )  # fmt: skip
    elif saved and given and dict(given) != dict(saved):
        summary = f"--rename_map={_json(given)} replaces the checkpoint's own map {_json(saved)}."
        found.append(
            Finding("RENAME_ERASED", Status.WARN, Cause.CONFIG, "rename map", summary,
                     {"saved": dict(saved), "given": dict(given)}, "Pass the checkpoint's own map, or none.")
        )  # fmt: skip
    effective = dict(saved if given is None else given)
    names = set(policy.cameras) & (set(other.cameras) if other else set(policy.cameras))
    exchanged = {a: b for a, b in effective.items() if a != b and a in names and b in names}
    if exchanged:
        # what was trained with the same map, or on data named otherwise, may mean it
        certain = trained_on and not saved
        summary = f"The rename map exchanges cameras that the policy knows by their own names: {_arrows(exchanged)}."
        fix = f"Leave {', '.join(map(camera_name, exchanged))} out of --rename_map."
        status = Status.FAIL if certain else Status.WARN
        evidence = {"exchanged": exchanged}
        found.append(Finding("SWAPPED", status, Cause.CONFIG, "rename map", summary, evidence, fix))
    return found


def judge_framing(config: Mapping[str, Any], policy: Side) -> list[Finding]:
    """FRAMING: how much of each camera's picture is left after the policy's own resize and crop.

    Args:
        config: The checkpoint's ``config.json``; ``crop_shape``, ``resize_shape`` and ``crop_ratio`` are looked at.
        policy: Its features.
    """
    crop = config.get("crop_shape")
    resize = config.get("resize_shape")
    ratio = float(config.get("crop_ratio") or 1.0)
    found = []
    for key, (height, width) in policy.cameras.items():
        base_h, base_w = (int(resize[0]), int(resize[1])) if resize else (height, width)
        if resize and ratio < 1.0:
            crop_h, crop_w = int(base_h * ratio), int(base_w * ratio)
        elif crop and not resize:
            crop_h, crop_w = int(crop[0]), int(crop[1])
        else:
            continue
        share = min(1.0, crop_h / base_h) * min(1.0, crop_w / base_w)
        evidence = {"share": share, "crop_px": f"{crop_w}x{crop_h}", "picture_px": f"{base_w}x{base_h}"}
        summary = (
            f"{camera_name(key)}: the policy's centre crop of {crop_w}×{crop_h} leaves {share:.0%} of {base_w}×{base_h}"
        )
        if share >= CROP_WARN:
            found.append(Finding("FRAMING", Status.PASS, Cause.CAMERAS, camera_name(key), summary + ".", evidence))
            continue
        status = Status.FAIL if share < CROP_FAIL else Status.WARN
        fix = "Train with --policy.resize_shape and --policy.crop_ratio=0.9, or with --policy.crop_shape=null."
        found.append(
            Finding(
                "FRAMING", status, Cause.MODEL, camera_name(key), summary + ": it sees nothing else.", evidence, fix
            )
        )
    return found


def judge_fps(data_fps: float | None, control_fps: float | None) -> list[Finding]:
    """FPS_MISMATCH: is the policy stepped at the rate of its data?

    Args:
        data_fps: Of the training data.
        control_fps: ``--fps`` of the rollout; None where it was not given.
    """
    if data_fps is None:
        return []
    if control_fps is None:
        if abs(ROLLOUT_FPS / data_fps - 1) <= 0.05:
            return []
        summary = f"Recorded at {data_fps:g} fps; without --fps lerobot-rollout steps at {ROLLOUT_FPS:g}."
        fix = f"Pass --fps={data_fps:g} to lerobot-rollout."
        evidence = {"data_fps": data_fps}
        return [Finding("FPS_MISMATCH", Status.INFO, Cause.CLOCK, "control loop", summary, evidence, fix)]
    ratio = control_fps / data_fps
    rates = {"data_fps": data_fps, "control_fps": control_fps, "ratio": ratio}
    if abs(ratio - 1) <= 0.05:
        summary = f"The loop steps at {control_fps:g} fps, as recorded."
        return [Finding("FPS_MISMATCH", Status.PASS, Cause.CLOCK, "control loop", summary, rates)]
    how = f"{ratio:.2g} times as fast as" if ratio > 1 else f"at {ratio:.0%} of the speed of"
    summary = (
        f"The loop steps at {control_fps:g} fps, the data were recorded at {data_fps:g}: the arm moves {how} shown."
    )
    fix = f"Pass --fps={data_fps:g} to lerobot-rollout."
    return [Finding("FPS_MISMATCH", Status.FAIL, Cause.CLOCK, "control loop", summary, rates, fix)]


def _list(keys: Iterable[str]) -> str:
    return ", ".join(map(camera_name, keys)) or "none"


def _arrows(mapping: Mapping[str, str]) -> str:
    return ", ".join(f"{camera_name(a)} → {camera_name(b)}" for a, b in mapping.items())


def _json(mapping: Mapping[str, str]) -> str:
    return "{" + ", ".join(f'"{a}": "{b}"' for a, b in mapping.items()) + "}"
