"""Stock ``lerobot-rollout --strategy.type=align`` in a process of its own, with a keyboard."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import vision_scenes as scenes
from rig import stock
from rig.servos import JOINTS, REST

ANGLES = (20.0, 5.0, -15.0, -30.0, -10.0, 10.0, 30.0, 45.0, 35.0, 25.0)
"""Of the drawn arm in the recorded pictures: it sweeps, so that what stands still shows."""


def recording(root: Path, cameras: dict[str, int], *, start: dict[str, float] | None = None) -> Path:
    """Two episodes of ten frames with the scenes of these seeds, written by LeRobot's own writer as images."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    vector = {"dtype": "float32", "shape": (len(JOINTS),), "names": stock.NAMES}
    picture = {"dtype": "image", "shape": (scenes.HEIGHT, scenes.WIDTH, 3), "names": ["height", "width", "channels"]}
    features = {"action": vector, "observation.state": vector}
    features |= {f"observation.images.{name}": picture for name in cameras}
    writer = LeRobotDataset.create("local/scenes", 30, root=root, features=features, use_videos=False)
    pose = {**REST, **(start or {})}
    for episode in range(2):
        for k, angle in enumerate(ANGLES):
            values = np.array([pose[joint] for joint in JOINTS], np.float32)
            values[0] += 2.0 * k
            frame = {"action": values, "observation.state": values, "task": "move"}
            for name, seed in cameras.items():
                frame[f"observation.images.{name}"] = scenes.camera(seed, angle, 100 * episode + k)
            writer.add_frame(frame)
        writer.save_episode()
    writer.finalize()
    return root


class Rollout:
    """A running stock rollout. A context manager: ends with the process.

    Args:
        arguments: Its flags.
        module: Run as ``python -m lerobot.scripts.lerobot_rollout`` instead of its entry point.
        keyboard: Whether its standard input is a terminal.
    """

    def __init__(self, *arguments: str, module: bool = False, keyboard: bool = True) -> None:
        entry = "from lerobot.scripts.lerobot_rollout import main; main()"
        start: Sequence[str] = ["-m", "lerobot.scripts.lerobot_rollout"] if module else ["-c", entry]
        self._command = [sys.executable, *start, "--strategy.type=align", "--play_sounds=false", *arguments]
        self._keyboard = keyboard
        self.out = ""

    def __enter__(self) -> Rollout:
        stdin = subprocess.DEVNULL
        if self._keyboard:
            import pty

            self._master, stdin = pty.openpty()
        self.process = subprocess.Popen(
            self._command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        if self._keyboard:
            os.close(stdin)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *_error: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join(5)
        if self._keyboard:
            os.close(self._master)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.out += line

    def wait_for(self, text: str, timeout_s: float = 90, after: str = "") -> None:
        """Wait until it has printed ``text``, behind the last ``after``."""
        end = time.monotonic() + timeout_s
        while text not in self.out[self.out.rfind(after) if after else 0 :]:
            assert time.monotonic() < end, f"{text!r} never came:\n{self.out}"
            assert self.process.poll() is None or text in self.out, f"ended before {text!r}:\n{self.out}"
            time.sleep(0.01)

    def press(self, key: str) -> None:
        """Press a key."""
        os.write(self._master, key.encode())

    def interrupt(self) -> None:
        """Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def ended(self, timeout_s: float = 60) -> int:
        """The exit code, once it has ended."""
        code = self.process.wait(timeout_s)
        self._reader.join(5)
        return code
