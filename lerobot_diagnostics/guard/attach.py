"""Write the guard into a checkpoint's ``policy_preprocessor.json``, find it there, take it out.

The step is written by class path, which every loader of LeRobot resolves by importing it: the async policy server loads
no plugins. A checkpoint on a machine without this package fails to load with an error that names it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file, save_file

from lerobot_diagnostics.camera_names import camera_name
from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.guard.step import REGISTRY_NAME, CameraSwapGuard
from lerobot_diagnostics.vision import ReferenceViews

CLASS_PATH = f"{CameraSwapGuard.__module__}.{CameraSwapGuard.__name__}"
CONFIG = "config.json"
PREPROCESSOR = "policy_preprocessor.json"
STATE_FILE = "policy_preprocessor_camera_swap_guard.safetensors"
RENAME_STEP = "rename_observations_processor"
LINK_FROM_BYTES = 1_000_000
"""Smaller files are copied: they are what people edit, and a hard link would carry the edit to the original."""


class Attached(NamedTuple):
    """What :func:`attach` made: the folder, how many files share their disk space with the original, and the bytes of
    reference views a camera."""

    folder: Path
    linked: int
    copied: int
    bytes_a_camera: dict[str, int]


def read_preprocessor(folder: Path) -> dict[str, Any]:
    """``policy_preprocessor.json`` of a checkpoint.

    Raises:
        UsageError: When it is missing or damaged.
    """
    path = folder / PREPROCESSOR
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(data["steps"], list):
            return data
        raise ValueError("no list of steps")
    except FileNotFoundError:
        raise UsageError(
            f"{folder} has no {PREPROCESSOR}: it is no checkpoint, or one from before LeRobot's processors.",
            f"For an old one: python -m lerobot.processor.migrate_policy_normalization --pretrained-path {folder}",
        ) from None
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise UsageError(f"{path} cannot be read: {error}.", "Copy the checkpoint again.") from error


def is_guard(step: Mapping[str, Any]) -> bool:
    """Whether a step of ``policy_preprocessor.json`` is the guard, however it was written."""
    return step.get("class") == CLASS_PATH or step.get("registry_name") == REGISTRY_NAME


def guard_of(folder: Path) -> Mapping[str, Any] | None:
    """The guard's entry in a checkpoint, None where it has none."""
    return next((step for step in read_preprocessor(folder)["steps"] if is_guard(step)), None)


def saved_rename_map(folder: Path) -> dict[str, str]:
    """Data set key → policy key, as the checkpoint's rename step has it."""
    for step in read_preprocessor(folder)["steps"]:
        if step.get("registry_name") == RENAME_STEP:
            return dict(step.get("config", {}).get("rename_map") or {})
    return {}


def policy_cameras(folder: Path) -> dict[str, list[int]]:
    """``{picture key: [height, width]}`` of a checkpoint's inputs, from its ``config.json``.

    Raises:
        UsageError: When it cannot be read or takes no pictures.
    """
    try:
        features = json.loads((folder / CONFIG).read_text(encoding="utf-8"))["input_features"]
        cameras = {key: list(f["shape"][-2:]) for key, f in features.items() if f["type"] == "VISUAL"}
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise UsageError(f"{folder / CONFIG} cannot be read: {error}.", "Check --policy.path.") from error
    if not cameras:
        raise UsageError(f"the policy in {folder} takes no pictures.", "There is nothing to guard.")
    return cameras


def stored_references(folder: Path) -> ReferenceViews:
    """The reference views of a guarded checkpoint.

    Raises:
        UsageError: When it has no guard, or the guard's file is missing or damaged.
    """
    entry = guard_of(folder)
    if entry is None:
        raise UsageError(f"{folder} has no guard.", "Attach one: lerobot-camera-guard --attach_to=<new folder>.")
    path = folder / str(entry.get("state_file", STATE_FILE))
    try:
        return ReferenceViews.from_arrays({key: tensor.numpy() for key, tensor in load_file(path).items()})
    except (OSError, ValueError) as error:
        raise UsageError(f"the guard's reference views {path} cannot be read: {error}.", "Attach it again.") from error


