"""``lerobot-camera-guard``: do the cameras show what was recorded? Or let the checkpoint ask that itself."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lerobot.configs import PreTrainedConfig, parser
from lerobot.robots import RobotConfig

from lerobot_diagnostics.cli.recorded_data import RecordedData
from lerobot_diagnostics.cli.run import run_command
from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Finding, Report, Status, Table, Verdict

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lerobot_diagnostics.guard.attach import Attached
    from lerobot_diagnostics.guard.capture import Opened
    from lerobot_diagnostics.guard.verdict import Decision
    from lerobot_diagnostics.vision import Comparer, ReferenceViews

COMMAND = "lerobot-camera-guard"


@dataclass
class DatasetArgs(RecordedData):
    """The recorded data set; by default the checkpoint's training data, or the views stored in a guarded one."""

    # Episodes to take reference views from, e.g. [0,3,7]; by default up to 32, evenly spread.
    episodes: list[int] | None = None


@dataclass
class CameraGuardConfig:
    """Check a robot's cameras, or pictures in files, against what was recorded; attach that check to a checkpoint."""

    # The robot whose cameras are checked; they are opened, the arm is not connected.
    robot: RobotConfig | None = None
    # Pictures in files instead, e.g. "{front: a.png, wrist: b.png}".
    images: dict[str, str] = field(default_factory=dict)
    dataset: DatasetArgs = field(default_factory=DatasetArgs)
    # --policy.path=<checkpoint folder or Hub id>: whose cameras, training data and rename map count.
    policy: PreTrainedConfig | None = None
    # Recorded key -> policy key; by default the map saved in the checkpoint.
    rename_map: dict[str, str] | None = None
    # New folder for a copy of the checkpoint with the guard in it.
    attach_to: str | None = None
    # Take the guard, and its pictures, out of --policy.path.
    detach: bool = False
    # With --attach_to: check again every so many seconds of a run; 0 checks at the start only.
    every_s: float = 0.0
    # What a finding leads to, where it differs from the default, e.g. "{MOVED: block, CHANNELS: ignore}".
    actions: dict[str, str] = field(default_factory=dict)
    # Cover each camera that the pictures leave undecided; the one that darkens decides.
    cover_test: bool = False
    # The cameras as the operating system sees them, and which recorded view each shows.
    list: bool = False
    # New folder for report.json, report.html and pictures; by default outputs/diagnostics/<date>/<time>_camera-guard.
    output_dir: str | None = None

    def __post_init__(self) -> None:
        if self.every_s < 0:
            raise UsageError(f"--every_s={self.every_s} is negative.", "Pass --every_s=0 to check at the start only.")

    @classmethod
    def __get_path_fields__(cls) -> Sequence[str]:
        """LeRobot's parser takes ``--policy.path`` and ``--policy.*`` out of the command line for these fields."""
        return ["policy"]


def guard_cameras(cfg: CameraGuardConfig) -> Report | int:
    """Run the command."""
    from lerobot_diagnostics.guard.verdict import checked_actions
    from lerobot_diagnostics.report.write import output_dir

    actions = checked_actions(cfg.actions)
    folder = _checkpoint()
    if cfg.detach:
        return _detach(folder)
    if cfg.attach_to is not None and folder is None:
        raise UsageError("--attach_to needs a checkpoint to copy.", "Pass --policy.path=<folder or Hub id>.")
    live_wanted = cfg.robot is not None or bool(cfg.images)
    if not live_wanted and cfg.attach_to is None and not cfg.list:
        raise UsageError(
            "there is nothing to check.",
            'Pass --robot.type=… --robot.cameras=…, --images="{front: a.png}", --attach_to=<folder> or --list=true.',
        )
    references, source = _references(cfg, folder)
    if references is None and not cfg.list:
        raise UsageError(
            "nothing says what the cameras should show.",
            "Pass --dataset.repo_id=user/name, --dataset.root=<folder>, or --policy.path=<checkpoint>.",
        )
    comparer = _comparer(references)
    result = _Result(source)
    with output_dir(cfg.output_dir, COMMAND) as new:
        if comparer is not None and cfg.attach_to is not None:
            result.attached = _attach(cfg, folder, references)
            result.self_test = comparer.self_test()
        if cfg.list:
            _survey(result, comparer)
        if live_wanted and comparer is not None:
            result.live, pictures = _check(cfg, comparer)
            result.pictures |= pictures
        return _report(cfg, result, actions, comparer, new)


@dataclass
class _Result:
    """What the run has found so far."""

    source: str
    attached: Attached | None = None
    self_test: Sequence[Finding] = ()
    live: Sequence[Finding] = ()
    tables: Sequence[Table] = ()
    pictures: dict[str, NDArray[np.uint8]] = field(default_factory=dict)


