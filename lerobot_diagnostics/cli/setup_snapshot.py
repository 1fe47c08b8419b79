"""``lerobot-setup-snapshot``: keep what the setup is while it works, and say later what has changed."""

from __future__ import annotations

from dataclasses import dataclass

from lerobot.robots.config import RobotConfig

from lerobot_diagnostics.cli.run import run_command
from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Report

COMMAND = "lerobot-setup-snapshot"


@dataclass
class SetupSnapshotConfig:
    """Save cameras, calibration, registers, versions and a picture of each view; nothing moves without --nudge=true."""

    # The arm, as for every LeRobot command; it is only read from, unless --nudge=true.
    robot: RobotConfig | None = None
    # Compare with an earlier snapshot.json instead of only saving one.
    diff: str | None = None
    # Write the calibration of the snapshot given with --diff as a new file; nothing is overwritten.
    restore_calibration: bool = False
    # Move the arm too, confirmed first: photograph each joint 4 degrees either way, so that a later --diff with
    # --nudge=true, which drives to the same poses, tells which joint's zero has moved; no model of the arm is needed.
    nudge: bool = False
    # With --nudge=true: move without waiting for ENTER.
    yes: bool = False
    # New folder; by default outputs/diagnostics/<date>/<time>_setup-snapshot.
    output_dir: str | None = None


def take_snapshot(cfg: SetupSnapshotConfig) -> Report | int:
    """Run the command."""
    from lerobot_diagnostics.diagnose import motion, nudging, snapshot
    from lerobot_diagnostics.diagnose.attribution import attribute, silence
    from lerobot_diagnostics.diagnose.live import open_for_reading
    from lerobot_diagnostics.findings import by_severity
    from lerobot_diagnostics.report.console import print_report
    from lerobot_diagnostics.report.versions import collect_versions
    from lerobot_diagnostics.report.write import output_dir, write_report
    from lerobot_diagnostics.robot.connect import make_robot
    from lerobot_diagnostics.robot.keys import need_terminal, open_keys

    before = snapshot.load(cfg.diff) if cfg.diff else None
    if cfg.restore_calibration:
        if before is None:
            raise UsageError("no snapshot to restore from.", "Pass --diff=<snapshot.json> with it.")
        for path, robot_id in snapshot.restore(before[0], cfg.robot.id if cfg.robot else None):
            print(f"wrote {path}; use it with --robot.id={robot_id}")
        return 0
    if cfg.robot is None:
        raise UsageError("no robot was named.", "Pass --robot.type=so101_follower --robot.port=… --robot.cameras=….")
    if cfg.nudge:
        need_terminal(open_keys(), cfg.yes)
    poses = []
    if cfg.nudge and before is not None and cfg.diff:
        poses = nudging.load(before[0], snapshot.file_of(cfg.diff).parent)
        if not poses:
            raise UsageError(f"{cfg.diff} holds no nudges to compare with.", nudging.RETAKE)
    robot = make_robot(cfg.robot)
    with output_dir(cfg.output_dir, COMMAND) as folder:
        print(f"Reads ports, servos and cameras (a few seconds; nothing moves{' yet' if cfg.nudge else ''}).")
        with open_for_reading(robot) as live:
            broken = [arm.error for arm in live.arms if arm.error is not None]
            if broken:
                raise broken[0]
            now = snapshot.take(live, collect_versions(), folder)
        path = snapshot.save(now, folder)
        for name, why in now["failed"].items():
            print(f"{name}: {why}")
        if before is None:
            print(f"wrote {path} ({len(now['cameras'])} cameras, {len(now['joints'])} joints)")
            if cfg.nudge:
                taken = nudging.take(robot, yes=cfg.yes)
                snapshot.save({**now, "nudges": nudging.save(taken, folder)}, folder)
                print(f"wrote {sum(map(len, taken))} nudges to it ({', '.join(taken[0][0].pictures)})")
            also = " --nudge=true" if cfg.nudge else ""
            print(f"later: lerobot-setup-snapshot --diff={path} --robot.type={cfg.robot.type} …{also}")
            return 0
        found, tables = snapshot.diff(before[0], now, before[1], snapshot.load(path)[1])
        if poses:
            with motion.driving(robot, yes=cfg.yes) as driver:
                found += nudging.judge(driver, poses).findings
        found = silence(found)
        verdict = attribute(
            found,
            next_command=lambda finding: finding.fix if finding else "",
            healthy=f"Nothing has changed since {before[0]['taken']}.",
        )
        report = Report(
            command=COMMAND,
            verdict=verdict,
            findings=by_severity(found),
            inputs={"diff": cfg.diff, "robot.type": cfg.robot.type},
            versions=collect_versions(),
            tables=tables,
        )
        print_report(report, [path, *write_report(report, folder)])
        return report


def main() -> int:
    """Entry point."""
    return run_command(SetupSnapshotConfig, take_snapshot, command=COMMAND, hardware=True)


if __name__ == "__main__":
    raise SystemExit(main())
