"""A LeRobot checkpoint on disk or on the Hub: found, checked for completeness, and loaded as rollout would load it."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.flags import in_the_users_terms

CONFIG = "config.json"
TRAIN_CONFIG = "train_config.json"
WEIGHTS = ("model.safetensors", "adapter_model.safetensors")
PREPROCESSOR = "policy_preprocessor.json"
POSTPROCESSOR = "policy_postprocessor.json"
RENAME_STEP = "rename_observations_processor"
DEVICE_STEP = "device_processor"
MIGRATION = "python -m lerobot.processor.migrate_policy_normalization --pretrained-path {path}"


@dataclass(frozen=True)
class CheckpointRef:
    """Where one checkpoint is.

    Args:
        path: Local folder, or the Hub's repo id.
        step: Training step taken from the folder name, ``None`` where there is none.
        local: Whether ``path`` is a folder on this machine.
        revision: Hub revision, if asked for.
    """

    path: str
    step: int | None
    local: bool
    revision: str | None = None

    @property
    def label(self) -> str:
        """Short name for tables: the step, else the last part of the path."""
        return f"step {self.step}" if self.step is not None else Path(self.path).name

    def file(self, name: str) -> Path | None:
        """Local path of one of the checkpoint's files (downloaded if it is on the Hub), ``None`` where it has none."""
        if self.local:
            path = Path(self.path) / name
            return path if path.is_file() else None
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

        try:
            return Path(hf_hub_download(self.path, name, revision=self.revision))
        except LocalEntryNotFoundError:  # offline and not in the cache: says nothing about the repository
            raise
        except EntryNotFoundError:
            return None

    def read_json(self, name: str) -> dict[str, Any] | None:
        """Contents of a JSON file of the checkpoint, ``None`` where it has none.

        Raises:
            UsageError: When the file is there and is not a JSON object.
        """
        path = self.file(name)
        if path is None:
            return None
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, OSError) as error:
            raise UsageError(f"{name} of {self.path} cannot be read: {error}.", "Copy or download it again.") from error
        if not isinstance(data, dict):
            raise UsageError(f"{name} of {self.path} is not a JSON object.", "Copy or download it again.")
        return data


def find_checkpoints(path: str, revision: str | None = None) -> list[CheckpointRef]:
    """All checkpoints that ``--policy.path`` names, in the order of their training steps.

    ``path`` may be a ``pretrained_model`` folder, the folder of one step, a ``checkpoints`` folder, a training output
    folder, or a Hub repo id. A ``last`` link is left out where the step it points to is there under its own name.

    Raises:
        UsageError: When nothing of the kind is there.
    """
    root = Path(path).expanduser()
    flag = "Pass --policy.path=<a folder that holds config.json and model.safetensors>."
    if not root.exists():
        if _looks_like_hub_id(path):
            return [_on_hub(path, revision, flag)]
        raise UsageError(f"there is no checkpoint at {path}.", flag)
    if root.is_file():
        raise UsageError(f"--policy.path={path} is a file, not a checkpoint folder.", flag)
    if (root / CONFIG).is_file():
        return [_local(root)]
    if (root / "pretrained_model").is_dir():
        return [_local(root / "pretrained_model")]
    folder = root / "checkpoints" if (root / "checkpoints").is_dir() else root
    found: dict[Path, CheckpointRef] = {}
    for child in sorted(folder.iterdir(), key=lambda p: (not p.name.isdigit(), p.name)):
        model = child / "pretrained_model"
        if (model / CONFIG).is_file():
            found.setdefault(model.resolve(), _local(model))
    if not found:
        missing = f"{path} has no {CONFIG}" if any(root.iterdir()) else f"{path} is empty"
        raise UsageError(f"{missing} and no <step>/pretrained_model/{CONFIG} below it: not a checkpoint.", flag)
    return sorted(found.values(), key=lambda ref: (ref.step is None, ref.step or 0))


def _local(model: Path) -> CheckpointRef:
    folder = model.parent.resolve().name if model.name == "pretrained_model" else model.name
    return CheckpointRef(str(model), int(folder) if folder.isdigit() else None, local=True)


