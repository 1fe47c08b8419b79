"""Pictures as a processor step meets them, and the policy's names of cameras."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lerobot_diagnostics.camera_names import camera_name


def to_pictures(value: Any) -> list[NDArray[np.uint8]]:
    """One or more [H, W, 3] uint8 RGB pictures out of an observation's value.

    Args:
        value: Tensor (any device) or array [..., 3, H, W] or [..., H, W, 3]; uint8, or float in 0..1. Leading
            dimensions (a batch, a history) are flattened in order.

    Raises:
        ValueError: On another shape.
    """
    tensor = torch.as_tensor(value)
    if tensor.ndim < 3 or 3 not in (tensor.shape[-1], tensor.shape[-3]):
        raise ValueError(f"not a picture of three channels: shape {tuple(tensor.shape)}")
    tensor = tensor.reshape(-1, *tensor.shape[-3:])
    if tensor.is_floating_point():
        if tensor.device.type != "cpu":  # a quarter of the bytes to copy
            tensor = tensor.mul(255.0).round_().clamp_(0, 255).to(torch.uint8)
        else:
            tensor = tensor.float()
    return [_picture(array) for array in tensor.cpu().numpy()]


def _picture(array: NDArray[Any]) -> NDArray[np.uint8]:
    """[H, W, 3] uint8 of [3, H, W] or [H, W, 3], uint8 or float; OpenCV takes 0.4 ms where torch's steps take 3."""
    import cv2

    parts = [array] if array.shape[-1] == 3 else list(array)
    parts = [np.ascontiguousarray(part) for part in parts]
    if array.dtype != np.uint8:
        parts = [cv2.convertScaleAbs(part, alpha=255.0) for part in parts]  # rounds and saturates
    return np.asarray(parts[0] if len(parts) == 1 else cv2.merge(parts), np.uint8)


def pictures_of(observation: Mapping[str, Any]) -> dict[str, list[NDArray[np.uint8]]]:
    """{camera: pictures} of an observation; depth maps and whatever else has no three channels are left out."""
    found = {}
    for key, value in observation.items():
        if key.startswith("observation.image") and hasattr(value, "shape"):
            shape = tuple(value.shape)
            if len(shape) >= 3 and 3 in (shape[-1], shape[-3]):
                found[camera_name(key)] = to_pictures(value)
    return found
