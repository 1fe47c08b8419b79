"""Pictures of a report, drawn without a screen and without pyplot's global state.

Colours are those of Okabe and Ito (2008, "Color Universal Design"), which colour-blind readers can tell apart; line
style and marker differ too, so that a picture survives a grey printer.
"""

from __future__ import annotations

import math
import textwrap
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lerobot_diagnostics.report.write import atomic_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#1a1f27"
SOFT = "#5b6573"
GRID = "#e3e6ea"
RECORDED = "#000000"
PREDICTED = "#D55E00"
HELD = "#56B4E9"
SERIES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (6, 2)), (0, (3, 1, 1, 1)), (0, (1, 1)))
MARKERS = "osD^vPX"

FloatArray = npt.NDArray[np.floating[Any]]
ImageArray = npt.NDArray[np.uint8]

DPI = 110
"""At 10 inches a figure is 1100 px wide: sharp on a laptop, and 12 joints stay below 400 kB as PNG."""

_TWO_COLUMNS_FROM = 9
"""From so many joints on the panels stand in two columns: 12 of them in one would be two screens tall."""


@dataclass(frozen=True)
class Moment:
    """One row of :func:`worst_moments`: a caption and a frame of each camera, ``[H, W, 3]`` uint8 RGB."""

    caption: str
    frames: Mapping[str, ImageArray]


