"""Where pictures go while the arm moves: an mp4 file, and Rerun."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lerobot_diagnostics.align.overlay import difference, encode_jpeg, overlay
from lerobot_diagnostics.replay.pictures import Image8, triptych
from lerobot_diagnostics.replay.pump import Moment
from lerobot_diagnostics.report.rerun_log import JPEG_QUALITY, PREDICTED_RGB, RECORDED_RGB, RerunLog
from lerobot_diagnostics.report.write import atomic_file
from lerobot_diagnostics.vision import Registrar

PANEL = 640
"""Width of one panel of the mp4 at most."""


class Mp4:
    """``--record=out.mp4``: live | recorded | overlay, a row a camera, shown when it was seen.

    Args:
        path: The file; written whole or not at all.
        alpha: Opacity of the recorded picture over the live one.
    """

    def __init__(self, path: Path, alpha: float) -> None:
        self.note = ""
        self._path, self._alpha = path, alpha
        self._container: Any = None
        self._stream: Any = None
        self._start: float | None = None
        self._last_pts = -1

    def open(self) -> None:
        """Make the file under a temporary name."""
        import av

        self._file = atomic_file(self._path)
        self._container = av.open(str(self._file.__enter__()), "w")

    def show(self, moment: Moment) -> None:
        """Encode one frame; moments without pictures are left out."""
        import av

        if not moment.pictures:
            return
        sheet = self._sheet(moment)
        if self._stream is None:
            self._stream = self._container.add_stream(
                "libx264", rate=1000, options={"preset": "ultrafast", "crf": "23", "threads": "1"}
            )
            self._stream.height, self._stream.width = sheet.shape[:2]
            self._stream.pix_fmt = "yuv420p"
            self._start = moment.time_s
        assert self._start is not None
        frame = av.VideoFrame.from_ndarray(sheet, format="rgb24")
        self._last_pts = frame.pts = max(round((moment.time_s - self._start) * 1000), self._last_pts + 1)
        self._container.mux(self._stream.encode(frame))

    def _sheet(self, moment: Moment) -> Image8:
        rows = [triptych(live, recorded, self._alpha) for live, recorded in moment.pictures.values()]
        width = min(3 * PANEL, max(row.shape[1] for row in rows)) // 2 * 2
        if self._stream is not None:
            width = self._stream.width
        import cv2

        rows = [cv2.resize(row, (width, round(row.shape[0] * width / row.shape[1]) // 2 * 2)) for row in rows]
        sheet = np.vstack(rows)
        if self._stream is not None and sheet.shape[0] != self._stream.height:  # a camera came or went
            fitted = np.zeros((self._stream.height, width, 3), np.uint8)
            fitted[: sheet.shape[0]] = sheet[: self._stream.height]
            sheet = fitted
        return np.ascontiguousarray(sheet)

    def close(self) -> None:
        """Finish the file; without a single picture there is none."""
        if self._container is None:
            return
        if self._stream is not None:
            self._container.mux(self._stream.encode())
        self._container.close()
        if self._stream is not None:
            self._file.__exit__(None, None, None)
        else:
            error = RuntimeError("no pictures came")
            self._file.__exit__(type(error), error, None)


class Viewer(RerunLog):
    """``--display_data``, ``--save_rrd``: cameras live, recorded, overlaid and subtracted; joints; the misalignment.

    Args:
        path: The ``.rrd`` file.
        keys: Joint keys.
        units: Their units.
        cameras: Live cameras.
        display, save: As for :class:`~lerobot_diagnostics.report.rerun_log.RerunLog`.
        alpha: Opacity of the recorded picture over the live one; None shows no overlay and no difference.
    """

    MEASURE_EVERY = 15
    """Frames between two measurements of the misalignment (8 ms each)."""

    def __init__(
        self,
        path: Path,
        *,
        keys: Sequence[str],
        units: Sequence[str],
        cameras: Sequence[str],
        display: bool,
        save: bool,
        alpha: float | None,
    ) -> None:
        super().__init__(path, names=keys, units=units, display=display, save=save)
        self._cameras, self._alpha = list(cameras), alpha
        self._start: float | None = None
        self._shown = 0

    def open(self) -> None:
        """Open the viewer or the file, and lay out its panels."""
        import rerun.blueprint as rrb

        self.__enter__()
        views = ["live", "recorded", *(["overlay", "difference"] if self._alpha is not None else [])]
        rows = [
            rrb.Horizontal(*(rrb.Spatial2DView(origin=f"/{c}/{view}", name=f"{c} {view}") for view in views))
            for c in self._cameras
        ]
        curves = [
            rrb.TimeSeriesView(origin=f"/joints/{name}", name=f"{name} ({unit})")
            for name, unit in zip(self._names, self._units, strict=True)
        ]
        shift = rrb.TimeSeriesView(origin="/misalignment", name="misalignment (px)")
        below = rrb.Horizontal(rrb.Grid(*curves, grid_columns=3), shift, column_shares=[3, 1])
        layout = rrb.Vertical(*rows, below, row_shares=[2] * len(rows) + [2])
        self._recording.send_blueprint(rrb.Blueprint(layout, collapse_panels=True))
        import rerun as rr

        for name in self._names:
            for label, colour in (("recorded", RECORDED_RGB), ("achieved", PREDICTED_RGB)):
                lines = rr.SeriesLines(colors=[colour], names=[label])
                self._recording.log(f"/joints/{name}/{label}", lines, static=True)

    def show(self, moment: Moment) -> None:
        """Log one moment."""
        import rerun as rr

        if self._start is None:
            self._start = moment.time_s
        log = self._recording
        log.set_time("time", duration=moment.time_s - self._start)
        for name in self._names:
            for label, value in (("achieved", moment.joints.get(name)), ("recorded", moment.recorded.get(name))):
                if value is not None and np.isfinite(value):
                    log.log(f"/joints/{name}/{label}", rr.Scalars(value))
        for camera, (live, recorded) in moment.pictures.items():
            pictures = {"live": live, "recorded": recorded}
            if self._alpha is not None:
                pictures |= {"overlay": overlay(live, recorded, self._alpha), "difference": difference(live, recorded)}
            for view, picture in pictures.items():
                log.log(
                    f"/{camera}/{view}",
                    rr.EncodedImage(contents=encode_jpeg(picture, JPEG_QUALITY), media_type="image/jpeg"),
                )
            if self._shown % self.MEASURE_EVERY == 0 and live.shape == recorded.shape:
                motion = Registrar(recorded).fast(live)
                if motion.found:
                    shift = float(np.hypot(motion.dx_px, motion.dy_px))
                    log.log(f"/misalignment/{camera}", rr.Scalars(shift))
        self._shown += 1

    def close(self) -> None:
        """Close the file."""
        if hasattr(self, "_recording"):
            self.__exit__(None, None, None)
