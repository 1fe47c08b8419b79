"""Cameras that open, fail, hang or stop; and why."""

import os
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from lerobot_diagnostics.findings import Status
from lerobot_diagnostics.guard.capture import camera_configs, failures, opened, reason, unstable_indices


class Camera:
    def __init__(self, config, closed):
        self.config, self.closed = config, closed

    def connect(self):
        if self.config == "broken":
            raise ConnectionError("Failed to open.\nRun something.")
        if self.config == "hangs":
            threading.Event().wait(30)

    def async_read(self, timeout_ms):
        if self.config == "dies":
            raise TimeoutError(f"nothing within {timeout_ms} ms")
        return np.full((20, 20, 3), 7)

    def disconnect(self):
        self.closed.append(self.config)


def cameras(closed):
    return lambda configs: {name: Camera(config, closed) for name, config in configs.items()}


def test_each_camera_has_its_limit_and_its_reason_and_is_closed():
    closed: list[str] = []
    configs = {"front": "good", "wrist": "broken", "top": "hangs", "side": "dies"}
    with opened(configs, cameras(closed), limit_s=0.3, why=lambda config, error: (f"{config}: {error}", "fix")) as live:
        assert list(live.cameras) == ["front", "side"]
        assert live.failed == {
            "wrist": ("broken: Failed to open.", "fix"),
            "top": ("hangs: no answer within 0 s", "fix"),
        }
        naps: list[float] = []
        live.pictures = 3
        taken = live.grab(naps.append)
        assert list(taken) == ["front"]
        assert len(taken["front"]) == 3 and taken["front"][0].dtype == np.uint8
        assert len(naps) == 2
        assert "delivers no picture (nothing within 1000 ms)" in live.failed["side"][0]
    assert set(closed) == {"good", "dies"}
    found = failures(live.failed)
    assert {f.subject for f in found} == {"wrist", "top", "side"}
    assert all(f.code == "MISSING_CAMERA" and f.status is Status.FAIL for f in found)


def test_a_two_armed_robot_prefixes_its_arms_cameras():
    robot = SimpleNamespace(
        cameras={"top": 1},
        left_arm_config=SimpleNamespace(cameras={"wrist": 2}),
        right_arm_config=SimpleNamespace(cameras={"wrist": 3}),
    )
    assert camera_configs(robot) == {"top": 1, "left_wrist": 2, "right_wrist": 3}
    assert camera_configs(SimpleNamespace(cameras={"front": 1})) == {"front": 1}


@pytest.mark.parametrize(
    ("devices", "unstable"),
    [
        ((0, 2), True),
        (("/dev/video0", 2), True),
        ((0,), False),  # one camera cannot be exchanged
        ((0, "/dev/v4l/by-id/usb-X-video-index0"), False),
        (("/dev/v4l/by-path/a", "/dev/v4l/by-path/b"), False),
    ],
)
def test_numbers_are_unstable_from_two_cameras_on(devices, unstable):
    configs = {f"cam{k}": SimpleNamespace(index_or_path=device) for k, device in enumerate(devices)}
    found = unstable_indices({**configs, "network": SimpleNamespace(server_address="x", port=1)})
    assert [f.code for f in found] == (["INDEX_UNSTABLE"] if unstable else [])


def why(config, *, system="Linux", root=Path("/"), may_use=True, error="Failed to open"):
    return reason(config, error, system=system, root=root, may_use=lambda _path: may_use)


def device(root, number=0):
    (root / "dev").mkdir(exist_ok=True)
    (root / f"dev/video{number}").touch()
    return SimpleNamespace(index_or_path=number)


def test_missing_forbidden_busy_and_silent_are_told_apart(tmp_path):
    config = device(tmp_path, 2)
    missing = why(SimpleNamespace(index_or_path=0), root=tmp_path)
    assert missing[0] == "there is no /dev/video0 (present: video2)"
    assert "--list=true" in missing[1]
    assert "usermod -aG video" in why(config, root=tmp_path, may_use=False)[1]
    assert "Failed to open" in why(config, root=tmp_path)[0]
    holder = tmp_path / "proc/4242"
    (holder / "fd").mkdir(parents=True)
    (holder / "comm").write_text("cheese\n")
    (holder / "fd/7").symlink_to(tmp_path / "dev/video2")
    assert why(config, root=tmp_path)[0] == "/dev/video2 is in use by cheese (process 4242)"
    mine = tmp_path / f"proc/{os.getpid()}"
    holder.rename(mine)
    assert "in use" not in why(config, root=tmp_path)[0]


def test_other_systems_name_their_privacy_setting():
    config = SimpleNamespace(index_or_path=0)
    assert "Privacy & Security > Camera" in why(config, system="Darwin")[1]
    assert "desktop apps" in why(config, system="Windows")[1]


def test_a_network_camera_names_its_server():
    config = SimpleNamespace(server_address="10.0.0.5", port=5555)
    assert "10.0.0.5:5555" in why(config)[0]
