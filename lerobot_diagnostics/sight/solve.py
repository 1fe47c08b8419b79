"""One camera solved from a recording: where it is, and how the arm's zeros lie against the model's."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from lerobot_diagnostics.sight.camera import Array, Camera
from lerobot_diagnostics.sight.fit import CAMERAS, SIZE, Fit, NothingSeenError, Scene, View, fit, overlap
from lerobot_diagnostics.sight.model import BASE_PARAMETERS, JOINTS, Arm
from lerobot_diagnostics.sight.silhouette import most_shown, silhouette, uncovered
from lerobot_diagnostics.sight.start import first_cameras
from lerobot_diagnostics.vision import Background
from lerobot_diagnostics.vision.images import Mask, Picture, shrink

WIDTH = 320
"""Pixels. Pictures are shrunk to this width."""
POOL, POSES = 30, 12
"""Pictures that the background is taken from, and those among them that are fitted."""
LEAST_POSES = 4
LEAST_OVERLAP = 0.9
"""Intersection over union of the drawn and the seen arm (:func:`overlap`) below which nothing is attributed."""
ZERO_PRIOR = np.array([3.0, 3.0, 3.0, 3.0, 3.0, 5.0])
"""How far a calibrated arm's zeros may lie from the model's: degrees, the gripper in its 0–100."""
WRIST_TURNS_DEG = (0.0, 90.0, -90.0)
"""Where the wrist's roll reads zero is a convention: it turns all the way, and its zero is the pose held at homing. (A
third party's simulated SO-101 is covered to 0.62 as it reads, and to 0.94 a quarter turn on.)"""
COVER_PX, LOOSE_COVER_PX = 6, 20
"""How far around the drawn arm the background is not trusted: when the arm is where it is drawn, and when it may be off
by several degrees (6° at 30 cm are 3 cm, 16 px here)."""


class CannotTellError(Exception):
    """Why the pictures do not decide, in words."""


@dataclass(frozen=True)
class Solved:
    """A camera, solved.

    Args:
        camera: See :class:`Camera`.
        zeros: [6] reading minus the model's pose while recording.
        background: What is behind the arm.
        readings: [N, 6] the poses it was solved from.
        overlap: Intersection over union of drawn and seen arm.
        fit: The last fit.
    """

    camera: Camera
    zeros: Array
    background: Background
    readings: Array
    overlap: float
    fit: Fit


def prior(zeros: Array) -> Array:
    """[16] standard deviations for :func:`fit`: camera free, zeros as given, base within hand's reach."""
    return np.array([*[np.inf] * CAMERAS, *zeros, 0.1, 0.1, 0.3])


def free(*columns: int | slice) -> NDArray[np.bool_]:
    """[16] bool with these columns true."""
    chosen = np.zeros(SIZE, bool)
    for column in columns:
        chosen[column] = True
    return chosen


THE_PLACE = slice(0, CAMERAS - 1)
"""The camera without its focal length: a rough outline that is too small would send it away, zoomed in."""
THE_CAMERA, THE_ZEROS = slice(0, CAMERAS), slice(CAMERAS, CAMERAS + len(JOINTS))
THE_BASE = slice(CAMERAS + len(JOINTS), SIZE)


def spread(states: Array, count: int, first: Sequence[int] = ()) -> list[int]:
    """Indices of at most ``count`` of the states [N, D], each as far as possible from those before it.

    Args:
        states: In units of one scale.
        count: How many, ``first`` included.
        first: Indices that are taken anyway.
    """
    chosen = list(first) or [int(np.linalg.norm(states - states.mean(axis=0), axis=1).argmax())]
    away = np.min([np.linalg.norm(states - states[index], axis=1) for index in chosen], axis=0)
    while len(chosen) < count and away.max() > 1.0:
        chosen.append(int(away.argmax()))
        away = np.minimum(away, np.linalg.norm(states - states[chosen[-1]], axis=1))
    return chosen


def working_size(picture: Picture) -> tuple[int, int]:
    """Width and height at which a picture is fitted."""
    height, width = picture.shape[:2]
    return min(width, WIDTH), round(height * min(width, WIDTH) / width)


