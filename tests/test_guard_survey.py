"""Every camera of a machine, put together."""

import numpy as np
import pytest
from vision_scenes import camera, recording

from lerobot_diagnostics.guard.devices import Device
from lerobot_diagnostics.guard.survey import Snapshot, shows, survey
from lerobot_diagnostics.vision import Comparer, ReferenceViews

FOUND = [
    Device(0, "USB Cam", by_path="/dev/v4l/by-path/a"),
    Device(2, "USB Cam", by_path="/dev/v4l/by-path/b"),
    Device(4, "Laptop"),
]


@pytest.fixture(scope="module")
def comparer():
    frames, episodes = recording({"front": 1, "wrist": 2})
    return Comparer(ReferenceViews.build(frames, episodes=episodes))


@pytest.mark.parametrize(
    ("picture", "name", "words"),
    [
        (camera(1, 0, 999), "front", "front"),
        (camera(2, 0, 999), "wrist", "wrist"),
        (camera(77, 0), None, "none of the recorded views"),
        (np.zeros((240, 320, 3), np.uint8), None, "black"),
    ],
)
def test_what_one_picture_shows(comparer, picture, name, words):
    assert shows(comparer, picture) == (name, words)


def test_the_line_to_copy_gives_each_camera_the_name_of_the_view_it_shows(comparer):
    shots = {
        0: Snapshot(camera(2, 0, 999), 30.0),
        2: Snapshot(camera(1, 0, 999), 30.0),
        4: Snapshot(None, 0.0, "/dev/video4 is in use by cheese (process 12)"),
    }
    done = survey(FOUND, shots, comparer, linux=True, serial_ports=["usb-1-port0"])
    assert done.lines[0] == (
        '--robot.cameras="{wrist: {type: opencv, index_or_path: /dev/v4l/by-path/a, width: 320, height: 240, fps: 30}, '
        'front: {type: opencv, index_or_path: /dev/v4l/by-path/b, width: 320, height: 240, fps: 30}}"'
    )
    assert [row[-1] for row in done.table.rows] == ["wrist", "front", "/dev/video4 is in use by cheese (process 12)"]
    assert set(done.pictures) == {"wrist", "front"}
    text = "\n".join(done.lines)
    assert 'SYMLINK+="cam_wrist"' in text and 'SYMLINK+="arm_0"' in text and "v4l2-ctl" in text
    assert "INDEX_UNSTABLE" not in text


def test_two_cameras_that_show_the_same_view_do_not_share_its_name(comparer):
    shots = {d.index: Snapshot(camera(1, 0, 990 + d.index), 30.0) for d in FOUND}
    done = survey(FOUND, shots, comparer, linux=False)
    assert list(done.pictures) == ["front", "cam2", "cam4"]
    assert "udev" not in "\n".join(done.lines)


def test_numbers_that_change_are_warned_of():
    found = [Device(0, "A"), Device(1, "B")]
    shots = {d.index: Snapshot(camera(1, 0), 30.0) for d in found}
    assert "INDEX_UNSTABLE" in "\n".join(survey(found, shots, None, linux=False).lines)
    assert "INDEX_UNSTABLE" not in "\n".join(survey(found[:1], shots, None, linux=False).lines)


def test_a_machine_without_cameras_says_so():
    done = survey([], {}, None, linux=True)
    assert done.lines == []
    assert "no camera" in done.table.note
