"""Moving the arm a tick at a time: ease to a pose, and stop for whatever reason there is."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from lerobot_diagnostics.recording.names import is_gripper
from lerobot_diagnostics.robot.arm import Arm, ArmLostError, CameraLostError, Reading
from lerobot_diagnostics.robot.easing import ease, safe_route
from lerobot_diagnostics.robot.kinematics import height_of
from lerobot_diagnostics.robot.pacing import Pacer
from lerobot_diagnostics.robot.stall import StallMonitor

EASE_HZ = 30.0
ARRIVED = 6.0
"""How far off its goal a joint may come to rest: twice what an STS3215 at P = 16 stands off (2–3°)."""
SETTLE_S = 1.5
NEAR = 2.5
"""An arm this near a pose is there: a standing error."""
SUSPECT = 5.0
"""Lag from which the motors' loads are read too, which takes a millisecond or two of bus time."""


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


def nothing(_frame: int, _reading: Reading) -> None:
    pass


class Mover:
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

    def pacer(self, period_s: float) -> Pacer:
        """A pacer that this mover's stop ends."""
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
        watch: Watcher = nothing,
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
        if self._distance(here, goal) <= NEAR:
            return FINISHED
        degrees = self.arm.degrees
        route = safe_route(
            degrees(here), degrees(goal), [degrees(pose) for pose in recorded], height_of(self.arm.robot)
        )
        here = self._last_goal(here)
        # The waypoints come back in degrees; what is sent is in the robot's unit.
        stops = [*(self.arm.from_degrees(pose) for pose in route[:-1]), dict(goal)]
        monitor, k = StallMonitor(), 0
        pacer = self.pacer(1 / EASE_HZ)
        for stop in stops:
            for pose in ease(here, stop, speed / EASE_HZ):
                k += 1
                ended = self.tick(pacer, k, pose, 1.0, monitor, {}, watch)
                if ended is not None:
                    return ended
            here = dict(stop)
        return self._settle(goal, watch)

    def _last_goal(self, here: dict[str, float]) -> dict[str, float]:
        """The last goal, if the arm stands at it: from where it stands, 2–3° below, it would first drop as much again.

        A gripper that holds something stands far from its goal and keeps it.
        """
        last = self.arm.log[-1].sent if self.arm.log else {}
        at_it = all(
            key in last and (is_gripper(key) or abs(last[key] - value) <= ARRIVED) for key, value in here.items()
        )
        return {key: last[key] for key in here} if at_it else here

    def _settle(self, goal: Mapping[str, float], watch: Watcher) -> Ending:
        pacer = self.pacer(1 / EASE_HZ)
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

    def tick(
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
