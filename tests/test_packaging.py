"""Both distributions build, install as wheel and editable, and LeRobot's own discovery then finds the plugin."""

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BOTH = (ROOT / "discovery", ROOT)

DISCOVER = """
import sys, time
from lerobot.utils.import_utils import register_third_party_plugins
before = set(sys.modules)
start = time.perf_counter()
register_third_party_plugins()
plugin = sys.modules.get("lerobot_diagnostics.plugin")
print("plugin", plugin.__file__ if plugin else None)
print("cost_s", round(time.perf_counter() - start, 3))
print("heavy", sorted({"mujoco", "rerun", "lerobot.rollout", "matplotlib", "scipy"} & (set(sys.modules) - before)))
"""
ROBOT = """
import scservo_sdk
from lerobot.robots.so_follower import SO101FollowerConfig
from lerobot.robots import RobotConfig
print("robot", RobotConfig.get_choice_class("so101_follower").__name__)
"""

STRATEGY = """
import lerobot.scripts.lerobot_rollout as script
from lerobot.utils.import_utils import register_third_party_plugins
register_third_party_plugins()
from lerobot.rollout import RolloutStrategyConfig
config = RolloutStrategyConfig.get_choice_class("align")()
print("strategy", type(script.create_strategy(config)).__name__)
base = RolloutStrategyConfig.get_choice_class("base")()
print("stock", type(script.create_strategy(base)).__name__)
"""


def python(executable: Path, code: str) -> str:
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [executable, "-c", code], capture_output=True, text=True, env=env, cwd=executable.parent, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def clean(tmp_path) -> Path:
    """Python of an environment that has what we depend on, and nothing of ours.

    The dependencies come through a .pth file, which adds the folder without reading the .pth files in it: an editable
    install of ours in the environment that runs the tests is not seen.
    """
    folder = tmp_path / "clean"
    venv.create(folder, with_pip=False)
    scripts = "Scripts" if os.name == "nt" else "bin"
    executable = folder / scripts / ("python.exe" if os.name == "nt" else "python")
    site = sysconfig.get_path("purelib", "venv", vars={"base": str(folder), "platbase": str(folder)})
    (Path(site) / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    assert "plugin None" in python(executable, DISCOVER)
    return executable


def pip(*arguments: object) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


OFFLINE = ("--no-deps", "--no-build-isolation", "--no-index")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory) -> list[Path]:
    folder = tmp_path_factory.mktemp("wheels")
    pip("wheel", *OFFLINE, "--wheel-dir", folder, *BOTH)
    return sorted(folder.glob("*.whl"))


def test_the_wheels_hold_what_the_package_needs_and_nothing_else(wheels):
    contents = {wheel.name.split("-")[0]: zipfile.ZipFile(wheel).namelist() for wheel in wheels}
    assert set(contents) == {"lerobot_diagnostics", "lerobot_robot_diagnostics"}
    package = contents["lerobot_diagnostics"]
    for data in ("lerobot_diagnostics/report/page.html.j2", "lerobot_diagnostics/findings.py"):
        assert data in package
    assert not [name for name in package if name.startswith(("tests/", "benchmarks/", "shared/"))]
    modules = [name for name in contents["lerobot_robot_diagnostics"] if "dist-info" not in name]
    assert modules == ["lerobot_robot_diagnostics.py"]
    metadata = zipfile.ZipFile(wheels[1]).read(
        next(n for n in contents["lerobot_robot_diagnostics"] if n.endswith("METADATA"))
    )
    assert b"\nName: lerobot_robot_diagnostics\n" in metadata  # a dash would never be discovered


def test_wheels_are_found_by_lerobots_discovery(wheels, clean):
    pip("--python", clean, "install", *OFFLINE, *wheels)
    found = python(clean, DISCOVER)
    assert str(clean.parents[1]) in found.splitlines()[0]
    assert "heavy []" in found
    assert "robot SOFollowerRobotConfig" in python(clean, ROBOT)
    assert "strategy AlignStrategy\nstock BaseStrategy" in python(clean, STRATEGY)


def test_editable_installs_are_found_by_lerobots_discovery(clean):
    pip("--python", clean, "install", *OFFLINE, "--editable", BOTH[0], "--editable", BOTH[1])
    found = python(clean, DISCOVER)
    assert f"plugin {ROOT / 'lerobot_diagnostics' / 'plugin.py'}" in found
    assert "heavy []" in found
    assert "robot SOFollowerRobotConfig" in python(clean, ROBOT)
    assert "strategy AlignStrategy\nstock BaseStrategy" in python(clean, STRATEGY)


def test_a_plugin_that_cannot_load_never_breaks_a_lerobot_command(wheels, clean):
    pip("--python", clean, "install", *OFFLINE, next(w for w in wheels if "robot_diagnostics" in w.name))
    assert "plugin None" in python(clean, DISCOVER)  # the companion alone: nothing raised


def test_every_entry_point_names_a_function():
    import importlib
    import tomllib

    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    assert "lerobot-open-loop-eval" in scripts
    for target in scripts.values():
        module, function = target.split(":")
        assert callable(getattr(importlib.import_module(module), function))


@pytest.mark.parametrize("module", ["camera_guard", "diagnose", "open_loop_eval", "replay_compare", "setup_snapshot"])
def test_ctrl_c_while_a_command_is_imported_is_one_line(module):
    # Ctrl-C at the first import that takes time: nothing heavy may have been imported before.
    code = f"""
import builtins, sys
stock = builtins.__import__
def interrupting(name, *args, **kwargs):
    if name.split(".")[0] in {{"lerobot", "numpy", "torch"}}:
        raise KeyboardInterrupt
    return stock(name, *args, **kwargs)
builtins.__import__ = interrupting
from lerobot_diagnostics.cli.launch import {module}
sys.exit({module}())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    command = f"lerobot-{module.replace('_', '-')}"
    assert (done.returncode, done.stdout, done.stderr) == (130, "", f"{command}: interrupted.\n")
