"""``lerobot-replay-compare``: does the recorded motion still land?"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lerobot.robots.config import RobotConfig

from lerobot_diagnostics.cli.recorded_data import RecordedData
from lerobot_diagnostics.cli.run import EXIT_INTERRUPTED, run_command
from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Finding, Report, Status, Table
from lerobot_diagnostics.robot.arm import MAX_GRIPPER_STEP, MAX_STEP

if TYPE_CHECKING:
    from lerobot_diagnostics.recording import Recording
    from lerobot_diagnostics.replay.judge import Outcome
    from lerobot_diagnostics.replay.plan import Plan
    from lerobot_diagnostics.replay.pump import Pump
    from lerobot_diagnostics.robot.keys import Keys

COMMAND = "lerobot-replay-compare"
EXIT_TERMINATED = 143
"""What a shell reports for a program that SIGTERM ended."""


@dataclass
class DatasetArgs(RecordedData):
    """The recorded data set."""

    # Episode to replay.
    episode: int = 0
    # Several episodes, one after the other, e.g. [0,7,23]: are the misses alike?
    episodes: list[int] | None = None


@dataclass
class ReplayCompareConfig:
    """Send an episode's recorded actions to the arm and compare what happens with the recording."""

    # The arm, as for lerobot-replay: --robot.type, --robot.port, --robot.id, --robot.cameras, …
    robot: RobotConfig | None = None
    dataset: DatasetArgs = field(default_factory=DatasetArgs)
    # 1 as recorded, 0.25 a quarter as fast.
    speed: float = 0.5
    # Allow --speed above 1.
    allow_fast: bool = False
    # Move without waiting for ENTER.
    yes: bool = False
    # Print the first recorded state, the plan and the checks; connect to nothing.
    dry_run: bool = False
    # Show live beside recorded and send nothing.
    align_only: bool = False
    # Use no cameras and no videos.
    joints_only: bool = False
    # Data set camera -> robot camera, e.g. {"front": "left_front"}.
    rename_map: dict[str, str] | None = None
    # Whether the values of a data set of before mid-2025 are of LeRobot's old convention.
    old_convention: bool | None = None
    # Attempts of each episode.
    repeat: int = 1
    # Go back after each attempt to where the arm stood at first.
    return_to_start: bool = True
    # Degrees a second on the way to the first recorded pose and back.
    ease_speed: float = 30.0
    # Largest change of a joint from one command to the next.
    max_step: float = MAX_STEP
    # The same of a gripper.
    max_gripper_step: float = MAX_GRIPPER_STEP
    # ask, landed or missed.
    outcome: str = "ask"
    # With --outcome=missed: how far, in mm seen from the base, e.g. "20 left 10 forward".
    miss: str = ""
    # Open Rerun with live and recorded views and joint curves (an .rrd file without a display).
    display_data: bool = False
    # Also show the recorded view over the live one, and their difference.
    overlay: bool = True
    # Opacity of the recorded picture over the live one.
    overlay_alpha: float = 0.5
    # Write what Rerun shows to an .rrd file in the output folder.
    save_rrd: bool = False
    # Write live | recorded | overlay to this mp4 file.
    record: str | None = None
    # New folder for report.json, report.html and pictures; by default outputs/diagnostics/<date>/<time>_replay-compare.
    output_dir: str | None = None