def attach(
    source: Path,
    target: Path,
    references: ReferenceViews,
    *,
    every_s: float = 0.0,
    actions: Mapping[str, str] | None = None,
) -> Attached:
    """Write a guarded copy of a checkpoint; a guard that it has already is replaced.

    Large files are hard links to the original's where the disk allows, so a copy costs no space and must not be
    trained into. The folder appears whole or not at all.

    Args:
        source: Folder with ``config.json``, the weights and ``policy_preprocessor.json``.
        target: New folder.
        references: Views by the policy's camera names.
        every_s, actions: See :class:`~lerobot_diagnostics.guard.step.CameraSwapGuard`.

    Raises:
        UsageError: On a target that is in use, or a source that is no checkpoint.
    """
    config = read_preprocessor(source)
    sizes = {camera_name(key): size for key, size in policy_cameras(source).items()}
    step = CameraSwapGuard(
        every_s=every_s,
        actions=actions,
        policy_sizes={name: size for name, size in sizes.items() if name in references.cameras},
    )
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError(f"--attach_to={target} exists and is not empty; nothing was written.", "Give a new folder.")
    old = [str(entry.get("state_file")) for entry in config["steps"] if is_guard(entry)]
    steps = [entry for entry in config["steps"] if not is_guard(entry)]
    after_rename = [i + 1 for i, entry in enumerate(steps) if entry.get("registry_name") == RENAME_STEP]
    place = after_rename[0] if after_rename else 0
    steps.insert(place, {"class": CLASS_PATH, "config": step.get_config(), "state_file": STATE_FILE})
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        temporary.mkdir(parents=True)
        linked, copied = _copy(source, temporary, without={PREPROCESSOR, *old})
        arrays = references.arrays()
        save_file({key: torch.from_numpy(array.copy()) for key, array in arrays.items()}, temporary / STATE_FILE)
        _write_json(temporary / PREPROCESSOR, {**config, "steps": steps})
        if target.is_dir():
            target.rmdir()
        temporary.replace(target)
    except OSError as error:
        raise UsageError(
            f"cannot write {target}: {error.strerror or error}.", "Give another folder as --attach_to."
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    sizes_b = {c: sum(a.nbytes for k, a in arrays.items() if k.startswith(f"{c}/")) for c in references.cameras}
    return Attached(target, linked, copied, sizes_b)


def detach(folder: Path) -> None:
    """Take the guard and its pictures out of a checkpoint, in place.

    Raises:
        UsageError: When it has none, or the folder cannot be written to.
    """
    config = read_preprocessor(folder)
    guards = [step for step in config["steps"] if is_guard(step)]
    if not guards:
        raise UsageError(f"{folder} has no guard.", "Nothing to take out.")
    try:
        _write_json(
            folder / PREPROCESSOR, {**config, "steps": [step for step in config["steps"] if not is_guard(step)]}
        )
        for step in guards:
            (folder / str(step.get("state_file", STATE_FILE))).unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write to {folder}: {error.strerror or error}.", "Check its permissions.") from error


def _copy(source: Path, target: Path, without: set[str]) -> tuple[int, int]:
    """Copy a folder's files, the large ones as hard links where that works: how many of each."""
    linked = copied = 0
    for path in sorted(source.rglob("*")):
        relative = path.relative_to(source)
        if path.is_dir() or relative.as_posix() in without:
            continue
        new = target / relative
        new.parent.mkdir(parents=True, exist_ok=True)
        real = path.resolve()  # the Hub's cache holds links
        if real.stat().st_size >= LINK_FROM_BYTES:
            try:
                os.link(real, new)
                linked += 1
                continue
            except OSError:
                pass  # another disk, or one without hard links
        shutil.copyfile(real, new)
        copied += 1
    return linked, copied


def _write_json(path: Path, data: Mapping[str, Any]) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
