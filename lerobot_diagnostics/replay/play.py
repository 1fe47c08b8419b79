"""Playing a plan: each command at its time, a reading after each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lerobot_diagnostics.replay.plan import Plan
from lerobot_diagnostics.robot.arm import Reading
from lerobot_diagnostics.robot.move import FINISHED, Ending, Mover, Watcher, nothing
from lerobot_diagnostics.robot.pacing import punctual
from lerobot_diagnostics.robot.stall import StallMonitor

Array = NDArray[np.float64]


@dataclass
class Take:
    """What one attempt measured.

    Attributes:
        plan: What was to be played.
        attempt: Its number, from 1.
        asked, sent, achieved: ``[N, K]`` by frame; achieved is NaN where the read failed.
        time_s: ``[N]`` when each command went out, counted from the first.
        late_s: ``[N]`` how late that was.
        kept: ``{frame: {camera: [H, W, 3]}}`` live pictures kept for the report.
        lost_packets, failed_reads: Counted while playing.
        ending: How it ended.
        start_error: Largest distance of a joint from the first recorded state after easing.
    """

    plan: Plan
    attempt: int = 1
    asked: Array = field(default_factory=lambda: np.zeros((0, 0)))
    sent: Array = field(default_factory=lambda: np.zeros((0, 0)))
    achieved: Array = field(default_factory=lambda: np.zeros((0, 0)))
    time_s: Array = field(default_factory=lambda: np.zeros(0))
    late_s: Array = field(default_factory=lambda: np.zeros(0))
    kept: dict[int, dict[str, NDArray[np.uint8]]] = field(default_factory=dict)
    lost_packets: int = 0
    failed_reads: int = 0
    ending: Ending = FINISHED
    start_error: float = 0.0


class Player(Mover):
    """A :class:`~lerobot_diagnostics.robot.move.Mover` that also plays plans."""

    def play(self, plan: Plan, *, attempt: int = 1, keep: Sequence[int] = (), watch: Watcher = nothing) -> Take:
        """Send a plan's commands, each at its time, and read after each.

        Args:
            plan: See :class:`~lerobot_diagnostics.replay.plan.Plan`.
            attempt: Noted in the take.
            keep: Frames whose live pictures are kept.
            watch: Sees every frame.
        """
        take = Take(plan, attempt)
        allowed = plan.allowed_lag()
        kept = set(keep)
        count = len(self.arm.log)
        achieved = np.full(plan.actions.shape, np.nan)
        lost, failed = self.arm.lost_packets, self.arm.failed_reads

        def seen(frame: int, reading: Reading) -> None:
            achieved[frame] = [reading.joints.get(key, np.nan) for key in plan.keys]
            if frame in kept:
                take.kept[frame] = reading.pictures
            watch(frame, reading)

        monitor, pacer = StallMonitor(), self.pacer(plan.period_s)
        with self.arm.counting_packets(), punctual():
            for k in range(len(plan)):
                lag = dict(zip(plan.keys, allowed[k].tolist(), strict=True))
                ended = self.tick(pacer, k, plan.goal(k), plan.speed, monitor, lag, seen, k)
                if ended is not None:
                    take.ending = ended
                    break
            else:
                self.arm.halt()
        commands = self.arm.log[count : count + len(plan)]
        done = len(commands)
        shape = (done, len(plan.keys))
        take.asked = np.array([[c.asked[key] for key in plan.keys] for c in commands]).reshape(shape)
        take.sent = np.array([[c.sent[key] for key in plan.keys] for c in commands]).reshape(shape)
        take.achieved = achieved[:done]
        times = np.array([c.time_s for c in commands])
        take.time_s = times - times[0] if done else times
        take.late_s = np.array(pacer.late_s[:done])
        take.lost_packets, take.failed_reads = self.arm.lost_packets - lost, self.arm.failed_reads - failed
        return take