def replay_compare(cfg: ReplayCompareConfig) -> Report | int:
    """Run the command: plan, check, move, compare, write, print."""
    from lerobot_diagnostics.camera_names import camera_name
    from lerobot_diagnostics.recording import open_recording
    from lerobot_diagnostics.recording.rename import check_rename_map
    from lerobot_diagnostics.replay.plan import check_plan, make_plan, plan_table
    from lerobot_diagnostics.replay.session import Session
    from lerobot_diagnostics.report.console import print_report
    from lerobot_diagnostics.report.write import output_dir
    from lerobot_diagnostics.robot.connect import make_robot
    from lerobot_diagnostics.robot.joints import robot_joints
    from lerobot_diagnostics.robot.parts import without_cameras

    outcome = _check_flags(cfg)
    recording = open_recording(
        cfg.dataset.repo_id,
        root=cfg.dataset.root,
        revision=cfg.dataset.revision,
        convert=cfg.dataset.convert,
        need_videos=False,
    )
    check_rename_map(cfg.rename_map, recording, [camera_name(key) for key in recording.cameras])
    indices = cfg.dataset.episodes if cfg.dataset.episodes is not None else [cfg.dataset.episode]
    episodes = [recording.episode(index) for index in indices]
    if cfg.joints_only:
        without_cameras(cfg.robot)
    robot = make_robot(cfg.robot) if cfg.robot is not None else None
    keys = list(robot.action_features) if robot is not None else list(recording.action_names)
    joints = robot_joints(robot) if robot is not None else {}
    plans = [make_plan(e, keys, speed=cfg.speed, old_convention=cfg.old_convention) for e in episodes]
    steps = {key: cfg.max_gripper_step if joint.gripper else cfg.max_step for key, joint in joints.items()}
    checks = [finding for plan in plans for finding in check_plan(plan, joints, steps)]
    tables = [plan_table(plan, joints) for plan in plans]
    with output_dir(cfg.output_dir, COMMAND) as folder:
        run = _Run(cfg, recording, plans, checks, tables, folder)
        if cfg.dry_run or (any(f.status is Status.FAIL for f in checks) and not cfg.align_only):
            report = run.report(Session(), {}, {})
            print_report(report, run.files(report))
            return report
        return _live(run, robot, outcome)


def _check_flags(cfg: ReplayCompareConfig) -> Outcome | None:
    """The outcome given as flags, None to ask. What is wrong with the flags is said before anything is made."""
    from lerobot_diagnostics.replay.judge import Outcome, parse_miss

    if cfg.robot is None and not cfg.dry_run:
        raise UsageError("no robot was named.", "Pass --robot.type=so101_follower --robot.port=…, or --dry_run=true.")
    if not cfg.speed > 0:
        raise UsageError(f"--speed={cfg.speed:g} is not positive.", "1 is as recorded, 0.25 a quarter as fast.")
    if cfg.speed > 1 and not cfg.allow_fast:
        raise UsageError(f"--speed={cfg.speed:g} is faster than recorded.", "If you mean it: --allow_fast=true.")
    for name in ("ease_speed", "max_step", "max_gripper_step", "repeat"):
        if not getattr(cfg, name) > 0:
            raise UsageError(f"--{name}={getattr(cfg, name):g} is not positive.")
    if not 0 <= cfg.overlay_alpha <= 1:
        raise UsageError(f"--overlay_alpha={cfg.overlay_alpha:g} is not between 0 and 1.")
    if cfg.dataset.episodes is not None and not cfg.dataset.episodes:
        raise UsageError("--dataset.episodes=[] names no episode.")
    if cfg.outcome not in {"ask", "landed", "missed"}:
        raise UsageError(f"--outcome={cfg.outcome} is not known.", "Known: ask, landed, missed.")
    if cfg.record is not None and Path(cfg.record).suffix != ".mp4":
        raise UsageError(f"--record={cfg.record} does not end in .mp4.")
    if cfg.record is not None and cfg.dry_run:
        raise UsageError("with --dry_run=true nothing is seen that --record could write.", "Leave out one of the two.")
    if cfg.record is not None and Path(cfg.record).exists():
        raise UsageError(f"--record={cfg.record} exists already.", "Name a new file, or move that one away.")
    miss = parse_miss(cfg.miss)
    if miss is not None and cfg.outcome != "missed":
        raise UsageError("--miss goes with --outcome=missed.")
    return None if cfg.outcome == "ask" else Outcome(cfg.outcome == "landed", miss)


