"""``lerobot-open-loop-eval``: does the checkpoint reproduce the demonstrations it was trained on?"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lerobot.configs import PreTrainedConfig, parser

from lerobot_diagnostics.cli.run import run_command
from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Report

if TYPE_CHECKING:
    from lerobot_diagnostics.openloop.split import TrainingData
    from lerobot_diagnostics.recording import Recording

COMMAND = "lerobot-open-loop-eval"
EPISODES_PER_SIDE = 10
"""Evaluated of each side unless --dataset.episodes or --all_episodes asks for others: minutes, not hours."""


@dataclass
class DatasetArgs:
    """The recorded data set; the checkpoint's training data set by default."""

    # Data set on the Hub or in the local cache, e.g. user/my_data.
    repo_id: str | None = None
    # Local folder of the data set.
    root: str | None = None
    # Branch, tag or commit on the Hub.
    revision: str | None = None
    # Episodes to evaluate, e.g. [0,3,7]; by default up to 10 training and 10 held-out ones, evenly spread.
    episodes: list[int] | None = None
    # Convert a v2.1 data set on a copy, with LeRobot's converter.
    convert: bool = False


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
    from lerobot_diagnostics.openloop.evaluate import ablate_pictures, evaluate
    from lerobot_diagnostics.openloop.pictures import draw
    from lerobot_diagnostics.openloop.scores import read_baselines
    from lerobot_diagnostics.openloop.split import HELD_OUT, TRAIN, UNSEEN, derive_split, training_data
    from lerobot_diagnostics.openloop.summary import stats_findings, summarize
    from lerobot_diagnostics.report.console import print_report
    from lerobot_diagnostics.report.versions import collect_versions
    from lerobot_diagnostics.report.write import prepare_output_dir, write_report

    path = parser.get_path_arg("policy")
    if not path:
        raise UsageError("no checkpoint was named.", "Pass --policy.path=<checkpoint folder or Hub id>.")
    refs = find_checkpoints(path)
    overrides = [*parser.get_yaml_overrides("policy"), *(parser.get_cli_overrides("policy") or [])]
    training = training_data(refs[-1].read_json("train_config.json"))
    recording, same = _open(cfg.dataset, training, Path(refs[-1].path) if refs[-1].local else None)
    given = training.episodes if training and training.episodes is not None else recording.episode_indices
    asked = [e for e in given if e in recording.episode_indices] if same and training and training.eval_split else []
    first_task = {e: recording.episode(e).task for e in asked}
    split = derive_split(training, same_dataset=same, episodes=recording.episode_indices, first_task=first_task)
    episodes = _choose(cfg, split.sides, (TRAIN, HELD_OUT, UNSEEN))
    for index in episodes:
        recording.episode(index)  # says which exist, before anything is made
    baselines = read_baselines(recording, split.of(TRAIN), episodes)

    def load(ref: Any) -> Any:
        return load_policy(ref, device=cfg.device, rename_map=cfg.rename_map, overrides=overrides)

    loaded = load(refs[-1])
    stats = stats_findings(loaded, recording, trained_on=same, limit=200)
    output_dir = prepare_output_dir(cfg.output_dir, COMMAND)
    with _progress() as progress:
        evaluation = evaluate(
            recording,
            [(index, split.sides[index]) for index in episodes],
            refs,
            lambda ref: loaded if ref is refs[-1] else load(ref),
            batch_size=cfg.batch_size,
            seed=cfg.seed,
            progress=progress,
        )
    finished = not evaluation.interrupted and loaded.ref.label in evaluation.plans
    ablation = ablate_pictures(evaluation, loaded, recording, seed=cfg.seed) if finished else None
    report, sides, units = summarize(
        evaluation,
        recording,
        split,
        baselines,
        ablation=ablation,
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
        output_dir=output_dir,
    )
    if sides:
        drawn = list(
            draw(output_dir, list(sides.values()), recording.action_names, units, recording.fps, recording.cameras)
        )
        report = dataclasses.replace(report, pictures=[*report.pictures, *drawn])
    files = list(write_report(report, output_dir))
    if sides and (cfg.display_data or cfg.save_rrd):
        files += _log_to_rerun(cfg, output_dir, sides, recording, units)
    print_report(report, files)
    return report


def _open(args: DatasetArgs, training: TrainingData | None, checkpoint: Path | None) -> tuple[Recording, bool]:
    """The data set asked for, or the one training used; and whether it is that one."""
    from lerobot_diagnostics.openloop.split import resolve_root
    from lerobot_diagnostics.recording import open_recording

    repo_id, root = args.repo_id, args.root
    trained_root = resolve_root(training.root, checkpoint) if training else None
    if repo_id is None and root is None:
        if training is None:
            raise UsageError(
                "the checkpoint does not say which data set it was trained on.",
                "Pass --dataset.repo_id=user/name or --dataset.root=<folder>.",
            )
        if training.root is not None and trained_root is None:
            raise UsageError(
                f"the training data set's folder {training.root} is not here.", "Pass --dataset.root=<folder>."
            )
        repo_id, root = training.repo_id, str(trained_root) if trained_root else None
    recording = open_recording(repo_id, root=root, revision=args.revision, convert=args.convert)
    same = training is not None and (
        (trained_root is not None and recording.root.resolve() == trained_root.resolve())
        or (repo_id is not None and repo_id == training.repo_id)
    )
    return recording, same


def _choose(cfg: OpenLoopEvalConfig, sides: Any, order: tuple[str, ...]) -> list[int]:
    """Episodes to evaluate: those asked for, else some of each side (unseen ones only without held-out ones)."""
    from lerobot_diagnostics.openloop.scores import spread

    known = sorted(sides)
    if cfg.dataset.episodes is not None:
        if not cfg.dataset.episodes:
            raise UsageError("--dataset.episodes=[] names no episode.", f"There are {len(known)}: 0-{known[-1]}.")
        unknown = [e for e in cfg.dataset.episodes if e not in sides]
        if unknown:
            raise UsageError(
                f"there is no episode {unknown[0]}; the data set has 0-{known[-1]}.", "Choose with --dataset.episodes."
            )
        return sorted(set(cfg.dataset.episodes))
    train, held_out, not_given = ([e for e in known if sides[e] == side] for side in order)
    others = [e for e in known if sides[e] not in order]
    groups = [train, held_out if held_out else not_given, others]
    limit = len(known) if cfg.all_episodes else EPISODES_PER_SIDE
    return sorted(e for group in groups for e in spread(group, limit))


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