def solve_camera(arm: Arm, readings: Array, pictures: Sequence[Picture]) -> Solved:
    """Solve one camera from pictures at known joint readings.

    Args:
        arm: The model.
        readings: [N, 6] degrees and gripper 0–100, in the order of :data:`JOINTS`, spread over the recording
            (see :func:`spread`), the first :data:`POSES` the most.
        pictures: N × [H, W, 3] uint8 RGB.

    Raises:
        CannotTellError: Too few poses, no camera explains the pictures, or the arm's outline does not match.
    """
    refused = None
    for turn in WRIST_TURNS_DEG:
        turned = np.array([0.0, 0.0, 0.0, 0.0, turn, 0.0])
        try:
            solved = _solve(arm, readings + turned, pictures)
        except CannotTellError as reason:
            refused = refused or reason
            continue
        return replace(solved, zeros=solved.zeros - turned, readings=solved.readings - turned)
    assert refused is not None
    raise refused


def _solve(arm: Arm, readings: Array, pictures: Sequence[Picture]) -> Solved:
    if len(readings) < LEAST_POSES:
        raise CannotTellError(f"{len(readings)} different poses are too few (at least {LEAST_POSES})")
    pictures = [shrink(picture, *working_size(picture)) for picture in pictures]
    rough = Background(most_shown(pictures), None)
    outlines = [silhouette(picture, rough) for picture in pictures[:POSES]]
    told = [index for index, seen in enumerate(outlines) if 0.002 < seen.inside.mean() < 0.6]
    if len(told) < LEAST_POSES:
        raise CannotTellError("the arm does not stand out from the background")
    first = [View(readings[index], 0, outlines[index]) for index in told]
    found: list[tuple[float, _Round]] = []
    for camera in first_cameras(arm, readings[told], [outlines[index].inside for index in told]):
        scene = Scene((camera,), np.zeros(len(JOINTS)), np.zeros(BASE_PARAMETERS))
        with suppress(NothingSeenError, np.linalg.LinAlgError):
            scene = fit(arm, scene, first, free(THE_PLACE), prior(ZERO_PRIOR), (30, 30, 20, 20)).scene
            tried = _round(arm, scene, readings, pictures, LOOSE_COVER_PX, free(THE_PLACE), (30, 20, 15, 10))
            found.append((overlap(arm, tried.fit.scene, tried.views), tried))
    if not found:
        raise CannotTellError("no camera position explains where the arm is seen")
    best = max(found, key=lambda pair: pair[0])[1]
    try:
        for around_px, widths in ((LOOSE_COVER_PX // 2, (15, 10, 6, 4)), (COVER_PX, (6, 3, 3))):
            columns = free(THE_CAMERA, THE_ZEROS)
            best = _round(arm, best.fit.scene, readings, pictures, around_px, columns, widths)
    except (NothingSeenError, np.linalg.LinAlgError):
        raise CannotTellError("no camera position explains where the arm is seen") from None
    share = overlap(arm, best.fit.scene, best.views)
    if share < LEAST_OVERLAP:
        raise CannotTellError(
            f"the model's outline covers the arm only to {share:.2f} (intersection over union, {LEAST_OVERLAP} needed)"
        )
    scene = best.fit.scene
    return Solved(scene.cameras[0], scene.zeros, best.background, readings[:POSES], share, best.fit)


class _Round(NamedTuple):
    background: Background
    views: list[View]
    fit: Fit


def _round(
    arm: Arm,
    scene: Scene,
    readings: Array,
    pictures: Sequence[Picture],
    around_px: int,
    columns: NDArray[np.bool_],
    widths: Sequence[float],
) -> _Round:
    """Take the background from where the scene says the arm is not, and fit the columns to the outlines before it."""
    background = uncovered(pictures, cover(arm, scene, readings, *working_size(pictures[0]), around_px))
    views = [
        View(reading, 0, silhouette(picture, background))
        for reading, picture in zip(readings[:POSES], pictures[:POSES], strict=True)
    ]
    return _Round(background, views, fit(arm, scene, views, columns, prior(ZERO_PRIOR), widths))


def cover(arm: Arm, scene: Scene, readings: Array, width: int, height: int, around_px: int) -> list[Mask]:
    """[H, W] bool for each reading, where the arm may be."""
    masks = []
    for reading in readings:
        arm.place(reading - scene.zeros, scene.base)
        drawn = (arm.draw(scene.cameras[0], width, height).link >= 0).astype(np.uint8)
        masks.append(cv2.dilate(drawn, np.ones((2 * around_px + 1,) * 2, np.uint8)) > 0)
    return masks
