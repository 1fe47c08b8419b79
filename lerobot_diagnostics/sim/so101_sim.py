"""``--robot.type=so101_sim``: the simulated arm as a LeRobot robot."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from lerobot.robots.robot import Robot
from lerobot.utils.decorators import check_if_already_connected, check_if_not_connected
from numpy.typing import NDArray

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.sim.config_so101_sim import CAMERAS, JOINTS, CameraFault, SO101SimConfig
from lerobot_diagnostics.sim.pictures import Image, spoil

if TYPE_CHECKING:
    from lerobot_diagnostics.sim.world import Truth, World

TICKS_PER_UNIT = np.array([4095 / 360] * 5 + [1250 / 100])
"""Readings come in whole encoder ticks: 4096 a turn, and the gripper's 0–100 over its 110° of travel."""

STALL_S = 0.5
"""The longest stretch that a call catches up with in real time: whoever was away longer finds the arm where it was."""


class SO101Sim(Robot):  # type: ignore[misc]
    """A simulated SO-101 with the joint names, units and signs of ``so101_follower``.

    Args:
        config: See :class:`SO101SimConfig`.
        clock, sleep: Wall clock and sleep, for tests.
    """

    config_class = SO101SimConfig
    name = "so101_sim"

    def __init__(
        self,
        config: SO101SimConfig,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        for what, names, known in (
            ("--robot.cameras", config.cameras, CAMERAS),
            ("--robot.faults.cameras", config.faults.cameras, CAMERAS),
            ("--robot.faults.swap", config.faults.swap, tuple(config.cameras)),
            ("--robot.faults.joint_zero_deg", config.faults.joint_zero_deg, JOINTS),
            ("--robot.faults.overload_from_s", config.faults.overload_from_s, JOINTS),
        ):
            if unknown := sorted(set(names) - set(known)):
                raise UsageError(f"{what} names {', '.join(unknown)}.", f"There are: {', '.join(known)}.")
        if len(config.faults.swap) not in (0, 2):
            raise UsageError(
                "--robot.faults.swap takes two cameras.", "For example --robot.faults.swap='[front, top]'."
            )
        super().__init__(config)
        self.config = config
        self.cameras = config.cameras
        self._clock, self._sleep = clock, sleep
        self._world: World | None = None

    @cached_property
    def observation_features(self) -> dict[str, Any]:
        """Joint positions and pictures, as ``so101_follower`` declares them."""
        return {**self.action_features, **{name: (c.height, c.width, 3) for name, c in self.cameras.items()}}

    @cached_property
    def action_features(self) -> dict[str, type]:
        """Joint positions by ``<joint>.pos``."""
        return {f"{joint}.pos": float for joint in JOINTS}

    @property
    def is_connected(self) -> bool:
        """Whether the world exists."""
        return self._world is not None

    @property
    def is_calibrated(self) -> bool:
        """Always: the model's zeros are a calibrated arm's."""
        return True

    def calibrate(self) -> None:
        """Nothing to do."""

    def configure(self) -> None:
        """Nothing to do."""

    @check_if_already_connected  # type: ignore[untyped-decorator]
    def connect(self, calibrate: bool = True) -> None:  # noqa: ARG002
        """Build the world (about a second) and reset it with the configured seed.

        Raises:
            UsageError: The extra ``sim`` is not installed.
        """
        try:
            from lerobot_diagnostics.sim.world import World
        except ImportError as error:
            raise UsageError(
                f"--robot.type=so101_sim needs {error.name}.",
                "Install it with: pip install 'lerobot-diagnostics[sim]'",
            ) from error
        self._world = World(self.config.faults)
        self.reset(self.config.seed)

    def reset(self, seed: int) -> None:
        """Start over: arm at rest, cube where ``seed`` puts it, time zero. Deterministic."""
        from lerobot_diagnostics.sim.scene import CUBE_XY_M

        self._rng = np.random.default_rng(seed)
        jitter = self._rng.uniform(-self.config.cube_jitter_m, self.config.cube_jitter_m, 2)
        x, y = np.add(CUBE_XY_M, jitter)
        self.world.reset((float(x), float(y)))
        self._time_s = 0.0
        self._last_call = self._clock()
        self._observations = 0
        self._frozen: dict[str, Image] = {}
        self._shown: dict[str, tuple[float, Image]] = {}
        self._readings: deque[tuple[float, NDArray[np.float64]]] = deque([(0.0, self.world.reading())])

    @property
    def world(self) -> World:
        """The world behind the robot, with :meth:`~lerobot_diagnostics.sim.world.World.truth`; after ``connect``."""
        assert self._world is not None, "connect() first"
        return self._world

    def truth(self) -> Truth:
        """What is really the case: see :class:`~lerobot_diagnostics.sim.world.Truth`."""
        return self.world.truth()

    @check_if_not_connected  # type: ignore[untyped-decorator]
    def get_observation(self) -> dict[str, Any]:
        """Joint readings and pictures.

        Raises:
            ConnectionError: Every ``fail_every``-th time, as LeRobot's bus does.
            TimeoutError: A camera has failed, as LeRobot's cameras do.
        """
        faults = self.config.faults
        if faults.slow_s:
            self._sleep(faults.slow_s)
        self._follow_clock()
        self._observations += 1
        if faults.fail_every and self._observations % faults.fail_every == 0:
            raise ConnectionError("Failed to sync read 'Present_Position' (simulated): no status packet.")
        reading = self._reading() + self._rng.normal(0.0, faults.noise_deg, len(JOINTS))
        reading = np.round(reading * TICKS_PER_UNIT) / TICKS_PER_UNIT
        observation: dict[str, Any] = {f"{joint}.pos": float(v) for joint, v in zip(JOINTS, reading, strict=True)}
        return observation | {name: self._picture(name) for name in self.cameras}

    @check_if_not_connected  # type: ignore[untyped-decorator]
    def send_action(self, action: dict[str, Any]) -> dict[str, Any]:
        """Set the goal; outside real time, let 1/``fps`` pass. Returns what was sent."""
        self._follow_clock()
        sent = {key: float(value) for key, value in action.items() if key.removesuffix(".pos") in JOINTS}
        self.world.command({key.removesuffix(".pos"): value for key, value in sent.items()})
        if not self.config.real_time:
            self._pass(1 / self.config.fps)
        return sent

    @check_if_not_connected  # type: ignore[untyped-decorator]
    def disconnect(self) -> None:
        """Drop the world."""
        self.world.close()
        self._world = None

    def _follow_clock(self) -> None:
        if self.config.real_time:
            now = self._clock()
            self._pass(min(now - self._last_call, STALL_S))
            self._last_call = now

    def _pass(self, seconds: float) -> None:
        self._time_s += seconds
        self.world.advance_to(self._time_s)
        self._readings.append((self._time_s, self.world.reading()))

    def _reading(self) -> NDArray[np.float64]:
        """The youngest reading that is at least ``late_s`` old."""
        newest = self._time_s - self.config.faults.late_s + 1e-9  # sums of 1/fps are not exact
        while len(self._readings) > 1 and self._readings[1][0] <= newest:
            self._readings.popleft()
        return self._readings[0][1]

    def _picture(self, name: str) -> Image:
        swap = self.config.faults.swap
        source = swap[1 - swap.index(name)] if name in swap else name
        settings, fault = self.cameras[source], self.config.faults.cameras.get(source, CameraFault())
        if _since(fault.fails_from_s, self._time_s):
            raise TimeoutError(f"SimCamera({source}) latest frame is too old (simulated).")
        if _since(fault.frozen_from_s, self._time_s) and source in self._frozen:
            return self._frozen[source].copy()
        taken_s, shown = self._shown.get(source, (-np.inf, None))
        if shown is not None and self._time_s - taken_s < 1 / settings.fps - 1e-6:
            return shown.copy()  # a camera has no newer picture yet
        picture = spoil(self.world.render(source, settings.width, settings.height), fault)
        if _since(fault.dead_from_s, self._time_s):
            picture = np.zeros_like(picture)
        self._frozen[source] = picture
        self._shown[source] = (self._time_s, picture)
        return picture


def _since(start_s: float | None, now_s: float) -> bool:
    return start_s is not None and now_s >= start_s
