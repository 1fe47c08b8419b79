"""Without flags: the command that is suggested."""

from pathlib import Path

from lerobot_diagnostics.diagnose.detect import describe, detect


def suggested(ports=(), cameras=(), calibrations=()):
    lines = describe(detect(lambda: list(ports), lambda: list(cameras), lambda: list(calibrations)))
    return next(line for line in lines if line.startswith("next: "))


def test_what_is_there_goes_into_the_command():
    line = suggested([("/dev/ttyACM0", "USB")], ["/dev/v4l/by-id/cam"], [Path("robots/so_follower/mine.json")])
    assert "--robot.type=so101_follower --robot.port=/dev/ttyACM0 --robot.id=mine" in line
    assert "index_or_path: /dev/v4l/by-id/cam" in line


def test_another_robots_calibration_names_its_type():
    assert "--robot.type=koch_follower" in suggested([("COM3", "")], [], [Path("robots/koch_follower/arm.json")])


def test_nothing_there_still_says_what_to_type():
    assert suggested() == "next: lerobot-diagnose --policy.path=<checkpoint> --dataset.repo_id=<user/data>"
