"""Where the arm is in a picture: what differs from the background, as an outline with a distance to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import cv2
import numpy as np

from lerobot_diagnostics.vision import Background, foreground
from lerobot_diagnostics.vision.images import FloatMap, Mask, Picture

LEAST_AREA = 0.0003
"""Share of the picture under which a blob is noise, not the arm."""
ALIKE_LEVELS = 8
"""Grey levels within which a pixel shows the same: noise and compression, not shading."""
LEAST_FREE = 3


@dataclass(frozen=True)
class Silhouette:
    """The outline of what stands before the background.

    Args:
        inside: [H, W] bool.
        known: [H, W] bool, where inside and outside can be told.
        distance_px: [H, W] to the outline, negative inside.
        slope: [2, H, W], derivative of the distance along x and y.
    """

    inside: Mask
    known: Mask
    distance_px: FloatMap
    slope: FloatMap


def most_shown(pictures: Sequence[Picture]) -> Picture:
    """What each pixel shows most often [H, W, 3]: a table repeats exactly, an arm that passes does not.

    A median would show the arm wherever it is in half of the pictures; this takes a background seen in a few.
    """
    alike = np.zeros((len(pictures), *pictures[0].shape[:2]), np.uint8)
    for (a, first), (b, second) in combinations(enumerate(pictures), 2):
        same = cv2.inRange(cv2.absdiff(first, second), (0, 0, 0), (ALIKE_LEVELS,) * 3) > 0
        alike[a] += same
        alike[b] += same
    chosen = alike.argmax(axis=0)[None, ..., None]
    picture: Picture = np.take_along_axis(np.stack(pictures), chosen, axis=0)[0]
    return picture


def uncovered(pictures: Sequence[Picture], covered: Sequence[Mask]) -> Background:
    """The median of what each pixel shows while the arm is elsewhere; known from :data:`LEAST_FREE` pictures on.

    Args:
        pictures: [H, W, 3] uint8 RGB each.
        covered: [H, W] bool each, where the arm may be.
    """
    arm = np.stack(covered)
    shown = np.sort(np.where(arm[..., None], np.int16(256), np.stack(pictures)), axis=0)  # covered ones last
    free = (~arm).sum(axis=0)
    middle = np.stack([np.maximum(free - 1, 0) // 2, free // 2])[..., None]
    picture = np.take_along_axis(shown, np.minimum(middle, len(pictures) - 1), axis=0).mean(axis=0)
    return Background(np.minimum(picture, 255).astype(np.uint8), free >= LEAST_FREE)


def silhouette(picture: Picture, background: Background) -> Silhouette:
    """The outline of what stands before the background in a picture [H, W, 3]."""
    known = np.ones(picture.shape[:2], bool) if background.mask is None else background.mask
    return outline(cleaned(foreground(picture, background)), known)


def outline(inside: Mask, known: Mask) -> Silhouette:
    """The silhouette of a mask."""
    marked = inside.astype(np.uint8)
    out = cv2.distanceTransform(1 - marked, cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
    into = cv2.distanceTransform(marked, cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
    # each counts from the nearest pixel centre of the other kind; the outline lies half a pixel before it
    distance = np.where(inside, 0.5 - into, out - 0.5).astype(np.float32)
    smooth = cv2.GaussianBlur(distance, (5, 5), 0)
    slope = np.stack([cv2.Sobel(smooth, cv2.CV_32F, *axis, scale=1 / 8) for axis in ((1, 0), (0, 1))])
    return Silhouette(inside, known, distance, slope)


def cleaned(marked: Mask) -> Mask:
    """Without specks and pinholes."""
    area = round(LEAST_AREA * marked.size)
    kept = marked.astype(np.uint8)
    for value in (1, 0):
        _, labels, stats, _ = cv2.connectedComponentsWithStats((kept == value).astype(np.uint8), connectivity=4)
        small = np.flatnonzero(stats[:, cv2.CC_STAT_AREA] < area)
        kept[np.isin(labels, small[small > 0])] = 1 - value
    return kept.astype(bool)
