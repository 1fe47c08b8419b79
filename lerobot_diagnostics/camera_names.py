"""``observation.images.front`` is the key of the camera ``front``: the one place that knows."""

from __future__ import annotations

IMAGES = "observation.images."


def camera_name(key: str) -> str:
    """``observation.images.front`` → ``front``; any other key stays whole."""
    return key.removeprefix(IMAGES)


def camera_key(name: str) -> str:
    """Inverse of :func:`camera_name`."""
    return name if name.startswith("observation.") else IMAGES + name
