"""Without a model of the arm: how its outline moves per degree of each joint, learnt from pictures of a snapshot.

While the setup works, each joint is nudged by a few degrees either way at one or a few poses and photographed. Later,
at the same poses, the change of the picture is explained by those differences: ``Δ(picture) ≈ −δ_j · ∂picture/∂q_j``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.sight.camera import Array
from lerobot_diagnostics.vision.images import Picture, grey, shrink

SIDE = 80
"""Pixels. Blurred and this wide, a picture changes almost linearly with a few degrees."""
BLUR_PX = 2.5

TOUCHED = 0.05
"""Share of the strongest slope from which on a pixel counts as the arm's."""


@dataclass(frozen=True)
class Nudged:
    """Pictures of one pose.

    Args:
        picture: [H, W, 3] uint8 RGB at the pose.
        nudges: By joint, (offset of the reading, [H, W, 3] picture), each with the other joints where they were.
    """

    picture: Picture
    nudges: Mapping[str, Sequence[tuple[float, Picture]]]


@dataclass(frozen=True)
class NudgeFit:
    """What the nudges explain.

    Args:
        joint: The one joint that explains the change best alone, or None where nothing changed or two do equally well.
        offset: Its reading minus what it read in the same place, in the nudges' units.
        error: One standard error.
        explained: By joint, the share of the change that it explains alone.
    """

    joint: str | None
    offset: float
    error: float
    explained: Mapping[str, float]


LEAST_EXPLAINED = 0.4
LEAD = 0.1
"""Share of the change that the named joint explains at least, and its lead over the next."""


def fit_nudges(snapshot: Sequence[Nudged], live: Sequence[Picture]) -> NudgeFit:
    """Explain live pictures at a snapshot's poses by one joint's zero.

    Args:
        snapshot: One or more poses.
        live: A picture at each pose, the joints reading the same.

    Raises:
        UsageError: As many live pictures as poses are needed, and every pose needs the same joints nudged.
    """
    if len(live) != len(snapshot) or not snapshot:
        raise UsageError(f"{len(live)} live pictures for {len(snapshot)} poses of the snapshot: one each is needed.")
    joints = sorted(snapshot[0].nudges)
    if any(sorted(pose.nudges) != joints for pose in snapshot):
        raise UsageError("the poses of the snapshot have different joints nudged.", "Take the snapshot again.")
    change = np.concatenate([_map(seen) - _map(pose.picture) for seen, pose in zip(live, snapshot, strict=True)])
    slopes = np.stack([np.concatenate([_slope(pose, joint) for pose in snapshot]) for joint in joints], axis=1)
    touched = np.abs(slopes).max(axis=1) > TOUCHED * np.abs(slopes).max()
    change, slopes = change[touched], slopes[touched]  # what lies elsewhere is not the arm's
    # a zero that reads δ too much puts the arm −δ from where the same reading had it
    strength = (slopes**2).sum(axis=0)
    offsets = -(slopes.T @ change) / strength
    total = float(change @ change)
    explained = offsets**2 * strength / total if total else np.zeros(len(joints))
    order = np.argsort(-explained)
    best = int(order[0])
    residual = change + slopes[:, best] * offsets[best]
    variance = float(residual @ residual) / len(residual) * 4 * np.pi * BLUR_PX**2  # blurred pixels err together
    error = float(np.sqrt(variance / strength[best]))
    lead = explained[best] - explained[order[1]] if len(order) > 1 else explained[best]
    sure = explained[best] >= LEAST_EXPLAINED and lead >= LEAD and abs(offsets[best]) > 3 * error
    return NudgeFit(
        joints[best] if sure else None,
        float(offsets[best]),
        error,
        dict(zip(joints, (float(share) for share in explained), strict=True)),
    )


def _map(picture: Picture) -> Array:
    """[SIDE·h] blurred grey levels, free of brightness and contrast."""
    height, width = picture.shape[:2]
    small = grey(shrink(picture, SIDE, round(SIDE * height / width)))
    smooth = cv2.GaussianBlur(small, (0, 0), BLUR_PX).astype(float).ravel()
    normal: Array = (smooth - np.median(smooth)) / (smooth.std() + 1.0)
    return normal


def _slope(pose: Nudged, joint: str) -> Array:
    """Derivative of the map by the reading: least squares through the nudges and the pose itself."""
    here = _map(pose.picture)
    steps = np.array([offset for offset, _ in pose.nudges[joint]])
    changes = np.stack([_map(seen) - here for _, seen in pose.nudges[joint]])
    slope: Array = steps @ changes / (steps @ steps)
    return slope
