"""Windows and macOS: nothing that only POSIX has is needed to import a command or any module of the package."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
COMMANDS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]

# As on Windows: these do not exist, and neither do the names below in modules that do. Everything LeRobot needs is
# imported first, as its own commands would, so that only our imports are judged.
WITHOUT_POSIX = """
import sys
import lerobot.configs.parser, lerobot.datasets, lerobot.policies, lerobot.robots, lerobot.utils.import_utils
import matplotlib.pyplot, rich.console, scipy.ndimage, torch, tqdm
import os, signal
BLOCKED = ("fcntl", "grp", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty")
for name in BLOCKED:
    sys.modules[name] = None
for name in ("SIGALRM", "SIGHUP", "SIGKILL", "SIGUSR1", "setitimer", "pthread_kill"):
    delattr(signal, name)
for name in ("fork", "getuid", "geteuid", "openpty", "setsid"):
    delattr(os, name)
import importlib
for module in sys.argv[1:]:
    importlib.import_module(module)
"""


def without_posix(*modules: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_POSIX, *modules], capture_output=True, text=True, timeout=120, check=False
    )


def test_every_module_imports_without_what_only_posix_has() -> None:
    paths = sorted((ROOT / "lerobot_diagnostics").rglob("*.py"))
    modules = [".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for p in paths]
    assert {target.partition(":")[0] for target in COMMANDS.values()} <= set(modules)
    run = without_posix(*modules)
    assert run.returncode == 0, run.stderr[-2000:]


@pytest.mark.parametrize("module", ["pty", "termios"])
def test_the_block_blocks(module: str) -> None:
    assert without_posix(module).returncode != 0
