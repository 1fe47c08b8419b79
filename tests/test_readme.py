"""The README's commands and flags exist, each in the command whose section names it."""

import dataclasses
import re
import typing
from pathlib import Path

import pytest
from lerobot.robots.so_follower import SOFollowerRobotConfig
from lerobot.rollout.configs import RolloutConfig

from lerobot_diagnostics.align.config_align import AlignStrategyConfig
from lerobot_diagnostics.cli.camera_guard import CameraGuardConfig
from lerobot_diagnostics.cli.diagnose import DiagnoseConfig
from lerobot_diagnostics.cli.open_loop_eval import OpenLoopEvalConfig
from lerobot_diagnostics.cli.replay_compare import ReplayCompareConfig
from lerobot_diagnostics.cli.setup_snapshot import SetupSnapshotConfig

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
CONFIGS = {
    "lerobot-camera-guard": CameraGuardConfig,
    "lerobot-diagnose": DiagnoseConfig,
    "lerobot-open-loop-eval": OpenLoopEvalConfig,
    "lerobot-replay-compare": ReplayCompareConfig,
    "lerobot-rollout": RolloutConfig,
    "lerobot-setup-snapshot": SetupSnapshotConfig,
}
PATTERN = re.compile(r"--([A-Za-z_][\w.]*)")
SECTIONS = re.split(r"^## ", README, flags=re.MULTILINE)[1:]


def fields(config: type, prefix: str = "") -> set[str]:
    """Dotted names of a config's fields and of those of nested configs."""
    hints, names = typing.get_type_hints(config), set()
    for field in dataclasses.fields(config):
        names.add(prefix + field.name)
        if dataclasses.is_dataclass(hints[field.name]):
            names |= fields(hints[field.name], f"{prefix}{field.name}.")
    return names


def known(command: str) -> set[str]:
    flags = fields(CONFIGS[command])
    if "policy" in flags:
        flags |= {"policy.path", "policy.n_action_steps"}
    if "robot" in flags:
        flags |= fields(SOFollowerRobotConfig, "robot.") | {"robot.type"}
    if command == "lerobot-rollout":
        flags |= fields(AlignStrategyConfig, "strategy.") | {"strategy.type"}
    return flags | {"config_path", "help"}


def about(section: str) -> list[str]:
    """The commands that a section is about: those its code blocks call."""
    code = "\n".join(re.findall(r"```sh\n(.*?)```", section, re.DOTALL))
    return [name for name in dict.fromkeys(re.findall(r"^(lerobot-[\w-]+)", code, re.MULTILINE)) if name in CONFIGS]


COMMAND_SECTIONS = [section for section in SECTIONS if about(section)]


def test_every_command_has_a_section():
    scripts = set(re.findall(r"^(lerobot-[\w-]+) = ", PYPROJECT, re.MULTILINE))
    assert scripts == set(CONFIGS) - {"lerobot-rollout"}
    assert {name for section in SECTIONS for name in about(section)} == set(CONFIGS)


@pytest.mark.parametrize("section", COMMAND_SECTIONS, ids=[s.splitlines()[0] for s in COMMAND_SECTIONS])
def test_every_flag_is_one_of_its_section_s_commands(section):
    flags = set(PATTERN.findall(section))
    assert len(flags) >= 4
    assert flags <= set().union(*map(known, about(section)))


def test_each_command_line_has_only_its_own_flags():
    lines = [line for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
             for line in re.sub(r"\\\n", " ", block).splitlines()]  # fmt: skip
    lines += [code for code in re.findall(r"`([^`\n]+)`", README) if code.startswith("lerobot-")]
    checked = 0
    for line in lines:
        command = line.split()[0] if line.split() else ""
        if command in CONFIGS:
            assert {f.removesuffix(".") for f in PATTERN.findall(line)} <= known(command) | {"robot"}, line
            checked += 1
    assert checked >= 15


def test_a_flag_that_does_not_exist_would_be_seen():
    assert "dataset.repo_id" in known("lerobot-diagnose")
    assert "dataset.repo" not in known("lerobot-diagnose")
    assert "strategy.reference.episode" in known("lerobot-rollout")


def test_every_make_target_exists():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"(?:^|`)make (\w+)", README, re.MULTILINE)
    assert targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
