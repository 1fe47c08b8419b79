import subprocess
import sys

import numpy as np
import pytest

from lerobot_diagnostics.report.rerun_log import RerunLog, has_display

rr = pytest.importorskip("rerun")

T = 60
TIME = np.arange(T) / 30
RECORDED = np.stack([np.sin(TIME), np.cos(TIME)], axis=1)
PREDICTED = RECORDED.copy()
PREDICTED[10:, 1] = np.nan


def open_log(path, *, display=False, save=True, available=False):
    return RerunLog(
        path, names=["pan.pos", "the lift"], units=["°", ""], display=display, save=save, display_available=available
    )


def read(path):
    """Values by entity path and component."""
    from rerun.experimental import RrdReader

    values = {}
    for chunk in RrdReader(path).store().stream():
        batch = chunk.to_record_batch()
        for name in batch.schema.names:
            values.setdefault((chunk.entity_path, name), []).extend(batch.column(name).to_pylist())
    return values


def scalars(values, entity):
    return [
        v[0] for (path, name), column in values.items() if path == entity and "Scalars:scalars" in name for v in column
    ]


def test_what_was_logged_can_be_read_back(tmp_path):
    path = tmp_path / "run" / "log.rrd"
    with open_log(path) as log:
        log.joints(3, TIME, RECORDED, PREDICTED)
        kept = [log.frame(3, "top", t, np.full((48, 64, 3), 200, np.uint8)) for t in TIME]
    assert list(path.parent.iterdir()) == [path]  # no temporary name left
    values = read(path)
    np.testing.assert_allclose(scalars(values, "/episode_3/joints/pan.pos/recorded"), RECORDED[:, 0])
    np.testing.assert_allclose(scalars(values, "/episode_3/joints/pan.pos/predicted"), PREDICTED[:, 0])
    np.testing.assert_allclose(scalars(values, r"/episode_3/joints/the\ lift/predicted"), PREDICTED[:10, 1])
    blobs = [
        v
        for (entity, name), column in values.items()
        if entity == "/episode_3/cameras/top" and "blob" in name
        for v in column
    ]
    assert len(blobs) == sum(kept) == 20  # 30 Hz thinned to 10
    assert all(bytes(blob[0])[:2] == b"\xff\xd8" for blob in blobs)  # JPEG


def test_cameras_and_episodes_are_thinned_apart_and_a_restart_is_kept(tmp_path):
    image = np.zeros((8, 8, 3), np.uint8)
    with open_log(tmp_path / "a.rrd") as log:
        given = [(0, "a", 0.0), (0, "b", 0.0), (1, "a", 0.0), (0, "a", 0.05), (0, "a", 0.1), (0, "a", 0.0)]
        assert [log.frame(e, c, t, image) for e, c, t in given] == [True, True, True, False, True, True]


def test_a_failure_leaves_no_file(tmp_path):
    with pytest.raises(RuntimeError), open_log(tmp_path / "a.rrd") as log:
        log.joints(0, TIME, RECORDED, PREDICTED)
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_an_interruption_keeps_what_was_logged(tmp_path):
    with pytest.raises(KeyboardInterrupt), open_log(tmp_path / "a.rrd") as log:
        log.joints(0, TIME, RECORDED, PREDICTED)
        raise KeyboardInterrupt
    assert len(scalars(read(tmp_path / "a.rrd"), "/episode_0/joints/pan.pos/recorded")) == T


def test_display_asked_for_without_a_display_writes_the_file_and_says_so(tmp_path):
    with open_log(tmp_path / "a.rrd", display=True, save=False) as log:
        pass
    assert log.saves and (tmp_path / "a.rrd").exists()
    assert "no viewer can be shown here" in log.note and str(tmp_path / "a.rrd") in log.note


def test_a_viewer_that_will_not_start_falls_back_to_the_file(tmp_path, monkeypatch):
    def refuse(**_options):
        raise RuntimeError("no executable")

    monkeypatch.setattr(rr, "spawn", refuse)
    with open_log(tmp_path / "a.rrd", display=True, save=False, available=True) as log:
        pass
    assert (tmp_path / "a.rrd").exists() and "no viewer" in log.note


@pytest.mark.parametrize(
    ("environ", "platform", "expected"),
    [
        ({}, "linux", False),
        ({"DISPLAY": ""}, "linux", False),
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        ({}, "darwin", True),
        ({}, "win32", True),
    ],
)
def test_where_a_window_can_be_opened(environ, platform, expected):
    assert has_display(environ, platform) is expected


def test_rerun_is_imported_only_when_a_log_is_opened():
    code = "import sys, lerobot_diagnostics.report.rerun_log; print('rerun' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
        == "False"
    )
