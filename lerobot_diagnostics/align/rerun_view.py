"""The Rerun view: live, recorded and overlay of each camera, the target band, and what to do in words.

Rerun itself is imported when a view is opened, never before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lerobot_diagnostics.align.loop import Shown
from lerobot_diagnostics.align.misalignment import Misalignment, Tolerance
from lerobot_diagnostics.align.overlay import encode_jpeg, like

if TYPE_CHECKING:
    from lerobot_diagnostics.align.reference import Reference

TIMELINE = "align_time"
ROOT = "/align"
FILE_FPS = 5.0
"""Pictures a second and camera kept in a file: ten minutes with two 640×480 cameras are then about 300 MB at most."""
TEXT_S = 0.2
MAGNIFY = 10.0
"""The band and the arrow are drawn this many times larger: three pixels would not be seen."""
GREEN, ORANGE = (0, 200, 80), (255, 140, 0)


@dataclass
class _Sink:
    stream: Any
    period_s: float
    picture_at: float = -math.inf
    text_at: float = -math.inf
    shown: Reference | None = None


class RerunView:
    """Logs ticks of the loop to Rerun.

    Args:
        viewer: A recording stream that a viewer shows, given every tick; None without one.
        file: A recording stream into an ``.rrd`` file, given :data:`FILE_FPS` pictures a second; None without one.
        tolerance: The target band.
    """

    def __init__(self, *, viewer: Any = None, file: Any = None, tolerance: Tolerance) -> None:
        self._sinks = [
            _Sink(stream, period_s) for stream, period_s in ((viewer, 0.0), (file, 1 / FILE_FPS)) if stream is not None
        ]
        self._tolerance = tolerance

    def update(self, shown: Shown) -> None:
        """Log a tick to every sink that is due."""
        if shown.reference is None:
            return
        due = [s for s in self._sinks if shown.time_s - s.picture_at >= s.period_s - 5e-4]
        if not due:
            return
        jpegs = {
            name: encode_jpeg(like(shown.pictures[name], recorded))
            for name, recorded in shown.reference.pictures.items()
            if name in shown.pictures
        }
        for sink in due:
            sink.picture_at = shown.time_s
            self._log(sink, shown, jpegs)

    def _log(self, sink: _Sink, shown: Shown, jpegs: dict[str, bytes]) -> None:
        import rerun as rr

        assert shown.reference is not None
        sink.stream.set_time(TIMELINE, duration=shown.time_s)
        if sink.shown is not shown.reference:
            if sink.shown is None:
                sink.stream.send_blueprint(blueprint(list(shown.reference.pictures)))
            sink.shown = shown.reference
            for name, recorded in shown.reference.pictures.items():
                jpeg = encode_jpeg(recorded, 90)
                sink.stream.log(f"{_path(name)}/recorded", _image(jpeg))
                sink.stream.log(f"{_path(name)}/ghost", _image(jpeg, opacity=0.5))
        for name, jpeg in jpegs.items():
            sink.stream.log(f"{_path(name)}/live", _image(jpeg))
        if shown.time_s - sink.text_at >= TEXT_S or shown.countdown == 0:
            sink.text_at = shown.time_s
            sink.stream.log(f"{ROOT}/what_to_do", rr.TextDocument(markdown(shown), media_type="text/markdown"))
            for camera in shown.measured.values():
                self._band(sink.stream, camera)

    def _band(self, stream: Any, camera: Misalignment) -> None:
        """The target band as a box about the centre, and from there an arrow the way the camera is to be slid."""
        import rerun as rr

        centre = [camera.width / 2, camera.height / 2]
        colour = GREEN if camera.within(self._tolerance) else ORANGE
        half = self._tolerance.shift_for(camera.width) * MAGNIFY
        box = rr.Boxes2D(centers=[centre], half_sizes=[[half, half]], colors=[colour], draw_order=10.0)
        stream.log(f"{_path(camera.camera)}/band", box)
        if camera.motion.found:
            vector = [camera.motion.dx_px * MAGNIFY, camera.motion.dy_px * MAGNIFY]
            arrow = rr.Arrows2D(origins=[centre], vectors=[vector], colors=[colour], radii=[2.0], draw_order=11.0)
            stream.log(f"{_path(camera.camera)}/arrow", arrow)
        else:
            stream.log(f"{_path(camera.camera)}/arrow", rr.Clear(recursive=False))


def markdown(shown: Shown) -> str:
    """The lines as a document, what is to be done first: Rerun's Markdown has no colours, and its font no symbols."""
    parts = ["# ALIGNED" if shown.aligned else "# Put it back"]
    if shown.countdown is not None:
        parts.append(f"**starting in {shown.countdown} s**")
    if shown.reference is not None:
        parts.append(f"against episode {shown.reference.episode}")
    for title, ok in (("To do", False), ("Not known", None), ("In place", True)):
        mine = [f"- **{line.subject}**: {line.text}" for line in shown.lines if line.ok is ok]
        parts += [f"## {title}", "\n".join(mine)] if mine else []
    return "\n\n".join([*parts, f"Box and arrow in the overlay are drawn {MAGNIFY:g} times larger."])


def blueprint(cameras: Sequence[str]) -> Any:
    """A row a camera: a large overlay, live and recorded beside it; the words at the right."""
    import rerun.blueprint as rrb

    rows = []
    for name in cameras:
        path = _path(name)
        parts = [f"{path}/{part}" for part in ("live", "ghost", "band", "arrow")]
        large = rrb.Spatial2DView(origin=path, contents=parts, name=f"{name}: overlay")
        small = [
            rrb.Spatial2DView(origin=path, contents=[f"{path}/{part}"], name=f"{name}: {part}")
            for part in ("live", "recorded")
        ]
        rows.append(rrb.Horizontal(large, rrb.Vertical(*small), column_shares=[2, 1]))
    words = rrb.TextDocumentView(origin=f"{ROOT}/what_to_do", name="what to do")
    pictures = rrb.Vertical(*rows)
    return rrb.Blueprint(rrb.Horizontal(pictures, words, column_shares=[3, 1]), collapse_panels=True)


def _path(camera: str) -> str:
    import rerun as rr

    return f"{ROOT}/{rr.escape_entity_path_part(camera)}"


def _image(jpeg: bytes, opacity: float | None = None) -> Any:
    import rerun as rr

    order = -10.0 if opacity is None else -5.0  # the translucent one above
    return rr.EncodedImage(contents=jpeg, media_type="image/jpeg", opacity=opacity, draw_order=order)