@dataclass
class _Run:
    """What all endings of the command share."""

    cfg: ReplayCompareConfig
    recording: Recording
    plans: Sequence[Plan]
    checks: list[Finding]
    tables: Sequence[Table]
    folder: Path

    def inputs(self) -> dict[str, Any]:
        cfg = self.cfg
        return {
            "dataset": self.recording.label,
            "episodes": [plan.episode.index for plan in self.plans],
            "robot": cfg.robot.type if cfg.robot is not None else None,
            "robot_id": cfg.robot.id if cfg.robot is not None else None,
            "speed": cfg.speed,
            "repeat": cfg.repeat,
            "dry_run": cfg.dry_run,
            "align_only": cfg.align_only,
        }

    def report(self, session: Any, pairs: Any, moments: Any) -> Report:
        from lerobot_diagnostics.replay.summary import summarize
        from lerobot_diagnostics.report.versions import collect_versions

        return summarize(
            COMMAND,
            session,
            self.checks,
            pairs,
            moments,
            alpha=self.cfg.overlay_alpha,
            folder=self.folder,
            inputs=self.inputs(),
            versions=collect_versions(),
            tables=self.tables,
        )

    def files(self, report: Report) -> list[Path]:
        from lerobot_diagnostics.report.write import write_report

        return list(write_report(report, self.folder))


def _live(run: _Run, robot: Any, outcome: Outcome | None) -> Report | int:
    """Connect, move, let go; then judge."""
    from lerobot_diagnostics.replay.aligning import align_report, align_views
    from lerobot_diagnostics.replay.desk import Desk
    from lerobot_diagnostics.replay.pictures import fetch_videos, pair_cameras
    from lerobot_diagnostics.replay.plan import plan_table
    from lerobot_diagnostics.replay.play import Player
    from lerobot_diagnostics.replay.session import plan_moments, run_session
    from lerobot_diagnostics.report.console import make_console, print_report, render_table
    from lerobot_diagnostics.robot.arm import Arm
    from lerobot_diagnostics.robot.connect import CalibrationDiffersError, connected
    from lerobot_diagnostics.robot.keys import need_terminal, open_keys
    from lerobot_diagnostics.robot.parts import releases_torque
    from lerobot_diagnostics.robot.stop import StopSignals

    cfg = run.cfg
    live = [key for key, feature in robot.observation_features.items() if isinstance(feature, tuple)]
    cameras = pair_cameras(live, run.recording, cfg.rename_map)
    if not cfg.joints_only:
        run.checks += cameras.findings
        run.checks += fetch_videos([plan.episode for plan in run.plans], cameras.pairs)
    with StopSignals() as stop, open_keys() as keys, _showing(cfg.yes) as show:
        need_terminal(keys, cfg.yes)
        desk = Desk(keys, stopped=stop, yes=cfg.yes, outcome=outcome, show=show)
        releases = releases_torque(robot)
        if releases:
            desk.say("Support the arm: connecting lets it go for a moment.")
        try:
            with connected(robot) as arm_robot:
                arm = Arm(arm_robot, max_step=cfg.max_step, max_gripper_step=cfg.max_gripper_step)
                player = Player(arm, stopped=stop)
                moments = {plan.episode.index: plan_moments(plan, player) for plan in run.plans}
                with _pump(run, cameras.pairs, arm) as pump:
                    if cfg.align_only:
                        seen = align_views(
                            player, run.plans[0], cameras.pairs, pump, keys, make_console(), attended=not cfg.yes
                        )
                        report = align_report(COMMAND, seen, run.checks, run.folder, run.inputs())
                        print_report(report, run.files(report))
                        return _ended(stop.name) or report
                    session = run_session(
                        player, run.plans, desk, pump,
                        repeat=cfg.repeat, ease_speed=cfg.ease_speed, return_to_start=cfg.return_to_start,
                    )  # fmt: skip
                if session.start:
                    run.tables = [plan_table(plan, arm.joints, session.start) for plan in run.plans]
                _let_go(keys, session.rested, releases, cfg.yes)
        except CalibrationDiffersError as error:
            console = make_console(sys.stderr)
            console.print(render_table(error.table, console))
            raise
    report = run.report(session, cameras.pairs, moments)
    shown = {"pictures_offered": pump.seen, "pictures_dropped": pump.dropped}
    report = dataclasses.replace(report, results={**report.results, **shown})
    files = run.files(report)
    if cfg.record is not None and Path(cfg.record).is_file():
        files.append(Path(cfg.record))
    print_report(report, files)
    return _ended(stop.name) or report


