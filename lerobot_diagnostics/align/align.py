"""``lerobot-rollout --strategy.type=align``: put it back where it was, then roll out."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import platform
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from lerobot.rollout.context import RolloutContext
from lerobot.rollout.strategies.base import BaseStrategy
from lerobot.utils.utils import log_say
from rich.console import Console

from lerobot_diagnostics.align.approach import Approach, confirmed, finding
from lerobot_diagnostics.align.background import unless_stopped
from lerobot_diagnostics.align.config_align import AlignStrategyConfig
from lerobot_diagnostics.align.handover import CheckedStart, StartJumpError
from lerobot_diagnostics.align.loop import Ending, Outcome, Settings, align
from lerobot_diagnostics.align.measure import Meter, Worker
from lerobot_diagnostics.align.recorded import in_strategy_terms, open_reference, plainly
from lerobot_diagnostics.align.reference import StartViews, pair_cameras
from lerobot_diagnostics.align.rerun_view import RerunView
from lerobot_diagnostics.align.session import Session
from lerobot_diagnostics.align.terminal import TerminalView
from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Finding, Status
from lerobot_diagnostics.report.write import prepare_output_dir
from lerobot_diagnostics.robot import Arm, ArmLostError, CameraLostError, Keys, Pacer, Reading, open_keys
from lerobot_diagnostics.robot.move import End
from lerobot_diagnostics.vision import Background

logger = logging.getLogger(__name__)

FPS = 30.0
REFUSED, INTERRUPTED = 1, 130
EARLY_KEYS = 1000
BLOCKING = frozenset({"SWAPPED", "MIRRORED", "CHANNELS", "DEAD", "FROZEN", "MISSING_CAMERA"})
"""Camera faults that no pushing mends. A view that was knocked away (UNKNOWN_VIEW) or turned can be aligned."""


@dataclass(frozen=True)
class _Known:
    """What the recording tells, prepared once."""

    starts: StartViews
    backgrounds: dict[str, Background]
    steady: dict[str, bool | None]
    checks: list[Finding]


class AlignStrategy(BaseStrategy):  # type: ignore[misc]
    """Align, then LeRobot's base strategy. See :class:`~lerobot_diagnostics.align.config_align.AlignStrategyConfig`."""

    config: AlignStrategyConfig

    def __init__(
        self, config: AlignStrategyConfig, keys: Callable[[], Keys] = open_keys, console: Console | None = None
    ) -> None:
        super().__init__(config)
        self._open_keys, self._console = keys, console or Console()
        self._session: Session | None = None
        self._moved = self._told = False

    # --- LeRobot's three calls -------------------------------------------------------------------------------------

    def setup(self, ctx: RolloutContext) -> None:
        """Check the flags against the robot. The inference engine starts only at the hand-over.

        Raises:
            SystemExit: 2, after one line: the reference does not fit the robot, or nobody could go on.
        """
        config, cfg = self.config, ctx.runtime.cfg
        with plainly():
            interactive = self._open_keys().interactive
            if not interactive and not config.auto_start:
                raise UsageError(
                    "there is no terminal to press ENTER in.",
                    "Pass --strategy.auto_start=true to go on once everything is in place.",
                )
            if not interactive and config.go_to_start and not config.yes:
                raise UsageError(
                    "there is no terminal to confirm the motion in.", "Pass --strategy.yes=true to move without asking."
                )
            robot = ctx.hardware.robot_wrapper.inner
            recording = open_reference(config.reference, cfg.policy.pretrained_path)
            features = robot.observation_features.items()
            sizes = {k: (v[0], v[1]) for k, v in features if isinstance(v, tuple) and v[-1] == 3}  # no depth maps
            cameras = pair_cameras(recording, sizes, cfg.rename_map)
            for name in config.view_width_mm:
                if name not in cameras:
                    raise UsageError(
                        f"--strategy.view_width_mm names the camera {name}.", f"There are: {', '.join(cameras)}."
                    )
            for key in recording.cameras:
                if key not in cameras.values():
                    self._console.print(f"{key} was recorded and is not connected: it is not aligned")
            self._arm = Arm(robot)
            self._starts = StartViews(recording, cameras, self._arm.joints, frame=config.reference.frame)
            self._session = Session(
                prepare_output_dir(config.output_dir, "align"),
                command="lerobot-rollout",
                inputs={
                    "strategy": dataclasses.asdict(config),
                    "reference": in_strategy_terms(recording.label),
                    "cameras": cameras,
                    "policy.path": str(cfg.policy.pretrained_path),
                    "robot.type": cfg.robot.type,
                },
                tolerance=config.tolerance,
                strict=config.strict,
            )
        logger.info(
            "Align strategy ready: %s, episode %d", in_strategy_terms(recording.label), config.reference.episode
        )

    def run(self, ctx: RolloutContext) -> None:
        """Look, move to the start if asked, align, and hand over.

        Raises:
            SystemExit: 0 done with ``then=none``; 1 refused, quit or not in place in time; 2 cannot run; 130
                interrupted while aligning.
        """
        assert self._session is not None, "setup() first"
        stopped = ctx.runtime.shutdown_event.is_set
        with plainly():
            known = self._timed("prepare_s", lambda: unless_stopped(partial(self._prepare, self._read()), stopped))
            if known is None:
                raise SystemExit(INTERRUPTED)
            self._session.checks += known.checks
            self._refuse(known.checks)
            with self._open_keys() as keys:
                if self.config.go_to_start:
                    self._timed("go_to_start_s", lambda: self._go_to_start(known, keys, stopped))
                outcome = self._timed("align_s", lambda: self._align(known, keys, ctx))
            self._session.outcome = outcome
            if outcome.ending is Ending.STOPPED:
                raise SystemExit(INTERRUPTED)
            self._write()
        if outcome.ending is Ending.TIMED_OUT:
            for line in outcome.last.lines if outcome.last is not None else ():
                if line.ok is not True:
                    self._console.print(f"open: {line.subject}: {line.text}", soft_wrap=True)
            self._console.print(f"not started: not in place within --duration={ctx.runtime.cfg.duration:g} seconds")
            raise SystemExit(REFUSED)
        if outcome.ending is Ending.QUIT:
            self._console.print("quit: nothing was started")
            raise SystemExit(REFUSED)
        if not outcome.aligned:
            for found in self._session.findings():
                if found.status in (Status.WARN, Status.FAIL, Status.UNKNOWN):
                    self._console.print(f"{found.status}: {found.summary}. {found.fix}".rstrip(), soft_wrap=True)
            if self.config.strict:
                self._console.print("not started: out of tolerance (--strategy.strict=true)")
                raise SystemExit(REFUSED)
            self._console.print("going on although not everything is in place")
        if self.config.then == "none":
            raise SystemExit(0)
        self._hand_over(ctx)

    def teardown(self, ctx: RolloutContext) -> None:
        """As LeRobot, but without returning to the start when nothing was sent; then the report is completed."""
        back = ctx.runtime.cfg.return_to_initial_position and self._moved
        self._teardown_hardware(ctx.hardware, return_to_initial_position=back)
        if self._session is not None:
            with plainly():
                self._write()

    def _write(self) -> None:
        """Write the report; where it is, is said once, however the run ends."""
        assert self._session is not None
        self._session.write()
        if not self._told:
            self._console.print(f"report: {self._session.folder}", soft_wrap=True)
            self._told = True

    # --- phases ----------------------------------------------------------------------------------------------------

    def _timed[Result](self, name: str, work: Callable[[], Result]) -> Result:
        assert self._session is not None
        began = time.perf_counter()
        try:
            return work()
        finally:
            self._session.timings[name] = time.perf_counter() - began

    def _prepare(self, reading: Reading) -> _Known:
        """Read the recording's views and compare the live ones with them: is every camera the one recorded so?"""
        comparer = self._starts.comparer()
        live = {name: picture for name, picture in reading.pictures.items() if name in self._starts.cameras}
        # Geometry and light are what the loop measures.
        checks = [f for f in comparer.compare(live, geometry=False) if f.code != "LIGHTING"]
        backgrounds = self._starts.backgrounds(self.config.reference.episode)
        return _Known(self._starts, backgrounds, comparer.steady, checks)

    def _read(self) -> Reading:
        """A good reading; the arm allows three failures in a row."""
        try:
            while (reading := self._arm.read()) is None:
                pass
        except (ArmLostError, CameraLostError) as error:
            raise UsageError(f"the robot no longer answers: {error}", "Check its cables.") from error
        return reading

    def _refuse(self, checks: Sequence[Finding]) -> None:
        """Print what is wrong with the cameras; stop at what aligning cannot mend."""
        assert self._session is not None
        wrong = [f for f in checks if f.status in (Status.FAIL, Status.WARN, Status.UNKNOWN)]
        for found in wrong:
            self._console.print(f"{found.status}: {found.summary}. {found.fix}".rstrip(), soft_wrap=True)
        if any(f.status is Status.FAIL and f.code in BLOCKING for f in wrong):
            self._console.print("not started: these are not the recorded pictures, whatever their names say")
            raise SystemExit(REFUSED)

    def _go_to_start(self, known: _Known, keys: Keys, stopped: Callable[[], bool]) -> None:
        """Show, ask, move.

        Raises:
            SystemExit: 1 not confirmed or not arrived, 130 interrupted.
        """
        assert self._session is not None
        approach = Approach(self._arm, known.starts, self.config.reference.episode, self.config.start_speed)
        self._session.checks.append(approach.units)
        approach.show(self._read().joints, self._console)
        if not self.config.yes:
            _discard(keys)
            self._console.print("ENTER: move the arm   any other key: quit")
            if not confirmed(keys, stopped, time.sleep):
                raise SystemExit(INTERRUPTED if stopped() else REFUSED)
        try:
            ending = approach.go(stopped)
        finally:
            self._moved = bool(self._arm.log)
        if ending.end is End.STOPPED:
            raise SystemExit(INTERRUPTED)
        failed = finding(ending)
        if failed is not None:
            self._session.checks.append(failed)
            self._console.print(f"fail: {failed.summary}. {failed.fix}", soft_wrap=True)
            raise SystemExit(REFUSED)

    def _align(self, known: _Known, keys: Keys, ctx: RolloutContext) -> Outcome:
        config, cfg = self.config, ctx.runtime.cfg
        assert self._session is not None
        widths = {n: known.starts.recording.features[key]["shape"][1] for n, key in known.starts.cameras.items()}
        settings = Settings(
            tolerance=config.tolerance,
            auto_start=config.auto_start,
            mm_per_px={name: mm / widths[name] for name, mm in config.view_width_mm.items()},
            limit_s=0.0 if keys.interactive else cfg.duration,
        )
        meter = Meter(config.tolerance, backgrounds=known.backgrounds, steady=known.steady)
        with contextlib.ExitStack() as stack:
            file = stack.enter_context(self._session.rrd(config.save_rrd))
            viewer = _viewer(cfg)
            terminal = TerminalView(self._console, keys=keys.interactive, waits=not keys.interactive)
            displays: list[Any] = [stack.enter_context(terminal)]
            if file is not None or viewer is not None:
                displays.append(RerunView(viewer=viewer, file=file, tolerance=config.tolerance))
            worker = stack.enter_context(Worker(meter, time.perf_counter))
            _discard(keys)
            pacer = Pacer(1 / FPS, stopped=ctx.runtime.shutdown_event.is_set)

            def read() -> Reading | None:
                try:
                    return self._arm.read()
                except (ArmLostError, CameraLostError) as error:
                    raise UsageError(f"the robot no longer answers: {error}", "Check its cables.") from error

            return align(
                read,
                known.starts,
                config.reference.episode,
                worker,
                settings=settings,
                displays=displays,
                poll=keys.poll,
                wait=pacer.wait,
                clock=time.perf_counter,
                say=partial(log_say, play_sounds=cfg.play_sounds and _can_speak()),
            )

    def _hand_over(self, ctx: RolloutContext) -> None:
        """LeRobot's own base loop, its first action checked."""
        assert self._session is not None
        checked = CheckedStart(ctx.hardware.robot_wrapper, self.config.max_start_step)
        super().setup(ctx)
        try:
            super().run(dataclasses.replace(ctx, hardware=dataclasses.replace(ctx.hardware, robot_wrapper=checked)))
        except StartJumpError as error:
            self._session.jump = error.finding
            self._console.print(f"fail: {error.finding.summary}. {error.finding.fix}", soft_wrap=True)
            raise SystemExit(REFUSED) from None
        finally:
            self._moved = self._moved or checked.sent


def _discard(keys: Keys) -> None:
    """Forget what was typed while nothing was asked: an early ENTER must not start the arm."""
    for _ in range(EARLY_KEYS):
        if keys.poll() is None:
            return


def _can_speak() -> bool:
    """Whether LeRobot's speech program is here: without it, it would log a warning for every second counted."""
    return platform.system() != "Linux" or shutil.which("spd-say") is not None


def _viewer(cfg: Any) -> Any:
    """The recording stream that ``--display_data=true`` has opened, or None."""
    if not cfg.display_data:
        return None
    if cfg.display_mode != "rerun":
        logger.warning("The overlay is shown in Rerun only; --display_mode=%s shows the rollout.", cfg.display_mode)
        return None
    import rerun as rr

    return rr.get_global_data_recording()
