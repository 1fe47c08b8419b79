"""``lerobot-open-loop-eval``: does the checkpoint reproduce the demonstrations it was trained on?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lerobot.configs import PreTrainedConfig, parser

from lerobot_diagnostics.cli.recorded_data import RecordedData
from lerobot_diagnostics.cli.run import run_command
from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Report

if TYPE_CHECKING:
    from lerobot_diagnostics.recording import Recording

COMMAND = "lerobot-open-loop-eval"
EPISODES_PER_SIDE = 10
"""Evaluated of each side unless --dataset.episodes or --all_episodes asks for others: minutes, not hours."""


@dataclass
class DatasetArgs(RecordedData):
    """The recorded data set; the checkpoint's training data set by default."""

    # Episodes to evaluate, e.g. [0,3,7]; by default up to 10 training and 10 held-out ones, evenly spread.
    episodes: list[int] | None = None


@dataclass
class OpenLoopEvalConfig:
    """Compare a checkpoint's predictions with recorded actions, joint by joint."""

    # --policy.path=<checkpoint, checkpoints/ folder, or Hub id>; --policy.<setting>=<value> overrides its config.
    policy: PreTrainedConfig | None = None
    dataset: DatasetArgs = field(default_factory=DatasetArgs)
    # Data set key -> policy key; by default the map saved in the checkpoint.
    rename_map: dict[str, str] | None = None
    # Torch device; by default the checkpoint's own.
    device: str | None = None
    # Observations per forward pass.
    batch_size: int = 8
    # Seed of the noise that diffusion and flow-matching policies draw.
    seed: int = 0
    # Evaluate all episodes instead of up to 10 of each side.
    all_episodes: bool = False
    # New folder for report.json, report.html and pictures; by default outputs/diagnostics/<date>/<time>_open-loop-eval.
    output_dir: str | None = None
    # Open Rerun with the videos beside the joint curves (an .rrd file without a display).
    display_data: bool = False
    # Write the same to an .rrd file in the output folder.
    save_rrd: bool = False

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise UsageError(f"--batch_size={self.batch_size} is not a positive number.", "Pass --batch_size=8.")

    @classmethod
    def __get_path_fields__(cls) -> list[str]:
        """LeRobot's parser takes ``--policy.path`` and ``--policy.*`` out of the command line for these fields."""
        return ["policy"]


def evaluate_open_loop(cfg: OpenLoopEvalConfig) -> Report:
    """Run the command: find, predict, judge, write, print."""
    from lerobot_diagnostics.openloop.checkpoint import find_checkpoints, load_policy
    from lerobot_diagnostics.openloop.session import choose_episodes, open_session, run_session
    from lerobot_diagnostics.openloop.summary import stats_findings
    from lerobot_diagnostics.recording.rename import check_rename_map
    from lerobot_diagnostics.report.console import print_report
    from lerobot_diagnostics.report.versions import collect_versions
    from lerobot_diagnostics.report.write import output_dir, write_report

    path = parser.get_path_arg("policy")
    if not path:
        raise UsageError("no checkpoint was named.", "Pass --policy.path=<checkpoint folder or Hub id>.")
    refs = find_checkpoints(path)
    overrides = [*parser.get_yaml_overrides("policy"), *(parser.get_cli_overrides("policy") or [])]
    data = cfg.dataset
    session = open_session(refs, repo_id=data.repo_id, root=data.root, revision=data.revision, convert=data.convert)
    recording = session.recording
    check_rename_map(cfg.rename_map, recording)
    episodes = choose_episodes(session.split, data.episodes, None if cfg.all_episodes else EPISODES_PER_SIDE)
    for index in episodes:
        recording.episode(index)  # says which exist, before anything is made

    def load(ref: Any) -> Any:
        return load_policy(ref, device=cfg.device, rename_map=cfg.rename_map, overrides=overrides)

    loaded = load(refs[-1])
    stats = stats_findings(loaded, recording, trained_on=session.same, limit=200)
    with output_dir(cfg.output_dir, COMMAND) as folder:
        with _progress() as progress:
            report, sides, units = run_session(
                session,
                loaded,
                load,
                episodes,
                stats=stats,
                inputs={
                    "policy.path": path,
                    "checkpoints": [ref.label for ref in refs],
                    "dataset": recording.label,
                    "episodes": episodes,
                    "rename_map": dict(loaded.rename_map),
                    "device": loaded.device,
                    "batch_size": cfg.batch_size,
                    "policy_overrides": overrides,
                },
                versions=collect_versions(),
                output_dir=folder,
                batch_size=cfg.batch_size,
                seed=cfg.seed,
                progress=progress,
            )
        files = list(write_report(report, folder))
    if sides and (cfg.display_data or cfg.save_rrd):
        files += _log_to_rerun(cfg, folder, sides, recording, units)
    print_report(report, files)
    return report


class _progress:  # noqa: N801
    """tqdm bars for :func:`evaluate`, closed at the end."""

    def __enter__(self) -> Callable[[int, str], Callable[[int], None]]:
        from tqdm import tqdm

        self._bars: list[Any] = []

        def start(total: int, text: str) -> Callable[[int], None]:
            bar = tqdm(total=total, desc=text, unit="frame", leave=False)
            self._bars.append(bar)
            return lambda done: bar.update(done) and None

        return start

    def __exit__(self, *_error: object) -> None:
        for bar in self._bars:
            bar.close()


def _log_to_rerun(
    cfg: OpenLoopEvalConfig, folder: Path, sides: Any, recording: Recording, units: list[str]
) -> list[Path]:
    from lerobot_diagnostics.report.rerun_log import RerunLog

    path = folder / "open_loop.rrd"
    log = RerunLog(path, names=recording.action_names, units=units, display=cfg.display_data, save=cfg.save_rrd)
    with log:
        for side in sides.values():
            for result in side.results:
                episode = result.episode
                log.joints(episode.index, episode.timestamps, episode.actions, result.predicted[side.label])
                for camera in recording.cameras:
                    for t, image in zip(episode.timestamps, episode.frames(camera), strict=True):
                        log.frame(episode.index, camera, float(t), image)
    if log.note:
        print(log.note)
    return [path] if log.saves else []


def main() -> int:
    """Entry point."""
    return run_command(OpenLoopEvalConfig, evaluate_open_loop, command=COMMAND)


if __name__ == "__main__":
    raise SystemExit(main())