@contextlib.contextmanager
def _pump(run: _Run, pairs: Any, arm: Any) -> Iterator[Pump]:
    """What shows and records, with what was asked for."""
    from lerobot_diagnostics.replay.plan import unit_word
    from lerobot_diagnostics.replay.pump import Pump, Sink
    from lerobot_diagnostics.replay.sinks import Mp4, Viewer

    cfg, plan = run.cfg, run.plans[0]
    sinks: list[Sink] = []
    if cfg.display_data or cfg.save_rrd:
        viewer = Viewer(
            run.folder / "replay.rrd",
            keys=plan.positions,
            units=[unit_word(key, arm.joints) for key in plan.positions],
            cameras=[camera for camera, key in pairs.items() if plan.episode.has_videos(key)],
            display=cfg.display_data,
            save=cfg.save_rrd,
            alpha=cfg.overlay_alpha if cfg.overlay else None,
        )
        sinks.append(viewer)
    if cfg.record is not None:
        sinks.append(Mp4(Path(cfg.record), cfg.overlay_alpha))
    with Pump(sinks, pairs) as pump:
        yield pump
    for note in pump.notes:
        print(note)
    if pump.dropped:
        print(f"{pump.dropped} of {pump.seen} pictures were not shown or recorded, so that the arm kept its time.")
    for error in pump.errors:
        print(f"viewer and recorder: {error}", file=sys.stderr)


@contextlib.contextmanager
def _showing(yes: bool) -> Iterator[Callable[[Table | None], None] | None]:
    """Draws a table in place while somebody waits; None where standard output is no terminal.

    With ``yes`` nobody waits: each plan is printed once.
    """
    from rich.live import Live

    from lerobot_diagnostics.report.console import make_console, render_table

    console = make_console()
    if yes:
        printed = set()

        def show_once(table: Table | None) -> None:
            if table is not None and table.note not in printed:
                printed.add(table.note)
                console.print(render_table(table, console))

        yield show_once
        return
    if not sys.stdout.isatty():
        yield None
        return
    live: Live | None = None

    def show(table: Table | None) -> None:
        nonlocal live
        if table is None:
            if live is not None:
                live.stop()
            live = None
            return
        if live is None:
            live = Live(console=console, auto_refresh=False)
            live.start()
        live.update(render_table(table, console), refresh=True)

    try:
        yield show
    finally:
        show(None)


def _let_go(keys: Keys, rested: bool, releases: bool, yes: bool) -> None:
    """Before torque is released away from the rest pose: somebody holds the arm, or said that nobody waits."""
    from lerobot_diagnostics.replay.desk import Desk

    if rested or not releases:
        return
    if yes or not keys.interactive:
        print("Support the arm: its torque is released.")
        return
    with contextlib.suppress(KeyboardInterrupt):  # a second Ctrl-C: let go now, and still write the report
        Desk(keys, stopped=lambda: False).confirm("The arm holds. Support it, then press ENTER to release its torque.")


def _ended(signal_name: str | None) -> int | None:
    """The exit code after a signal."""
    if signal_name is None:
        return None
    print(f"{COMMAND}: stopped by {signal_name}.", file=sys.stderr)
    return EXIT_INTERRUPTED if signal_name == "SIGINT" else EXIT_TERMINATED


def main() -> int:
    """Entry point."""
    return run_command(ReplayCompareConfig, replay_compare, command=COMMAND, hardware=True)


if __name__ == "__main__":
    raise SystemExit(main())
