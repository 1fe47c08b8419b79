"""Recorded and predicted joints beside the camera pictures, in Rerun: a ``.rrd`` file, a viewer, or both.

Rerun is imported when a log is opened, never before.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from lerobot_diagnostics.report.write import atomic_file

if TYPE_CHECKING:
    import rerun as rr

    from lerobot_diagnostics.report.plots import FloatArray, ImageArray

APPLICATION_ID = "lerobot_diagnostics"
TIMELINE = "episode_time"
RECORDED_RGB = (60, 160, 255)  # legible on Rerun's dark and on its light background
PREDICTED_RGB = (230, 110, 20)
FRAMES_PER_SECOND = 10.0
"""Pictures kept per second and camera. A 60 s episode of three 640x480 cameras is then about 1800 pictures."""
JPEG_QUALITY = 75
VIEWER_MEMORY = "10%"
"""What LeRobot itself allows the viewer: older data is dropped, so that a window left open cannot fill the machine."""


def has_display(environ: Mapping[str, str] | None = None, platform: str = sys.platform) -> bool:
    """Whether a window can be opened: always on macOS and Windows, elsewhere when X11 or Wayland is there."""
    environ = os.environ if environ is None else environ
    return platform in {"darwin", "win32"} or bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))


class RerunLog:
    """An open Rerun recording; a context manager.

    Args:
        path: The ``.rrd`` file. Written whole or not at all, when ``save`` asks for it or no viewer can be shown.
        names: J joint names.
        units: J units, shown in the panels' names.
        display: Show a viewer if there is a display.
        save: Write the file even though a viewer is shown.
        display_available: Injected by tests; :func:`has_display` by default.

    Attributes:
        note: One line for the user: where the file is, or that a viewer shows it.
        saves: Whether the file is (being) written.

    Raises:
        UsageError: When the file's place cannot be written to.
    """

    def __init__(
        self,
        path: Path,
        *,
        names: Sequence[str],
        units: Sequence[str],
        display: bool,
        save: bool,
        display_available: bool | None = None,
    ) -> None:
        self._path = path
        self._names = list(names)
        self._units = list(units)
        self._display = display
        self._can_display = has_display() if display_available is None else display_available
        self._save = save
        self._episodes: dict[int, set[str]] = {}
        self._last_frame: dict[tuple[int, str], float] = {}
        self.note = ""
        self.saves = False

    def __enter__(self) -> Self:
        import rerun as rr

        self._recording: rr.RecordingStream = rr.RecordingStream(APPLICATION_ID)
        shown = self._display and self._can_display and self._spawn()
        self.saves = self._save or not shown
        if self.saves:
            self._file = atomic_file(self._path)
            temporary = self._file.__enter__()
            sinks: list[Any] = [rr.FileSink(str(temporary))]
            if shown:
                sinks.append(rr.GrpcSink())
            try:
                self._recording.set_sinks(*sinks)
            except BaseException:
                self._file.__exit__(*sys.exc_info())
                raise
            reason = "" if shown or not self._display else "no viewer can be shown here: "
            self.note = f"{reason}wrote {self._path}; look at it with: rerun {self._path}"
        else:
            self._recording.connect_grpc()
            self.note = "the Rerun viewer shows joints and cameras"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._recording.flush()
        finally:
            self._recording.disconnect()  # closes the file: only then may it get its name
            if self.saves:
                # Ctrl-C keeps what was logged; any other failure leaves no half a file behind.
                kept = kind is not None and issubclass(kind, KeyboardInterrupt)
                self._file.__exit__(*((None, None, None) if kept else (kind, error, trace)))

    def _spawn(self) -> bool:
        import rerun as rr

        try:
            rr.spawn(connect=False, memory_limit=VIEWER_MEMORY, hide_welcome_screen=True)
        except Exception:  # no executable, no graphics: whatever it is, the file still can be written
            return False
        return True

    def joints(self, episode: int, timestamps: FloatArray, recorded: FloatArray, predicted: FloatArray) -> None:
        """Log one episode's time series.

        Args:
            episode: Its index.
            timestamps: ``[T]`` seconds since the episode's start.
            recorded: ``[T, J]``.
            predicted: ``[T, J]``; rows of a joint that are NaN are left out.
        """
        import rerun as rr

        for j, name in enumerate(self._names):
            for label, values, colour in (
                ("recorded", recorded, RECORDED_RGB),
                ("predicted", predicted, PREDICTED_RGB),
            ):
                path = f"{self._joint(episode, name)}/{label}"
                known = np.isfinite(values[:, j])
                self._recording.log(path, rr.SeriesLines(colors=[colour], names=[label], widths=[1.5]), static=True)
                self._recording.send_columns(
                    path,
                    indexes=[rr.TimeColumn(TIMELINE, duration=timestamps[known])],
                    columns=rr.Scalars.columns(scalars=values[known, j]),
                )
        self._episodes.setdefault(episode, set())
        self._send_blueprint()

    def frame(self, episode: int, camera: str, timestamp: float, image: ImageArray) -> bool:
        """Log one picture (``[H, W, 3]`` uint8 RGB) as JPEG, unless one came less than a tenth of a second before.

        Returns:
            Whether it was logged.
        """
        import rerun as rr

        last = self._last_frame.get((episode, camera))
        # Half a millisecond of slack: time stamps in float32 jitter, and a frame due now must not wait a whole period.
        if last is not None and 0 <= timestamp - last < 1 / FRAMES_PER_SECOND - 5e-4:
            return False
        self._last_frame[episode, camera] = timestamp
        self._recording.set_time(TIMELINE, duration=timestamp)
        self._recording.log(self._camera(episode, camera), rr.Image(image).compress(jpeg_quality=JPEG_QUALITY))
        cameras = self._episodes.setdefault(episode, set())
        if camera not in cameras:
            cameras.add(camera)
            self._send_blueprint()
        return True

    @staticmethod
    def _episode(episode: int) -> str:
        return f"/episode_{episode}"

    def _joint(self, episode: int, name: str) -> str:
        import rerun as rr

        return f"{self._episode(episode)}/joints/{rr.escape_entity_path_part(name)}"

    def _camera(self, episode: int, camera: str) -> str:
        import rerun as rr

        return f"{self._episode(episode)}/cameras/{rr.escape_entity_path_part(camera)}"

    def _send_blueprint(self) -> None:
        """One tab an episode: the cameras at the left, a panel a joint at the right."""
        import rerun.blueprint as rrb

        tabs = []
        for episode, cameras in self._episodes.items():
            panels = [
                rrb.TimeSeriesView(origin=self._joint(episode, name), name=f"{name} ({unit})" if unit else name)
                for name, unit in zip(self._names, self._units, strict=True)
            ]
            joints = rrb.Grid(*panels, grid_columns=2 if len(panels) > 4 else 1, name="joints")
            title = f"episode {episode}"
            if cameras:
                views = [rrb.Spatial2DView(origin=self._camera(episode, c), name=c) for c in sorted(cameras)]
                tabs.append(rrb.Horizontal(rrb.Vertical(*views), joints, column_shares=[2, 3], name=title))
            else:
                tabs.append(rrb.Horizontal(joints, name=title))
        self._recording.send_blueprint(rrb.Blueprint(rrb.Tabs(*tabs), collapse_panels=True))
