"""Pictures of live against recorded: overlay, difference, and strips of all four for a file."""

from __future__ import annotations

from collections.abc import Mapping

import cv2
import numpy as np

from lerobot_diagnostics.vision.images import Picture, shrink

CAPTIONS = ("live", "recorded", "overlay", "difference")
CAPTION_HEIGHT = 22
"""Pixels above each picture of a strip."""


def like(live: Picture, recorded: Picture) -> Picture:
    """The live picture in the recorded one's size."""
    return shrink(live, recorded.shape[1], recorded.shape[0])


def overlay(live: Picture, recorded: Picture, opacity: float = 0.5) -> Picture:
    """The recorded picture, ``opacity`` opaque, over the live one: [H, W, 3] uint8 RGB in the recorded size."""
    blended = cv2.addWeighted(like(live, recorded), 1 - opacity, recorded, opacity, 0)
    return np.asarray(blended, np.uint8)


def difference(live: Picture, recorded: Picture) -> Picture:
    """Where they differ: [H, W, 3] uint8 RGB, black where equal; the edges of what moved light up in pairs."""
    return np.asarray(cv2.absdiff(like(live, recorded), recorded), np.uint8)


def strip(live: Picture, recorded: Picture) -> Picture:
    """Live, recorded, overlay and difference side by side with captions: [H + 22, 4 W, 3] uint8 RGB."""
    pictures = (like(live, recorded), recorded, overlay(live, recorded), difference(live, recorded))
    titled = [_titled(picture, caption) for picture, caption in zip(pictures, CAPTIONS, strict=True)]
    return np.ascontiguousarray(np.hstack(titled))


def sheet(live: Mapping[str, Picture], recorded: Mapping[str, Picture]) -> Picture:
    """One strip a camera, below each other, each under its camera's name; narrower strips are padded on the right.

    Args:
        live, recorded: {camera: [H, W, 3] uint8 RGB}; cameras that are in both are drawn.
    """
    strips = [_titled(strip(live[name], picture), name) for name, picture in recorded.items() if name in live]
    width = max(s.shape[1] for s in strips)
    padded = [cv2.copyMakeBorder(s, 0, 0, 0, width - s.shape[1], cv2.BORDER_CONSTANT) for s in strips]
    return np.ascontiguousarray(np.vstack(padded), np.uint8)


def encode_png(picture: Picture) -> bytes:
    """PNG file content of [H, W, 3] uint8 RGB."""
    return bytes(cv2.imencode(".png", picture[..., ::-1])[1])


def encode_jpeg(picture: Picture, quality: int = 80) -> bytes:
    """JPEG file content of [H, W, 3] uint8 RGB: 1 to 3 ms at 640×480."""
    return bytes(cv2.imencode(".jpg", picture[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])[1])


def _titled(picture: Picture, caption: str) -> Picture:
    bar = np.zeros((CAPTION_HEIGHT, picture.shape[1], 3), np.uint8)
    cv2.putText(bar, caption, (4, 16), cv2.FONT_HERSHEY_SIMPLEX, 0.5, (255, 255, 255), 1, cv2.LINE_AA)
    return np.vstack([bar, picture])
