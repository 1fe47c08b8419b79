"""How fast the live alignment loop runs with two 640×480 cameras, as it logs every tick for a viewer.

    taskset -c 0,1 python benchmarks/align_loop.py --seconds=10 --out=/tmp/align.rrd

The pictures are textured, noisy and moving; the base and object check is on. The loop is not paced: what it reaches is
what is left above the 30 fps it is run at. Then once more, paced at 30.
"""

from __future__ import annotations

import argparse
import io
import time
from dataclasses import dataclass, field
from pathlib import Path

import cv2
import numpy as np
import rerun as rr
from rich.console import Console

from lerobot_diagnostics.align.loop import Settings, align
from lerobot_diagnostics.align.measure import Meter, Worker
from lerobot_diagnostics.align.misalignment import Tolerance
from lerobot_diagnostics.align.reference import Reference
from lerobot_diagnostics.align.rerun_view import RerunView
from lerobot_diagnostics.align.terminal import TerminalView
from lerobot_diagnostics.robot.pacing import Pacer
from lerobot_diagnostics.vision import background_of


def scene(seed: int) -> np.ndarray:
    """[520, 680, 3]: soft colours with sharp things on them, and a margin to pan in."""
    rng = np.random.default_rng(seed)
    picture = cv2.resize(rng.uniform(60, 200, (8, 10, 3)), (680, 520), interpolation=cv2.INTER_CUBIC)
    for _ in range(60):
        x, y, w, h = (int(v) for v in rng.integers((0, 0, 10, 10), (680, 520, 90, 90)))
        cv2.rectangle(picture, (x, y), (x + w, y + h), tuple(float(v) for v in rng.uniform(20, 235, 3)), -1)
    return np.clip(picture, 0, 255)


@dataclass
class Reading:
    """What the loop reads."""

    pictures: dict[str, np.ndarray]
    joints: dict[str, float] = field(default_factory=dict)


class Starts:
    """One reference: the scenes seen straight on."""

    def __init__(self, scenes: dict[str, np.ndarray]) -> None:
        self.pictures = {name: s[20:500, 20:660].astype(np.uint8) for name, s in scenes.items()}

    def load(self, episode: int) -> Reference:
        """The reference."""
        return Reference(episode, self.pictures)

    def step(self, episode: int, by: int) -> int:
        """There is one."""
        return episode + 0 * by


def main() -> None:
    """Run it twice and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    scenes = {"front": scene(1), "top": scene(2)}
    rng = np.random.default_rng(0)
    noise = [rng.normal(0, 2, (480, 640, 3)) for _ in range(4)]
    # made beforehand: a camera's pictures cost the loop nothing
    frames = []
    for k in range(64):
        dx, dy = round(8 * np.sin(k / 10)), round(4 * np.cos(k / 10))
        seen = {n: s[20 + dy : 500 + dy, 20 + dx : 660 + dx] + noise[k % 4] for n, s in scenes.items()}
        frames.append({name: np.clip(picture, 0, 255).astype(np.uint8) for name, picture in seen.items()})
    starts = Starts(scenes)
    backgrounds = {
        name: background_of([np.clip(p + noise[k % 4], 0, 255).astype(np.uint8) for k in range(10)])
        for name, p in starts.pictures.items()
    }
    for label, period_s, moving in (("unpaced, moving", 1e-6, True), ("at 30 fps, moving", 1 / 30, True),
                                    ("at 30 fps, still (base and objects every second)", 1 / 30, False)):  # fmt: skip
        stream = rr.RecordingStream("align_benchmark")
        stream.save(arguments.out)
        ends = time.perf_counter() + arguments.seconds
        pacer = Pacer(period_s, stopped=lambda ends=ends: time.perf_counter() > ends)  # type: ignore[misc]
        count = {"measured": 0, "read": 0}
        meter = Meter(Tolerance(), backgrounds=backgrounds, steady=dict.fromkeys(scenes, True))
        inner = meter.measure

        def measure(*args, inner=inner, count=count, **kw):  # type: ignore[no-untyped-def]
            count["measured"] += 1
            return inner(*args, **kw)

        meter.measure = measure  # type: ignore[method-assign]

        def read(count=count, moving=moving) -> Reading:  # type: ignore[no-untyped-def]
            count["read"] += 1
            return Reading(frames[count["read"] % len(frames) if moving else 0])

        console = Console(file=io.StringIO(), force_terminal=True, width=120)
        with Worker(meter) as worker, TerminalView(console, keys=True) as terminal:
            view = RerunView(viewer=stream, tolerance=Tolerance())
            outcome = align(
                read, starts, 0, worker, settings=Settings(), displays=[terminal, view], poll=lambda: None,
                wait=pacer.wait, clock=time.perf_counter,
            )  # fmt: skip
        stream.disconnect()
        late = np.percentile(pacer.late_s, 95) * 1000
        print(
            f"{label}: {outcome.fps:.1f} fps, {count['measured'] / outcome.duration_s:.1f} measurements a second, "
            f"95 % of the ticks within {late:.1f} ms"
        )


if __name__ == "__main__":
    main()
