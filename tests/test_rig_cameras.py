"""The camera publisher, through LeRobot's ZMQ camera."""

import numpy as np
import pytest
from lerobot.cameras.zmq import ZMQCamera, ZMQCameraConfig
from rig import FramePublisher


def red(_seconds: float) -> dict[str, np.ndarray]:
    picture = np.zeros((24, 32, 3), np.uint8)
    picture[..., 0] = 200
    return {"front": picture, "wrist": picture[:, :, ::-1]}


def connect(publisher: FramePublisher, name: str) -> ZMQCamera:
    config = ZMQCameraConfig(
        server_address="127.0.0.1", port=publisher.port, camera_name=name, height=24, width=32, fps=30, timeout_ms=500
    )
    camera = ZMQCamera(config)
    camera.connect(warmup=False)
    return camera


@pytest.mark.parametrize(("name", "channel"), [("front", 0), ("wrist", 2)])
def test_pictures_arrive_as_rgb_by_camera_name(name, channel):
    with FramePublisher(red, fps=60) as publisher:
        camera = connect(publisher, name)
        picture = camera.async_read(timeout_ms=3000)
        camera.disconnect()
    assert picture.shape == (24, 32, 3)
    assert picture[12, 16].argmax() == channel
    assert picture[12, 16, channel] == pytest.approx(200, abs=6)  # JPEG


def test_a_dead_camera_goes_stale():
    alive = [True]
    with FramePublisher(lambda seconds: red(seconds) if alive[0] else {}, fps=60) as publisher:
        camera = connect(publisher, "front")
        camera.async_read(timeout_ms=3000)
        camera.read_latest(max_age_ms=1000)
        alive[0] = False
        camera.new_frame_event.clear()
        with pytest.raises(TimeoutError):
            camera.async_read(timeout_ms=300)
            camera.async_read(timeout_ms=300)  # the first may still hold a picture in flight
        with pytest.raises(TimeoutError, match="too old"):
            camera.read_latest(max_age_ms=100)
        camera.disconnect()
