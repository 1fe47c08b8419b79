"""The README's commands and flags exist."""

import dataclasses
import re
from pathlib import Path

from lerobot_diagnostics.cli.open_loop_eval import DatasetArgs, OpenLoopEvalConfig

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_flag_of_the_readme_is_a_flag_of_the_command():
    known = {field.name for field in dataclasses.fields(OpenLoopEvalConfig)}
    known |= {f"dataset.{field.name}" for field in dataclasses.fields(DatasetArgs)}
    known |= {"policy.path", "policy.n_action_steps", "robot.type"}
    flags = {flag.split("=")[0] for flag in re.findall(r"`--([\w.]+[=\w.]*)", README)}
    assert len(flags) > 10
    assert flags <= known


def test_every_command_of_the_readme_is_installed_or_made():
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for command in re.findall(r"^(lerobot-[\w-]+)", README, re.MULTILINE):
        assert f"{command} = " in pyproject
    for target in re.findall(r"(?:^|`)make (\w+)", README, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
