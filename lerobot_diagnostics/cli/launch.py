"""The console scripts. Importing a command takes seconds, in which Ctrl-C has to end in one line too.

Only the standard library is imported here.
"""

from __future__ import annotations

import importlib
import sys
from functools import partial


def _launch(module: str) -> int:
    """Import and run one of our commands; its exit code."""
    try:
        code: int = importlib.import_module(f"lerobot_diagnostics.cli.{module}").main()
    except KeyboardInterrupt:
        print(f"lerobot-{module.replace('_', '-')}: interrupted.", file=sys.stderr)
        return 130
    return code


camera_guard = partial(_launch, "camera_guard")
diagnose = partial(_launch, "diagnose")
open_loop_eval = partial(_launch, "open_loop_eval")
replay_compare = partial(_launch, "replay_compare")
setup_snapshot = partial(_launch, "setup_snapshot")
