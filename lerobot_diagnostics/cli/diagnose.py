"""``lerobot-diagnose``: is it the model, the cameras, the calibration or the workspace? One verdict."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lerobot.configs import PreTrainedConfig, parser
from lerobot.robots.config import RobotConfig

from lerobot_diagnostics.cli.open_loop_eval import DatasetArgs
from lerobot_diagnostics.cli.recorded_data import RecordedData
from lerobot_diagnostics.cli.run import run_command
from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Report

COMMAND = "lerobot-diagnose"


@dataclass
class DiagnoseConfig:
    """Check everything the flags allow, cheapest first; nothing moves without --replay=true."""

    # --policy.path=<checkpoint, checkpoints/ folder, or Hub id>; --policy.<setting>=<value> overrides its config.
    policy: PreTrainedConfig | None = None
    dataset: DatasetArgs = field(default_factory=DatasetArgs)
    # A second recording, of now: has a joint's zero or the base moved between the two? No arm needed.
    dataset_after: RecordedData = field(default_factory=RecordedData)
    # The arm, as for every LeRobot command; it is only read from.
    robot: RobotConfig | None = None
    # Data set (and robot) key -> policy key, as you pass it to lerobot-rollout.
    rename_map: dict[str, str] | None = None
    # Torch device; by default the checkpoint's own.
    device: str | None = None
    # Rate of the control loop, as you pass it to lerobot-rollout.
    fps: float | None = None
    # snapshot.json of lerobot-setup-snapshot, taken while the setup worked: what has changed since. With --replay=true
    # its nudges, if it has some, tell a moved zero where no model of the arm fits.
    baseline: str | None = None
    # Write these flags to a new YAML file, for --config_path of the next run.
    save_setup: str | None = None
    # Move the arm too, confirmed first: calibration by sight at recorded poses; with a policy, what it would do with
    # the object there and with it gone (nothing of that is sent); then the replay of an episode.
    replay: bool = False
    # With --replay=true: move without waiting for ENTER; what needs a person (taking the object away) is left out.
    yes: bool = False
    # Write a corrected calibration to this new file, where a joint's zero was seen to have moved.
    save_calibration: str | None = None
    # New folder for report.json, report.html and pictures; by default outputs/diagnostics/<date>/<time>_diagnose.
    output_dir: str | None = None

    @classmethod
    def __get_path_fields__(cls) -> list[str]:
        """LeRobot's parser takes ``--policy.path`` and ``--policy.*`` out of the command line for these fields."""
        return ["policy"]


def run_diagnose(cfg: DiagnoseConfig) -> Report | int:
    """Run the command: climb, attribute, write, print."""
    from lerobot_diagnostics.diagnose import Inputs, diagnose
    from lerobot_diagnostics.diagnose.detect import describe, detect
    from lerobot_diagnostics.diagnose.run import zero_offsets
    from lerobot_diagnostics.report.console import print_report
    from lerobot_diagnostics.report.versions import collect_versions
    from lerobot_diagnostics.report.write import output_dir, write_report
    from lerobot_diagnostics.robot.connect import make_robot
    from lerobot_diagnostics.robot.keys import need_terminal, open_keys
    from lerobot_diagnostics.sight.corrected import write_corrected

    path = parser.get_path_arg("policy")
    if not (path or cfg.dataset.repo_id or cfg.dataset.root or cfg.robot):
        print("No flags: looking for ports, cameras and calibration files (nothing moves).")
        print("\n".join(describe(detect())))
        return 0
    if cfg.save_setup:
        _new_file("save_setup", cfg.save_setup)
    if cfg.baseline and cfg.robot is None:
        raise UsageError("--baseline compares a robot, and none was named.", "Pass --robot.type=… --robot.port=….")
    if cfg.save_calibration:
        if cfg.robot is None:
            raise UsageError(
                "--save_calibration corrects a robot's calibration, and none was named.", "Pass --robot.*."
            )
        _new_file("save_calibration", cfg.save_calibration)
    if cfg.replay and cfg.robot is None:
        raise UsageError("--replay=true moves an arm, and none was named.", "Pass --robot.type=… --robot.port=….")
    if cfg.replay:
        need_terminal(open_keys(), cfg.yes)
    overrides = [*parser.get_yaml_overrides("policy"), *(parser.get_cli_overrides("policy") or [])]
    data = cfg.dataset
    shown = {
        "policy.path": path, "policy_overrides": overrides, "dataset": data.root or data.repo_id,
        "episodes": data.episodes, "rename_map": cfg.rename_map, "fps": cfg.fps,
        "robot.type": cfg.robot.type if cfg.robot else None,
    }  # fmt: skip
    inputs = Inputs(
        policy_path=path,
        policy_overrides=overrides,
        repo_id=data.repo_id,
        root=data.root,
        revision=data.revision,
        convert=data.convert,
        episodes=data.episodes,
        rename_map=cfg.rename_map,
        device=cfg.device,
        fps=cfg.fps,
        robot=None if cfg.robot is None else make_robot(cfg.robot),
        baseline=cfg.baseline,
        after=_after(cfg.dataset_after),
        replay=cfg.replay,
        yes=cfg.yes,
        robot_flags=[word for word in sys.argv[1:] if word.startswith("--robot.")],
        shown={key: value for key, value in shown.items() if value not in (None, [])},
    )
    with output_dir(cfg.output_dir, COMMAND) as folder:
        report = diagnose(inputs, folder, collect_versions())
        files = list(write_report(report, folder))
        if cfg.save_setup:
            files.append(save_setup(Path(cfg.save_setup), sys.argv[1:]))
        if cfg.save_calibration and (offsets := zero_offsets(report.findings)):
            write_corrected(Path(inputs.robot.calibration_fpath), Path(cfg.save_calibration), offsets)
            files.append(Path(cfg.save_calibration))
    print_report(report, files)
    works = report.exit_code == 0 and "interrupted" not in report.results
    if works and not cfg.save_setup and cfg.robot is not None and not parser.parse_arg("config_path"):
        print(f"Works? Keep it: {COMMAND} … --save_setup=setup.yaml, later {COMMAND} --config_path=setup.yaml")
    return report


def _new_file(flag: str, path: str | Path) -> None:
    if Path(path).exists():
        raise UsageError(f"{path} is there already; nothing was overwritten.", f"Give a new file as --{flag}.")


def _after(args: RecordedData) -> dict[str, Any] | None:
    return dataclasses.asdict(args) if args.repo_id or args.root else None


def save_setup(path: Path, argv: Sequence[str]) -> Path:
    """Write flags as the YAML that ``--config_path`` reads; those of the run itself are left out.

    Raises:
        UsageError: When the file is there already.
    """
    import yaml  # type: ignore[import-untyped]

    from lerobot_diagnostics.report.write import atomic_file

    _new_file("save_setup", path)
    nested: dict[str, Any] = {}
    for word in argv:
        name, _, value = word.removeprefix("--").partition("=")
        if name in {"save_setup", "output_dir"} or not word.startswith("--"):
            continue
        at = nested
        *parents, last = name.split(".")
        for parent in parents:
            at = at.setdefault(parent, {})
        at[last] = yaml.safe_load(value)
    with atomic_file(path) as temporary:
        temporary.write_text(yaml.safe_dump(nested, sort_keys=False), encoding="utf-8")
    return path


def main() -> int:
    """Entry point."""
    return run_command(DiagnoseConfig, run_diagnose, command=COMMAND, hardware=True)


if __name__ == "__main__":
    raise SystemExit(main())
