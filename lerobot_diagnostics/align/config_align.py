"""``--strategy.type=align``: the settings. Imported where LeRobot's rollout is loaded, see ``plugin.py``."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from lerobot.configs import parser
from lerobot.rollout.configs import BaseStrategyConfig, RolloutStrategyConfig

from lerobot_diagnostics.align.misalignment import Tolerance
from lerobot_diagnostics.errors import UsageError


@dataclass
class ReferenceConfig:
    """The recorded view to go back to; the checkpoint's training data set by default."""

    # Data set on the Hub or in the local cache, e.g. user/my_data.
    repo_id: str | None = None
    # Local folder of the data set.
    root: str | None = None
    # Branch, tag or commit on the Hub.
    revision: str | None = None
    # Episode whose start is the reference; n and p go to the next and the previous.
    episode: int = 0
    # Frame of the episode.
    frame: int = 0
    # Convert a v2.1 data set on a copy, with LeRobot's converter.
    convert: bool = False


# A BaseStrategyConfig, so that LeRobot 0.6.1 refuses --dataset.* instead of creating a recording. No field may be of
# the registry's own type: draccus would recurse for ever, for every strategy.
@RolloutStrategyConfig.register_subclass("align")
@dataclass
class AlignStrategyConfig(BaseStrategyConfig):  # type: ignore[misc]
    """Put cameras, base and objects back where they were, measured, then hand over to the base strategy."""

    reference: ReferenceConfig = field(default_factory=ReferenceConfig)
    # Ease the arm to the recorded first state before (asks first).
    go_to_start: bool = False
    # Degrees (or ±100) a second of the fastest joint while easing.
    start_speed: float = 30.0
    # Move to the start without asking, for scripts.
    yes: bool = False
    # Go on by itself once all is within tolerance: after five seconds without any motion in view.
    auto_start: bool = False
    # Refuse to go on, with exit code 1, while anything is out of tolerance.
    strict: bool = False
    # base: roll out with the base strategy. none: exit 0, for `… && lerobot-rollout --strategy.type=sentry …`.
    then: str = "base"
    # The target band: shift_px (of a picture 640 wide), rotation_deg, zoom, light, pose.
    tolerance: Tolerance = field(default_factory=Tolerance)
    # Millimetres of the table that the picture's width covers, by camera, measured with a ruler: corrections in mm.
    view_width_mm: dict[str, float] = field(default_factory=dict)
    # Hand-over is refused when the policy's first action is farther than this from the arm (gripper: 60).
    max_start_step: float = 20.0
    # New folder for report.json, pictures and the .rrd; by default outputs/diagnostics/<date>/<time>_align.
    output_dir: str | None = None
    # Keep the session as align.rrd in the output folder.
    save_rrd: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot work before the policy is loaded and the arm connected.

        Raises:
            SystemExit: Code 2, after one line on stderr: LeRobot would show a traceback.
        """
        from lerobot_diagnostics.align.recorded import open_reference, plainly
        from lerobot_diagnostics.report.write import check_output_dir

        with plainly():
            if self.then not in ("base", "none"):
                raise UsageError(f"--strategy.then={self.then} is not known.", "Known: base, none.")
            for name in ("shift_px", "rotation_deg", "zoom", "light", "pose"):
                if getattr(self.tolerance, name) <= 0:
                    raise UsageError(f"--strategy.tolerance.{name} must be positive.")
            if self.start_speed <= 0 or self.max_start_step <= 0:
                raise UsageError("--strategy.start_speed and --strategy.max_start_step must be positive.")
            if self.output_dir is not None:
                check_output_dir(Path(self.output_dir).expanduser())
            checkpoint = parser.get_path_arg("policy")
            if self.reference.repo_id or self.reference.root or checkpoint:
                open_reference(self.reference, checkpoint).episode(self.reference.episode)
