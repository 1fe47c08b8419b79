"""Moving the arm: ease to a pose, play a plan, and stop for whatever reason there is."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from lerobot_diagnostics.recording.names import is_gripper
from lerobot_diagnostics.replay.plan import Plan
from lerobot_diagnostics.robot.arm import Arm, ArmLostError, CameraLostError, Reading
from lerobot_diagnostics.robot.easing import ease, safe_route
from lerobot_diagnostics.robot.kinematics import height_of
from lerobot_diagnostics.robot.pacing import Pacer
from lerobot_diagnostics.robot.stall import StallMonitor

Array = NDArray[np.float64]

EASE_HZ = 30.0
ARRIVED = 6.0
"""How far off its goal a joint may come to rest: twice what an STS3215 at P = 16 stands off (2–3°)."""
SETTLE_S = 1.5
SUSPECT = 5.0
"""Lag from which the motors' loads are read too, which takes a millisecond or two of bus time."""
START_STEP = 5.0
"""First commands farther than this from the first recorded state are eased to: in so101_record_test_stateonly one
episode begins 42 of ±100 from its first action."""


class End(StrEnum):
    """How a motion ended."""

    FINISHED = "finished"
    STOPPED = "stopped"
    STALLED = "stalled"
    NOT_ARRIVED = "not arrived"
    ARM_LOST = "arm lost"
    CAMERA_LOST = "camera lost"


@dataclass(frozen=True)
class Ending:
    """How and why a motion ended; ``joint`` where one is to blame."""

    end: End
    detail: str = ""
    joint: str = ""

    @property
    def finished(self) -> bool:
        """Whether it went all the way."""
        return self.end is End.FINISHED


FINISHED, STOPPED = Ending(End.FINISHED), Ending(End.STOPPED, "stopped by the user")


Watcher = Callable[[int, Reading], None]
"""Sees ``(recorded frame, reading)`` as they come; must return at once."""


def _nothing(_frame: int, _reading: Reading) -> None:
    pass


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


class Player:
    """Moves one arm.

    Args:
        arm: The command path.
        stopped: Whether the user wants to stop.
        clock, sleep: Injected by tests.
    """

    def __init__(
        self,
        arm: Arm,
        *,
        stopped: Callable[[], bool],
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.arm = arm
        self._stopped, self._clock, self._sleep = stopped, clock, sleep

    def _pacer(self, period_s: float) -> Pacer:
        return Pacer(period_s, stopped=self._stopped, clock=self._clock, sleep=self._sleep)

    def read(self) -> Reading | Ending:
        """A good reading, trying again within the arm's limits."""
        try:
            while (reading := self.arm.read()) is None:
                if self._stopped():
                    return STOPPED
            return reading
        except ArmLostError as error:
            return Ending(End.ARM_LOST, str(error))
        except CameraLostError as error:
            return Ending(End.CAMERA_LOST, str(error))

    def ease_to(
        self,
        goal: Mapping[str, float],
        recorded: Sequence[Mapping[str, float]],
        speed: float,
        watch: Watcher = _nothing,
    ) -> Ending:
        """Go to a pose, slowly, on a way where the tool stays above its lowest recorded height.

        Args:
            goal: By position key.
            recorded: Recorded poses that bound the way.
            speed: Degrees (or ±100) a second of the fastest joint.
            watch: Sees every reading as of frame 0.

        Raises:
            UsageError: There is no such way; nothing was sent.
        """
        reading = self.read()
        if isinstance(reading, Ending):
            return reading
        here = {key: reading.joints[key] for key in goal}
        if self._distance(here, goal) <= START_STEP / 2:
            return FINISHED
        degrees = self.arm.degrees
        route = safe_route(
            degrees(here), degrees(goal), [degrees(pose) for pose in recorded], height_of(self.arm.robot)
        )
        # The waypoints come back in degrees; what is sent is in the robot's unit.
        stops = [*(self.arm.from_degrees(pose) for pose in route[:-1]), dict(goal)]
        monitor, k = StallMonitor(), 0
        pacer = self._pacer(1 / EASE_HZ)
        for stop in stops:
            for pose in ease(here, stop, speed / EASE_HZ):
                k += 1
                ended = self._tick(pacer, k, pose, 1.0, monitor, {}, watch)
                if ended is not None:
                    return ended
            here = dict(stop)
        return self._settle(goal, watch)

    def _settle(self, goal: Mapping[str, float], watch: Watcher) -> Ending:
        pacer = self._pacer(1 / EASE_HZ)
        far, distance = "", 0.0
        for k in range(1, round(SETTLE_S * EASE_HZ) + 1):
            if not pacer.wait(k):
                return STOPPED
            reading = self.read()
            if isinstance(reading, Ending):
                return reading
            watch(0, reading)
            off = {key: abs(reading.joints[key] - value) for key, value in goal.items() if not is_gripper(key)}
            far = max(off, key=lambda key: off[key])
            distance = off[far]
            if distance <= ARRIVED:
                return FINISHED
        return Ending(End.NOT_ARRIVED, f"{far} stands {distance:.0f} from where it was sent", far)

    @staticmethod
    def _distance(pose: Mapping[str, float], goal: Mapping[str, float]) -> float:
        return max(abs(pose[key] - value) for key, value in goal.items())

    def _tick(
        self,
        pacer: Pacer,
        k: int,
        goal: Mapping[str, float],
        speed: float,
        monitor: StallMonitor,
        allowed: Mapping[str, float],
        watch: Watcher,
        frame: int = 0,
    ) -> Ending | None:
        """One command at its deadline and one reading after it; the reason to stop, if there is one."""
        if not pacer.wait(k):
            self.arm.halt()
            return STOPPED
        try:
            while (sent := self.arm.send(goal, speed=speed)) is None:
                # The last read failed: this command waits for one that succeeds, and with it all that follow.
                missed = self._clock()
                self.arm.read()
                pacer.delay(self._clock() - missed)
                if self._stopped():
                    self.arm.halt()
                    return STOPPED
            reading = self.arm.read()
        except ArmLostError as error:
            self.arm.halt()
            return Ending(End.ARM_LOST, str(error))
        except CameraLostError as error:
            self.arm.halt()
            return Ending(End.CAMERA_LOST, str(error))
        if reading is None:
            return None
        watch(frame, reading)
        lags = {key: abs(sent[key] - reading.joints[key]) - allowed.get(key, 0.0) for key in self.arm.joints}
        suspect = any(lag > SUSPECT and not is_gripper(key) for key, lag in lags.items())
        loads = self.arm.loads() if suspect else {}
        stall = monitor.update(reading.time_s, sent, reading.joints, allowed=allowed, loads=loads)
        if stall is None:
            return None
        self.arm.hold()
        return Ending(End.STALLED, f"{stall.joint} was {stall.lag:.0f} behind its goal and did not follow", stall.joint)

    def play(self, plan: Plan, *, attempt: int = 1, keep: Sequence[int] = (), watch: Watcher = _nothing) -> Take:
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

        monitor, pacer = StallMonitor(), self._pacer(plan.period_s)
        with self.arm.counting_packets():
            for k in range(len(plan)):
                lag = dict(zip(plan.keys, allowed[k].tolist(), strict=True))
                ended = self._tick(pacer, k, plan.goal(k), plan.speed, monitor, lag, seen, k)
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