# ---- what the cameras should show


def _checkpoint() -> Path | None:
    """The folder of ``--policy.path``, fetched if it is on the Hub; its last checkpoint if there are several."""
    from lerobot_diagnostics.openloop.checkpoint import find_checkpoints

    path = parser.get_path_arg("policy")
    if not path:
        return None
    ref = find_checkpoints(path)[-1]
    if ref.local:
        return Path(ref.path)
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(ref.path))
    except OSError as error:
        raise UsageError(f"{path} cannot be fetched: {error}.", "Check the connection, or pass a folder.") from error


def _references(cfg: CameraGuardConfig, folder: Path | None) -> tuple[ReferenceViews | None, str]:
    """Reference views and where they come from: the data set named, the guarded checkpoint's own, its training data."""
    from lerobot_diagnostics.camera_names import camera_key
    from lerobot_diagnostics.guard import attach
    from lerobot_diagnostics.guard.references import build_references, match_cameras
    from lerobot_diagnostics.openloop.split import resolve_root, training_data
    from lerobot_diagnostics.recording import open_recording
    from lerobot_diagnostics.recording.rename import check_rename_map

    repo_id, root, revision = cfg.dataset.repo_id, cfg.dataset.root, cfg.dataset.revision
    episodes = cfg.dataset.episodes
    if repo_id is None and root is None:
        if folder is None:
            return None, ""
        if attach.guard_of(folder) is not None:
            stored = attach.stored_references(folder)
            recorded = ["observation.state", *map(camera_key, stored.cameras), *attach.saved_rename_map(folder)]
            check_rename_map(cfg.rename_map, None, [*recorded, *_robot_keys(cfg)])
            return stored, "the views stored in the checkpoint"
        path = folder / "train_config.json"
        training = training_data(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else None
        if training is None:
            raise UsageError(
                "the checkpoint does not say which data set it was trained on.",
                "Pass --dataset.repo_id=user/name or --dataset.root=<folder>.",
            )
        found = resolve_root(training.root, folder)
        if training.root is not None and found is None:
            raise UsageError(
                f"the training data set's folder {training.root} is not here.", "Pass --dataset.root=<folder>."
            )
        repo_id, root, revision = training.repo_id, str(found) if found else None, training.revision
        episodes = episodes if episodes is not None else list(training.episodes or ()) or None
    recording = open_recording(repo_id, root=root, revision=revision, convert=cfg.dataset.convert)
    check_rename_map(cfg.rename_map, recording, _robot_keys(cfg))
    saved = attach.saved_rename_map(folder) if folder else {}
    wanted = attach.policy_cameras(folder) if folder else None
    cameras = match_cameras(recording.cameras, saved if cfg.rename_map is None else cfg.rename_map, wanted)
    return build_references(recording, cameras, episodes), recording.label


def _robot_keys(cfg: CameraGuardConfig) -> Sequence[str]:
    """The live cameras' keys, whether they come from a robot or from files."""
    from lerobot_diagnostics.camera_names import camera_key
    from lerobot_diagnostics.guard.capture import camera_configs

    return [camera_key(name) for name in (*cfg.images, *camera_configs(cfg.robot))]


def _comparer(references: ReferenceViews | None) -> Comparer | None:
    from lerobot_diagnostics.vision import Comparer

    return None if references is None else Comparer(references)


# ---- attach and detach


def _attach(cfg: CameraGuardConfig, folder: Path | None, references: ReferenceViews | None) -> Attached:
    from lerobot_diagnostics.guard.attach import attach

    assert folder is not None and references is not None and cfg.attach_to is not None
    target = Path(cfg.attach_to).expanduser()
    done = attach(folder, target, references, every_s=cfg.every_s, actions=cfg.actions)
    largest = max(done.bytes_a_camera.values()) / 1e6
    print(f"wrote {done.folder}: {done.linked} large files linked, {done.copied} copied.")
    print(
        f"It holds small pictures of the room ({largest:.2f} MB a camera). Before you push it to the Hub: "
        f"{COMMAND} --policy.path={done.folder} --detach=true"
    )
    if done.linked:
        print("Linked files are the original's own: train into another folder, not into this one.")
    return done


def _detach(folder: Path | None) -> int:
    from lerobot_diagnostics.guard.attach import detach

    path = parser.get_path_arg("policy")
    if folder is None or not Path(path).expanduser().exists():
        raise UsageError("--detach=true needs a local checkpoint.", "Pass --policy.path=<folder>.")
    detach(folder)
    print(f"the guard and its pictures are out of {folder}.")
    return 0


# ---- all cameras of the machine


def _survey(result: _Result, comparer: Comparer | None) -> None:
    import platform

    from lerobot.cameras import make_cameras_from_configs
    from lerobot.cameras.opencv import OpenCVCameraConfig

    from lerobot_diagnostics.guard.capture import opened
    from lerobot_diagnostics.guard.devices import list_devices, stable_paths
    from lerobot_diagnostics.guard.survey import Snapshot, survey

    found = list_devices()
    paths = stable_paths(found)
    configs = {str(d.index): OpenCVCameraConfig(index_or_path=_device(paths[d.index])) for d in found}
    with opened(configs, make_cameras_from_configs) as cameras:
        taken = cameras.grab()
        snapshots = {
            device.index: Snapshot(taken[name][-1], float(cameras.cameras[name].fps or 0))
            if (name := str(device.index)) in taken
            else Snapshot(None, 0.0, cameras.failed[name][0])
            for device in found
        }
    ports = [path.name for path in Path("/dev/serial/by-path").glob("*")]
    done = survey(found, snapshots, comparer, linux=platform.system() == "Linux", serial_ports=ports)
    result.tables, result.pictures = [done.table], done.pictures
    print("\n".join(done.lines))


def _device(path: str | int) -> Path | int:
    return Path(path) if isinstance(path, str) else path


# ---- the check


def _check(cfg: CameraGuardConfig, comparer: Comparer) -> tuple[Sequence[Finding], dict[str, NDArray[np.uint8]]]:
    """Findings about the live pictures (or those in files), and the last picture of each camera."""
    from lerobot_diagnostics.guard.capture import failures, nothing_opened

    if cfg.images:
        shown = _policy_names({name: [_read(name, path)] for name, path in cfg.images.items()}, cfg.rename_map)
        return comparer.compare(shown), {name: pictures[-1] for name, pictures in shown.items()}
    with _cameras(cfg.robot) as (opened, unstable):
        taken = opened.grab() if opened.cameras else {}
        if not taken:
            raise nothing_opened(opened.failed)
        live = _policy_names(taken, cfg.rename_map)
        findings = [*comparer.compare(live), *unstable]
        if cfg.cover_test:
            findings = [*_cover(cfg, comparer, findings, opened)]
    failed = _policy_names(opened.failed, cfg.rename_map)
    findings = [f for f in findings if not (f.code == "MISSING_CAMERA" and f.subject in failed)]
    return [*failures(failed), *findings], {name: pictures[-1] for name, pictures in live.items()}


def _policy_names[V](by_robot_name: Mapping[str, V], rename_map: Mapping[str, str] | None) -> dict[str, V]:
    """Keyed by the policy's camera names: what ``--rename_map`` makes of the robot's."""
    from lerobot_diagnostics.camera_names import camera_key, camera_name

    renames = rename_map or {}
    return {
        camera_name(renames.get(camera_key(name), camera_key(name))): value for name, value in by_robot_name.items()
    }


def _read(name: str, path: str) -> NDArray[np.uint8]:
    import numpy as np
    from PIL import Image

    try:
        with Image.open(Path(path).expanduser()) as picture:
            return np.array(picture.convert("RGB"))
    except OSError as error:
        raise UsageError(
            f"--images: {name}: {path} cannot be read as a picture ({error}).", "Check the path."
        ) from error


@contextlib.contextmanager
def _cameras(robot: Any) -> Iterator[tuple[Opened, Sequence[Finding]]]:
    """The robot's cameras, open. A simulation, whose cameras are no devices of their own, is connected itself."""
    from lerobot.cameras import CameraConfig, make_cameras_from_configs

    from lerobot_diagnostics.guard.capture import Opened, camera_configs, opened, unstable_indices

    configs = camera_configs(robot)
    if not configs:
        raise UsageError("the robot has no cameras.", 'Pass --robot.cameras="{front: {type: opencv, …}}".')
    if all(isinstance(config, CameraConfig) for config in configs.values()):
        with opened(configs, make_cameras_from_configs) as cameras:
            yield cameras, unstable_indices(configs)
        return
    from lerobot.robots import make_robot_from_config

    simulation = make_robot_from_config(robot)
    simulation.connect()
    try:
        # One picture: a simulation that stands still repeats itself, which is no frozen camera.
        yield Opened({name: _Simulated(simulation, name) for name in configs}, {}, pictures=1), []
    finally:
        simulation.disconnect()


class _Simulated:
    """One camera of a simulated robot, read as a camera is."""

    def __init__(self, robot: Any, name: str) -> None:
        self._robot, self._name = robot, name

    def async_read(self, timeout_ms: float) -> Any:  # noqa: ARG002
        return self._robot.get_observation()[self._name]


def _cover(
    cfg: CameraGuardConfig, comparer: Comparer, findings: Sequence[Finding], opened: Opened
) -> Sequence[Finding]:
    """The findings with UNDECIDED ones replaced by what covering the cameras showed."""
    from lerobot_diagnostics.guard.cover import cover_test

    doubted = [f.subject for f in findings if f.code == "UNDECIDED" and f.status is Status.UNKNOWN]
    asked = [name for name in comparer.names if name in doubted]
    if not asked:
        print("The pictures decide for every camera: nothing to cover.")
        return findings
    decided = cover_test(asked, lambda: _policy_names(opened.grab(), cfg.rename_map), input)
    settled = {f.subject for f in decided if f.status is not Status.UNKNOWN}
    return [*(f for f in findings if not (f.code == "UNDECIDED" and f.subject in settled)), *decided]


# ---- the report


def _report(
    cfg: CameraGuardConfig, result: _Result, actions: Mapping[str, str], comparer: Comparer | None, folder: Path
) -> Report | int:
    from lerobot_diagnostics.guard.verdict import Limits, decide
    from lerobot_diagnostics.report.console import print_report
    from lerobot_diagnostics.report.versions import collect_versions
    from lerobot_diagnostics.report.write import write_report

    decision = decide(result.live, actions, Limits())
    attached = result.attached
    report = Report(
        command=COMMAND,
        verdict=_verdict(decision, result),
        findings=[*result.self_test, *result.live],
        inputs={
            "references": result.source,
            "actions": dict(actions),
            "rename_map": cfg.rename_map,
            "images": cfg.images,
        },
        versions=collect_versions(),
        results={
            "attached_to": None if attached is None else str(attached.folder),
            "bytes_a_camera": None if attached is None else attached.bytes_a_camera,
            "would_block": [f.code for f in decision.block],
            **({} if result.live else {"done": "guarded" if attached else "cameras listed"}),
        },
        tables=list(result.tables),
        pictures=_draw(folder, result.pictures, comparer),
    )
    print_report(report, list(write_report(report, folder)))
    return report if report.exit_code or not decision.block else 1


def _verdict(decision: Decision, result: _Result) -> Verdict:
    from lerobot_diagnostics.guard.verdict import verdict

    doubts = [f.summary for f in (*result.self_test, *result.live) if f.status is Status.UNKNOWN]
    if decision.block:
        what, fix = verdict(decision.block)
        undecided = all(f.status is Status.UNKNOWN for f in decision.block)
        cause = "undecided" if undecided else decision.block[0].cause.value
        return Verdict(cause, f"{what} {fix}".strip(), sorted({f.code for f in decision.block}), doubts)
    if decision.warn:
        first = decision.warn[0]
        cause = "undecided" if first.status is Status.UNKNOWN else first.cause.value
        said = f"{first.code}: {first.summary}. {first.fix}"
        return Verdict(cause, said, sorted({f.code for f in decision.warn}), doubts)
    if result.live:
        return Verdict("none_found", "every camera shows the view recorded under its name.", (), doubts)
    what = "the checkpoint is guarded" if result.attached else "the cameras are listed"
    twins = [f.summary for f in result.self_test if f.status is Status.WARN]
    return Verdict("none_found", f"{what}; no live picture was checked.", (), [*twins, *doubts])


def _draw(folder: Path, pictures: Mapping[str, NDArray[np.uint8]], comparer: Comparer | None) -> Sequence[Any]:
    """A file a camera: the picture now, beside the recorded one that is most like it."""
    import numpy as np
    from PIL import Image

    from lerobot_diagnostics.findings import Picture
    from lerobot_diagnostics.report.write import atomic_file, file_name

    drawn = []
    for name, picture in pictures.items():
        height, width = 240, round(240 * picture.shape[1] / picture.shape[0])
        parts = [np.asarray(Image.fromarray(picture).resize((width, height)))]
        caption = f"{name} now"
        if comparer is not None and name in comparer.names:
            recorded = Image.fromarray(comparer.references.cameras[name].views[0])
            parts.append(np.asarray(recorded.resize((round(240 * recorded.width / recorded.height), 240))))
            caption = f"{name}: now, and as recorded"
        path = f"{file_name(name)}.png"
        with atomic_file(folder / path) as temporary:
            Image.fromarray(np.concatenate(parts, axis=1)).save(temporary)
        drawn.append(Picture(path, caption, "cameras"))
    return drawn


def main() -> int:
    """Entry point."""
    return run_command(CameraGuardConfig, guard_cameras, command=COMMAND, hardware=True)


if __name__ == "__main__":
    raise SystemExit(main())