def joint_curves(
    path: Path,
    *,
    names: Sequence[str],
    units: Sequence[str],
    timestamps: FloatArray,
    recorded: FloatArray,
    predicted: FloatArray,
    chunk_starts: Sequence[int] = (),
    held: FloatArray | None = None,
    title: str = "",
) -> Path:
    """Recorded against predicted actions, one panel a joint, the error shaded between the two.

    Args:
        path: A ``.png`` file; written whole or not at all.
        names: J joint names.
        units: J units, shown on each panel's axis.
        timestamps: ``[T]`` seconds.
        recorded: ``[T, J]`` in the joints' units.
        predicted: ``[T, J]``, same frames; NaN leaves a gap.
        chunk_starts: Rows at which the policy was asked again; thin ticks at the foot of each panel.
        held: ``[T, J]`` the baseline "keep the state the arm was in", drawn faintly.
        title: Above the panels.

    Raises:
        ValueError: When the shapes do not agree.
    """
    T, J = recorded.shape
    if predicted.shape != (T, J) or timestamps.shape != (T,) or len(names) != J or len(units) != J:
        raise ValueError(
            f"recorded {recorded.shape}, predicted {predicted.shape}, timestamps {timestamps.shape}, "
            f"{len(names)} names and {len(units)} units do not belong together"
        )
    if held is not None and held.shape != (T, J):
        raise ValueError(f"held is {held.shape}, recorded is {recorded.shape}")
    columns = 2 if J >= _TWO_COLUMNS_FROM else 1
    rows = math.ceil(J / columns)
    figure = _figure(12.0 if columns == 2 else 10.0, 1.0 + 1.35 * rows)
    axes = figure.subplots(rows, columns, sharex=True, squeeze=False)
    panels = [axes[j % rows][j // rows] for j in range(rows * columns)]  # down each column: an arm stays together
    for panel in panels[J:]:
        panel.set_visible(False)
    for j, panel in enumerate(panels[:J]):
        _style(panel)
        if held is not None:
            panel.plot(timestamps, held[:, j], color=HELD, linewidth=1.0, linestyle=":", label="held state")
        panel.fill_between(
            timestamps, recorded[:, j], predicted[:, j], color=PREDICTED, alpha=0.18, linewidth=0, label="error"
        )
        panel.plot(timestamps, recorded[:, j], color=RECORDED, linewidth=1.4, label="recorded")
        panel.plot(timestamps, predicted[:, j], color=PREDICTED, linewidth=1.2, linestyle="--", label="predicted")
        if len(chunk_starts):
            panel.vlines(
                timestamps[np.asarray(chunk_starts, dtype=int)], 0.0, 0.09, color=SOFT, linewidth=0.7,
                transform=panel.get_xaxis_transform(), label="policy asked",
            )  # fmt: skip
        panel.set_title(names[j], loc="left", fontsize=9, color=INK, pad=3, parse_math=False)
        panel.set_ylabel("degrees" if units[j] == "°" else units[j], fontsize=8, color=SOFT, parse_math=False)
        panel.margins(x=0.01)
        if j == J - 1 or j % rows == rows - 1:
            panel.tick_params(labelbottom=True)
            panel.set_xlabel("time (s)", fontsize=8, color=SOFT)
    handles, labels = panels[0].get_legend_handles_labels()
    order = [labels.index(n) for n in ("recorded", "predicted", "error", "held state", "policy asked") if n in labels]
    figure.legend(
        [handles[i] for i in order], [labels[i] for i in order],
        loc="outside upper right", ncols=len(order), frameon=False, fontsize=8.5, labelcolor=INK,
    )  # fmt: skip
    if title:
        _title(figure, title)
    return _save(figure, path)


def checkpoint_curve(
    path: Path, steps: Sequence[int], series: Mapping[str, Sequence[float | None]], *, ylabel: str, title: str = ""
) -> Path:
    """A measure over training steps, one line a label, its last value written at its end.

    Args:
        path: A ``.png`` file; written whole or not at all.
        steps: S training steps, ascending.
        series: S values by label; None and NaN leave a gap.
        ylabel: The measure with its unit.
        title: Above the plot.

    Raises:
        ValueError: When a series has another length than ``steps``.
    """
    from matplotlib.ticker import MaxNLocator

    figure = _figure(9.0, 4.2)
    axis = figure.subplots()
    _style(axis)
    top = 0.0
    for i, (label, values) in enumerate(series.items()):
        if len(values) != len(steps):
            raise ValueError(f"{label}: {len(values)} values for {len(steps)} steps")
        y = np.array([math.nan if v is None else float(v) for v in values])
        axis.plot(
            steps, y, color=SERIES[i % len(SERIES)], linestyle=DASHES[i % len(DASHES)], linewidth=1.8,
            marker=MARKERS[i % len(MARKERS)], markersize=5, label=label.lstrip("_"),
        )  # fmt: skip
        finite = np.flatnonzero(np.isfinite(y))
        if finite.size:
            last = int(finite[-1])
            top = max(top, float(np.max(y[finite])))
            axis.annotate(
                f"{y[last]:.3g}", (steps[last], y[last]), xytext=(8, 0), textcoords="offset points",
                va="center", fontsize=9, color=SERIES[i % len(SERIES)],
            )  # fmt: skip
    axis.set_xlabel("training step", fontsize=9, color=SOFT)
    axis.set_ylabel(ylabel, fontsize=9, color=SOFT, parse_math=False)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}".replace(",", " "))
    if top > 0:
        axis.set_ylim(0, top * 1.12)  # from zero: a curve that fell by a tenth must not look as if it had fallen away
    axis.margins(x=0.08)
    if len(series) > 1:
        figure.legend(loc="outside upper right", ncols=len(series), frameon=False, fontsize=9, labelcolor=INK)
    if title:
        _title(figure, title)
    return _save(figure, path)


def worst_moments(path: Path, moments: Sequence[Moment], *, title: str = "") -> Path:
    """Camera frames of the moments that deserve a look, one row a moment, one column a camera.

    Args:
        path: A ``.jpg`` file; written whole or not at all.
        moments: At least one.
        title: Above the rows.

    Raises:
        ValueError: Without a frame to show.
    """
    cameras = list(dict.fromkeys(camera for moment in moments for camera in moment.frames))
    if not cameras:
        raise ValueError("no frame to show")
    width = min(12.0, 4.5 * len(cameras))
    cell = width / len(cameras)
    tallest = [max((f.shape[0] / f.shape[1] for f in moment.frames.values()), default=0.5) * cell for moment in moments]
    # The caption's own line: long ones wrap, at about 11 characters an inch of 10-point type.
    captions = [textwrap.fill(moment.caption, int(width * 12)) for moment in moments]
    room = [0.32 + 0.2 * caption.count("\n") for caption in captions]
    figure = _figure(width, sum(tallest) + sum(room) + 0.35 * len(moments) + (0.4 if title else 0.0))
    strips = figure.subfigures(
        len(moments), 1, squeeze=False, height_ratios=[t + r for t, r in zip(tallest, room, strict=True)]
    )
    for moment, caption, (strip,) in zip(moments, captions, strips, strict=True):
        strip.suptitle(caption, fontsize=10, color=INK, x=0.01, ha="left", parse_math=False)
        for axis, camera in zip(strip.subplots(1, len(cameras), squeeze=False)[0], cameras, strict=True):
            axis.set_axis_off()
            if camera in moment.frames:
                axis.imshow(moment.frames[camera], aspect="equal", interpolation="auto")
                axis.set_title(camera, fontsize=8, color=SOFT, pad=3, loc="left", parse_math=False)
    if title:
        _title(figure, title)
    return _save(figure, path)


def _figure(width: float, height: float) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def _style(axis: Axes) -> None:
    axis.spines[["top", "right"]].set_visible(False)
    axis.spines[["left", "bottom"]].set_color("#b8bfc8")
    axis.tick_params(labelsize=8, colors=SOFT, length=3)
    axis.grid(visible=True, color=GRID, linewidth=0.6)
    axis.set_axisbelow(True)


def _title(figure: Figure, title: str) -> None:
    figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold", color=INK, parse_math=False)


def _save(figure: Figure, path: Path) -> Path:
    jpeg = path.suffix.lower() in {".jpg", ".jpeg"}
    with atomic_file(path) as temporary, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # a task in another script shows boxes
        figure.savefig(temporary, dpi=DPI, pil_kwargs={"quality": 85, "optimize": True} if jpeg else {"optimize": True})
    return path
