"""The two displays: what a terminal and a pipe get, and what lands in an .rrd file."""

import io

import numpy as np
import pytest
import vision_scenes as scenes
from rich.console import Console

from lerobot_diagnostics.align.loop import Shown
from lerobot_diagnostics.align.misalignment import Line, Misalignment, Tolerance
from lerobot_diagnostics.align.reference import Reference
from lerobot_diagnostics.align.rerun_view import FILE_FPS, RerunView, markdown
from lerobot_diagnostics.align.terminal import TerminalView, render
from lerobot_diagnostics.vision import Registration

SCENE = scenes.table(1)
REFERENCE = Reference(4, {"front": SCENE}, {})


def shown(time_s=0.0, text="slide the camera 14 px to the left", ok=False, **more) -> Shown:
    measured = Misalignment("front", 320, 240, Registration(-14 if not ok else 0, 0, 0, 1, 0.9, "identity"))
    fields = {"aligned": ok, "countdown": None, **more}
    return Shown(
        time_s,
        {"front": np.roll(SCENE, 14, axis=1)},
        REFERENCE,
        {"front": measured},
        [Line("front", text, ok)],
        **fields,
    )


def test_a_pipe_gets_what_changed_and_at_most_once_a_second():
    out = io.StringIO()
    with TerminalView(Console(file=out, width=60), keys=False) as view:
        for tick in range(90):  # 3 s
            view.update(shown(tick / 30, text=f"slide the camera {30 - tick // 30} px to the left"))
        view.update(shown(2.98, text="nothing new"))
    text = out.getvalue()
    assert [line.split("camera ")[1] for line in text.splitlines() if "camera" in line] == [
        "30 px to the left",
        "29 px to the left",
        "28 px to the left",
    ]
    assert "\x1b" not in text and "nothing new" not in text


def test_a_log_that_nobody_answers_says_every_five_seconds_what_it_waits_for():
    def printed(seconds, *, ok=False, **more):
        out = io.StringIO()
        with TerminalView(Console(file=out, width=60), keys=False, **more) as view:
            for tick in range(seconds * 10 + 1):
                view.update(shown(tick / 10, ok=ok))
        return out.getvalue()

    assert printed(12, waits=True).count("waiting until this is in place: front\n") == 3  # at 0, 5 and 10 s
    assert "waiting" not in printed(12, waits=True, ok=True)
    assert printed(12).count("slide") == 1 and "waiting" not in printed(12)


def test_a_terminal_gets_colours_and_the_keys():
    out = io.StringIO()
    with TerminalView(Console(file=out, width=100, force_terminal=True), keys=True) as view:
        view.update(shown(0.0))
        view.update(shown(1.0, text="in place", ok=True))
    assert "\x1b[33m" in out.getvalue() and "\x1b[32m" in out.getvalue()
    assert "q: quit" in out.getvalue()


def test_the_band_turns_green_and_the_countdown_is_shown():
    assert render(shown()).spans[-1].style == "yellow"
    done = render(shown(text="in place", ok=True, countdown=3))
    assert "ALIGNED" in done.plain and "starting in 3 s" in done.plain
    assert "against episode 4" in done.plain
    assert "# ALIGNED" in markdown(shown(ok=True)) and "## To do\n\n- **front**: slide" in markdown(shown())
    assert "## In place\n\n- **front**" in markdown(shown(ok=True)) and "To do" not in markdown(shown(ok=True))


def test_a_file_holds_live_recorded_and_the_words(tmp_path):
    rr = pytest.importorskip("rerun")
    path = tmp_path / "align.rrd"
    stream = rr.RecordingStream("test_align")
    stream.save(path)
    view = RerunView(file=stream, tolerance=Tolerance())
    for tick in range(60):  # 2 s
        view.update(shown(tick / 30))
    stream.disconnect()
    from rerun.experimental import RrdReader

    paths = {}
    for chunk in RrdReader(path).store().stream():
        paths[chunk.entity_path] = paths.get(chunk.entity_path, 0) + chunk.to_record_batch().num_rows
    for part in ("live", "recorded", "ghost", "band", "arrow"):
        assert f"/align/front/{part}" in paths
    assert paths["/align/front/live"] == pytest.approx(2 * FILE_FPS, abs=1)
    assert paths["/align/front/recorded"] == 1
    assert "/align/what_to_do" in paths
