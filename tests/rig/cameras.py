"""Network cameras for LeRobot's ``zmq`` camera type: a small publisher."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType

import cv2
import numpy as np
import zmq

Frames = Mapping[str, np.ndarray]


class FramePublisher:
    """Publishes pictures as LeRobot's image server does; use as a context manager.

    Args:
        source: Called with seconds since the start; returns ``{camera: [H, W, 3] uint8 RGB}``. An empty mapping
            publishes nothing: the cameras have died.
        fps: Pictures a second.

    Attributes:
        port: TCP port on 127.0.0.1, for ``{type: zmq, server_address: 127.0.0.1, port: …, camera_name: …}``.
    """

    def __init__(self, source: Callable[[float], Frames], fps: float = 30.0) -> None:
        self._source, self._period = source, 1 / fps

    def __enter__(self) -> FramePublisher:
        self._context = zmq.Context()
        socket = self._context.socket(zmq.PUB)
        socket.setsockopt(zmq.SNDHWM, 2)
        socket.setsockopt(zmq.LINGER, 0)
        self.port = socket.bind_to_random_port("tcp://127.0.0.1")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve, args=(socket,), daemon=True, name="frame-publisher")
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join(timeout=2)
        self._context.term()

    def _serve(self, socket: zmq.Socket) -> None:
        started = time.monotonic()
        encoded: dict[str, tuple[np.ndarray, str]] = {}
        while not self._stop.wait(self._period):
            frames = self._source(time.monotonic() - started)
            for name, picture in frames.items():
                if name not in encoded or encoded[name][0] is not picture:  # a still is encoded once
                    encoded[name] = (picture, base64.b64encode(_jpeg(picture)).decode())
            if frames:
                socket.send_string(message({name: encoded[name][1] for name in frames}, time.time()))
        socket.close()

    def config(self, camera: str, height: int, width: int, fps: int = 30, warmup_s: int = 1) -> str:
        """The camera's entry for ``--robot.cameras="{name: …}"``.

        ``timeout_ms`` is below the 2 s that LeRobot 0.6.1 waits for its reading thread: above it, disconnecting from a
        dead camera closes the socket under that thread and libzmq aborts the process.
        """
        return (
            f"{{type: zmq, server_address: 127.0.0.1, port: {self.port}, camera_name: {camera}, "
            f"height: {height}, width: {width}, fps: {fps}, warmup_s: {warmup_s}, "
            f"timeout_ms: 1000}}"
        )


def message(images: Mapping[str, str], timestamp: float) -> str:
    """One message of LeRobot's protocol, from ``{camera: JPEG in base 64}``."""
    return json.dumps({"timestamps": dict.fromkeys(images, timestamp), "images": images})


def _jpeg(picture: np.ndarray) -> bytes:
    """LeRobot's server encodes RGB arrays as if they were BGR and its camera returns what OpenCV decodes, so that RGB
    comes out; the same is done here."""
    ok, data = cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, 95])
    if not ok:
        raise ValueError(f"cannot encode a picture of shape {picture.shape}")
    return data.tobytes()
