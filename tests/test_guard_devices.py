"""What the operating systems say of their cameras, by hand-made copies of it."""

import json

import pytest

from lerobot_diagnostics.guard.devices import (
    Device,
    list_devices,
    lock_lines,
    robot_cameras,
    stable_paths,
    udev_rules,
)

pytestmark = pytest.mark.filterwarnings("error")


def linux(root, cameras):
    """A ``/sys`` and ``/dev`` of cameras: (video numbers, name, by-id, by-path)."""
    for folder in ("sys/class/video4linux", "dev/v4l/by-id", "dev/v4l/by-path"):
        (root / folder).mkdir(parents=True)
    for numbers, name, by_id, by_path in cameras:
        for k, number in enumerate(numbers):
            node = root / f"sys/class/video4linux/video{number}"
            node.mkdir()
            (node / "name").write_text(f"{name}\n")
            (node / "index").write_text(f"{k}\n")
            (root / f"dev/video{number}").touch()
            for kind, link in (("by-id", by_id), ("by-path", by_path)):
                path = root / f"dev/v4l/{kind}/{link}-video-index{k}"
                if link:
                    path.unlink(missing_ok=True)  # identical serial numbers: the last one takes the link
                    path.symlink_to(f"../../video{number}")
    return root


SERIAL = ("usb-Logi_C920_AB12", "usb-Logi_C920_CD34")
PATH = ("pci-0000:00:14.0-usb-0:1:1.0", "pci-0000:00:14.0-usb-0:2:1.0")


def test_linux_lists_cameras_by_number_without_their_metadata_nodes(tmp_path):
    root = linux(tmp_path, [((2, 3), "C920", SERIAL[0], PATH[0]), ((10, 11), "C920", SERIAL[1], PATH[1])])
    found = list_devices("Linux", root)
    assert [d.index for d in found] == [2, 10]
    assert found[0] == Device(
        2, "C920", f"/dev/v4l/by-id/{SERIAL[0]}-video-index0", f"/dev/v4l/by-path/{PATH[0]}-video-index0"
    )
    assert stable_paths(found) == {2: found[0].by_id, 10: found[1].by_id}


def test_identical_serial_numbers_are_told_apart_by_port(tmp_path):
    root = linux(tmp_path, [((0, 1), "USB Cam", "usb-X_1", PATH[0]), ((2, 3), "USB Cam", "usb-X_1", PATH[1])])
    found = list_devices("Linux", root)
    assert [d.by_id for d in found] == [None, "/dev/v4l/by-id/usb-X_1-video-index0"]
    assert stable_paths(found) == {d.index: d.by_path for d in found}
    rules = udev_rules({"front": found[0], "wrist": found[1]}, stable_paths(found), ["pci-1-port0"])
    assert rules == [
        f'SUBSYSTEM=="video4linux", ATTR{{index}}=="0", ENV{{ID_PATH}}=="{PATH[0]}", SYMLINK+="cam_front"',
        f'SUBSYSTEM=="video4linux", ATTR{{index}}=="0", ENV{{ID_PATH}}=="{PATH[1]}", SYMLINK+="cam_wrist"',
        'SUBSYSTEM=="tty", ENV{ID_PATH}=="pci-1", SYMLINK+="arm_0"',
    ]


def test_different_serial_numbers_give_rules_by_serial(tmp_path):
    found = list_devices("Linux", linux(tmp_path, [((0,), "C920", SERIAL[0], PATH[0])]))
    (rule,) = udev_rules({"front": found[0]}, stable_paths(found), [])
    assert 'ENV{ID_SERIAL}=="Logi_C920_AB12"' in rule


def test_no_cameras_no_folders(tmp_path):
    assert list_devices("Linux", tmp_path) == []
    assert list_devices("Darwin", run=lambda _command: "") == []
    assert list_devices("Windows", run=lambda _command: "") == []


def test_macos_numbers_cameras_by_unique_id():
    said = {
        "SPCameraDataType": [
            {"_name": "FaceTime HD Camera", "spcamera_unique-id": "47B4B64B", "spcamera_model-id": "x"},
            {"_name": "USB Camera", "spcamera_unique-id": "0x1100000046d0825"},
        ]
    }
    asked = []
    found = list_devices("Darwin", run=lambda command: asked.append(command[0]) or json.dumps(said))
    assert asked == ["system_profiler"]
    assert [(d.index, d.name, d.unique_id) for d in found] == [
        (0, "USB Camera", "0x1100000046d0825"),
        (1, "FaceTime HD Camera", "47B4B64B"),
    ]
    assert stable_paths(found) == {0: 0, 1: 1}


@pytest.mark.parametrize("several", [True, False])
def test_windows_answers_one_camera_without_a_list(several):
    one = {"Name": "USB Camera", "DeviceID": "USB\\VID_1"}
    found = list_devices("Windows", run=lambda _command: json.dumps([one, one] if several else one))
    assert [d.name for d in found] == ["USB Camera"] * (2 if several else 1)
    assert found[0].unique_id == "USB\\VID_1"


def test_the_cameras_flag_is_what_lerobot_parses():
    import draccus
    from lerobot.cameras import CameraConfig
    from lerobot.cameras.opencv import OpenCVCameraConfig

    devices = {"front": Device(0, "C920", by_path="/dev/v4l/by-path/a"), "wrist": Device(2, "C920")}
    flag = robot_cameras(devices, stable_paths(list(devices.values())), {0: (640, 480, 30.0), 2: (1280, 720, 29.97)})
    assert flag.startswith('--robot.cameras="') and flag.endswith('"')
    parsed = draccus.decode(dict[str, CameraConfig], __import__("yaml").safe_load(flag.split("=", 1)[1].strip('"')))
    assert isinstance(parsed["front"], OpenCVCameraConfig)
    assert str(parsed["front"].index_or_path) == "/dev/v4l/by-path/a"
    assert (parsed["wrist"].index_or_path, parsed["wrist"].width, parsed["wrist"].fps) == (2, 1280, 30)


def test_exposure_is_read_before_it_is_held():
    lines = lock_lines([Device(0, "C920", by_id="/dev/v4l/by-id/a"), Device(4, "X")], {0: "/dev/v4l/by-id/a", 4: 4})
    assert lines[0] == "v4l2-ctl -d /dev/v4l/by-id/a --get-ctrl=exposure_time_absolute,white_balance_temperature"
    assert "auto_exposure=1,white_balance_automatic=0" in lines[1]
    assert lines[3].startswith("v4l2-ctl -d /dev/video4 ")