def _on_hub(repo_id: str, revision: str | None, flag: str) -> CheckpointRef:
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError

    ref = CheckpointRef(repo_id, None, local=False, revision=revision)
    try:
        found = ref.file(CONFIG)
    except GatedRepoError as error:
        raise UsageError(
            f"the Hub repository {repo_id} is gated.", f"Ask for access on its page, then `hf auth login`. {flag}"
        ) from error
    except RepositoryNotFoundError as error:
        raise UsageError(
            f"there is no checkpoint at {repo_id}: neither a local folder nor a Hub repository you can read.",
            f"If it is private, `hf auth login` first. {flag}",
        ) from error
    except (HfHubHTTPError, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UsageError(f"{repo_id} is no local folder, and the Hub did not answer ({reason}).", flag) from error
    if found is None:
        raise UsageError(f"the Hub repository {repo_id} holds no {CONFIG}: not a LeRobot checkpoint.", flag)
    return ref


def _looks_like_hub_id(path: str) -> bool:
    parts = path.split("/")
    return len(parts) == 2 and all(parts) and not path.startswith((".", "~", "/")) and "\\" not in path


@dataclass
class LoadedPolicy:
    """A policy with its processors, as the control loop would run them.

    Args:
        ref: Where it came from.
        policy: LeRobot's ``PreTrainedPolicy``, in evaluation mode on ``device``.
        preprocessor: Observation in the data set's own units → what the policy takes.
        postprocessor: What the policy returns → action in the data set's own units.
        rename_map: Data set key → policy key, as the preprocessor applies it.
        device: Torch device.
    """

    ref: CheckpointRef
    policy: Any
    preprocessor: Any
    postprocessor: Any
    rename_map: Mapping[str, str]
    device: str

    @property
    def config(self) -> Any:
        """LeRobot's ``PreTrainedConfig``."""
        return self.policy.config


def _refuse_missing_device(device: str | None) -> None:
    """LeRobot would take the CPU instead, and say so where nobody looks."""
    from lerobot.utils.device_utils import is_torch_device_available

    if device is None:
        return
    try:
        there = is_torch_device_available(device)
    except ValueError as error:
        raise UsageError(f"--device={device}: {error}") from error
    if not there:
        raise UsageError(f"--device={device} is not available on this computer.", "Use --device=cpu, or leave it out.")


def load_config(ref: CheckpointRef, *, device: str | None = None, overrides: Sequence[str] = ()) -> Any:
    """LeRobot's config of a checkpoint, its weights untouched.

    Args:
        ref: The checkpoint.
        device: Torch device; the checkpoint's own where ``None``.
        overrides: See :func:`load_policy`.

    Raises:
        UsageError: The policy type is unknown, or an override does not fit it.
    """
    from lerobot.configs import PreTrainedConfig

    logging.getLogger("lerobot").setLevel(logging.ERROR)
    typed = [f"--policy.{word.removeprefix('--')}" for word in overrides]
    try:
        with in_the_users_terms(typed):
            return PreTrainedConfig.from_pretrained(
                ref.path, revision=ref.revision, cli_overrides=[*overrides, *([f"--device={device}"] if device else [])]
            )
    except UsageError as error:
        if error.message.startswith(("--policy.", "unknown flag")):
            raise
        fix = f"Change {', '.join(word.partition('=')[0] for word in typed)}." if typed else ""
        message = f"the config of {ref.path} cannot be used: {error.message.removeprefix('--')}"
        raise UsageError(message, fix) from error
    except Exception as error:  # a config's __post_init__ raises all kinds
        raise UsageError(f"the config of {ref.path} cannot be used: {_first_line(error)}.") from error


def load_policy(
    ref: CheckpointRef,
    *,
    device: str | None = None,
    rename_map: Mapping[str, str] | None = None,
    overrides: Sequence[str] = (),
) -> LoadedPolicy:
    """Load a checkpoint through LeRobot's factories, the way ``lerobot-rollout`` does.

    Args:
        ref: The checkpoint.
        device: Torch device; the checkpoint's own where ``None``.
        rename_map: Data set key → policy key. ``None`` keeps the map saved in the checkpoint (stock rollout erases it).
        overrides: ``--key=value`` settings of the policy's config, as ``--policy.key=value`` gives them.

    Raises:
        UsageError: When a file is missing, the policy type is unknown, or the checkpoint predates processors.
    """
    _refuse_missing_device(device)
    from lerobot.policies.factory import get_policy_class, make_pre_post_processors
    from lerobot.processor.pipeline import ProcessorMigrationError

    if all(ref.file(name) is None for name in WEIGHTS):
        raise UsageError(
            f"{ref.path} has no {WEIGHTS[0]}.", "The copy or the training run is incomplete: copy the folder again."
        )
    saved = {name: ref.read_json(name) for name in (PREPROCESSOR, POSTPROCESSOR)}
    absent = [name for name, content in saved.items() if content is None]
    if absent:
        config = ref.read_json(CONFIG) or {}
        if len(absent) == 2 and "normalization_mapping" in config:
            raise UsageError(
                f"{ref.path} is from before LeRobot's processors (it has no {PREPROCESSOR}).",
                f"Run: {MIGRATION.format(path=ref.path)}",
            )
        raise UsageError(f"{ref.path} has no {' and no '.join(absent)}.", "Copy the whole checkpoint folder again.")
    steps = {step.get("registry_name") for step in (saved[PREPROCESSOR] or {}).get("steps", [])}

    config = load_config(ref, device=device, overrides=overrides)
    config.pretrained_path = Path(ref.path) if ref.local else ref.path
    if hasattr(config, "pretrained_backbone_weights"):
        config.pretrained_backbone_weights = None  # the checkpoint's own weights replace them: no download for nothing
    if rename_map is not None and RENAME_STEP not in steps:
        raise UsageError(
            f"{ref.path} has no rename step, so --rename_map cannot be applied.", "Leave --rename_map out."
        )
    pre_overrides: dict[str, Any] = {}
    if DEVICE_STEP in steps:
        pre_overrides[DEVICE_STEP] = {"device": config.device}
    if rename_map is not None:
        pre_overrides[RENAME_STEP] = {"rename_map": dict(rename_map)}
    try:
        policy = _load_weights(get_policy_class(config.type), config)
        preprocessor, postprocessor = make_pre_post_processors(
            policy_cfg=config,
            pretrained_path=ref.path,
            pretrained_revision=ref.revision,
            preprocessor_overrides=pre_overrides,
        )
    except ProcessorMigrationError as error:
        raise UsageError(
            f"{ref.path} is from before LeRobot's processors.", f"Run: {error.migration_command}"
        ) from error
    except ImportError as error:
        raise UsageError(
            f"policy type '{config.type}' needs a package that is missing: {_first_line(error)}."
        ) from error
    except Exception as error:
        raise UsageError(
            f"the checkpoint {ref.path} does not load: {type(error).__name__}: {_first_line(error)}"
        ) from error
    policy.to(config.device)
    policy.eval()
    # A camera guard refuses live pictures; recorded ones are what is to be judged here, black frames and all.
    preprocessor.steps = [step for step in preprocessor.steps if not getattr(step, "judges_live_pictures", False)]
    applied: dict[str, str] = {}
    for step in preprocessor.steps:
        applied.update(getattr(step, "rename_map", None) or {})
    return LoadedPolicy(ref, policy, preprocessor, postprocessor, applied, str(config.device))


def _load_weights(policy_class: Any, config: Any) -> Any:
    """Weights as rollout loads them: plain, or a PEFT adapter on top of its base model."""
    if not config.use_peft:
        return policy_class.from_pretrained(config.pretrained_path, config=config, revision=config.pretrained_revision)
    from peft import PeftConfig, PeftModel  # type: ignore[import-not-found,unused-ignore]

    adapter = PeftConfig.from_pretrained(config.pretrained_path)
    base = policy_class.from_pretrained(adapter.base_model_name_or_path, config=config, revision=adapter.revision)
    return PeftModel.from_pretrained(base, config.pretrained_path, config=adapter)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
