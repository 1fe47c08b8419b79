"""Least squares of the model's outline against the outlines in the pictures.

A pixel on the drawn outline knows its link and depth, hence how it moves with every joint, with the base and with the
camera; the picture says how far the observed outline is. Gauss–Newton with Geman–McClure weights, whose width shrinks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from lerobot_diagnostics.sight.camera import PARAMETERS, Array, Camera
from lerobot_diagnostics.sight.model import BASE_PARAMETERS, JOINTS, Arm, Drawing
from lerobot_diagnostics.sight.silhouette import Silhouette
from lerobot_diagnostics.vision.images import Mask

CAMERAS = PARAMETERS
SIZE = CAMERAS + len(JOINTS) + BASE_PARAMETERS
"""Columns of a Jacobian: camera, zeros of the joints, base."""
NEAR_PX, FROM_WIDTH_PX = 4.0, 5.0
"""Residual of a stretch that does not belong to the arm, once the fit has come near."""
LEAST_PIXELS = 100
"""Outline pixels under which there is nothing to fit."""

MARGIN_PX = 3
"""Around the still base: a moving link before or behind it leaves no outline that can be trusted."""
CORRELATED_PX = 10.0
"""Outline pixels that err together, so count as one."""


class NothingSeenError(Exception):
    """No outline of the arm where it could be compared."""


@dataclass(frozen=True)
class View:
    """One picture of the arm: what the joints read [6], which camera, and the outline."""

    reading: Array
    camera: int
    silhouette: Silhouette


@dataclass(frozen=True)
class Scene:
    """What is fitted.

    Args:
        cameras: One or more.
        zeros: [6] reading minus true pose, in the joints' units.
        base: [3] metres, metres, radians.
    """

    cameras: tuple[Camera, ...]
    zeros: Array
    base: Array


@dataclass(frozen=True)
class Fit:
    """A fitted scene.

    Args:
        scene: See :class:`Scene`.
        covariance: [9, 9] of zeros and base.
        cost: Mean Geman–McClure cost of the outline pixels at the last width, in px².
        rms_px: Robust scale of the residuals.
        pixels: How many outline pixels took part.
    """

    scene: Scene
    covariance: Array
    cost: float
    rms_px: float
    pixels: int


def usable(drawing: Drawing, silhouette: Silhouette) -> Mask:
    """[H, W] where model and picture can be compared: background known, off the base, off the picture's edge."""
    base = cv2.dilate((drawing.link == 0).astype(np.uint8), np.ones((2 * MARGIN_PX + 1,) * 2, np.uint8))
    good: Mask = silhouette.known & (base == 0)
    for edge in (np.s_[:2], np.s_[-2:], np.s_[:, :2], np.s_[:, -2:]):
        good[edge] = False
    return good


def compare(arm: Arm, scene: Scene, view: View, near_px: float | None = None) -> tuple[Array, Array]:
    """Residuals [K] in pixels and their Jacobian [K, 16] on the drawn outline.

    With ``near_px``, stretches with a residual beyond it are left out whole: what the arm holds, or what hides it,
    bends the outline beside it too. (In simulation that halves the gripper's error and triples what its zero gains.)
    """
    camera, silhouette = scene.cameras[view.camera], view.silhouette
    height, width = silhouette.inside.shape
    arm.place(view.reading - scene.zeros, scene.base)
    drawing = arm.draw(camera, width, height)
    moving = drawing.moving.astype(np.uint8)
    rim = (moving == 1) & (cv2.erode(moving, np.ones((3, 3), np.uint8)) == 0) & usable(drawing, silhouette)
    rim &= np.abs(silhouette.slope).sum(axis=0) > 0.5  # ridges of the distance say nothing
    if near_px is not None:
        far = rim & (np.abs(silhouette.distance_px + 0.5) > near_px)
        rim &= cv2.dilate(far.astype(np.uint8), np.ones((9, 9), np.uint8)) == 0
    rows, columns = np.nonzero(rim)
    residual = silhouette.distance_px[rows, columns].astype(float) + 0.5  # a rim pixel is half a pixel inside
    seen = camera.rays(np.column_stack((columns, rows)).astype(float), width, height)
    seen *= drawing.depth_m[rows, columns, None]
    world = seen @ camera.rotation.T + camera.position_m
    by_world = camera.by_point(seen, height) @ camera.rotation.T
    pixels = np.concatenate(
        (
            camera.by_parameters(seen, height),
            -by_world @ arm.by_joints(world, drawing.link[rows, columns]),
            by_world @ arm.by_base(world),
        ),
        axis=2,
    )
    jacobian = np.einsum("kp,kpc->kc", silhouette.slope[:, rows, columns].T.astype(float), pixels)
    return residual, jacobian


@dataclass(frozen=True)
class _Normal:
    """Normal equations of all views, in units of one independent pixel's variance."""

    information: Array
    slope: Array
    cost: float
    rms_px: float
    pixels: int


def _normal(arm: Arm, scene: Scene, views: Sequence[View], width_px: float) -> _Normal:
    own = CAMERAS * len(scene.cameras)
    size = own + SIZE - CAMERAS
    information, slope, residuals = np.zeros((size, size)), np.zeros(size), []
    for view in views:
        residual, jacobian = compare(arm, scene, view, NEAR_PX if width_px <= FROM_WIDTH_PX else None)
        at = np.concatenate((np.arange(CAMERAS) + CAMERAS * view.camera, np.arange(own, size)))
        weighted = jacobian / ((1 + (residual / width_px) ** 2) ** 2)[:, None]
        information[np.ix_(at, at)] += weighted.T @ jacobian
        slope[at] += weighted.T @ residual
        residuals.append(residual)
    every = np.concatenate(residuals)
    if len(every) < LEAST_PIXELS:
        raise NothingSeenError
    variance = (1.4826 * float(np.median(np.abs(every - np.median(every))))) ** 2 + 1 / 12  # of a pixel's rounding
    unit = variance * CORRELATED_PX
    cost = float((every**2 / (1 + (every / width_px) ** 2)).mean())
    return _Normal(information / unit, slope / unit, cost, variance**0.5, len(every))


def fit(
    arm: Arm, scene: Scene, views: Sequence[View], free: NDArray[np.bool_], prior: Array, widths_px: Sequence[float]
) -> Fit:
    """Fit the free columns.

    Args:
        arm: The model.
        scene: Where to start.
        views: What was seen. The camera's columns are each camera's own; zeros and base are everybody's.
        free: [16] bool.
        prior: [16] standard deviation of each column about zero (camera: of each step); inf is none.
        widths_px: Width of the Geman–McClure weight at each iteration.

    Raises:
        NothingSeenError: The drawn outline lies where nothing can be compared.
    """
    own = CAMERAS * len(scene.cameras)
    weak = np.concatenate((*([prior[:CAMERAS] ** -2] * len(scene.cameras)), prior[CAMERAS:] ** -2))
    every = np.concatenate((*([free[:CAMERAS]] * len(scene.cameras)), free[CAMERAS:]))
    chosen = np.flatnonzero(every)
    for width in widths_px:
        normal = _normal(arm, scene, views, width)
        slope = normal.slope
        slope[own:] += weak[own:] * np.concatenate((scene.zeros, scene.base))
        step = np.zeros(len(weak))
        step[chosen] = -np.linalg.solve((normal.information + np.diag(weak))[np.ix_(chosen, chosen)], slope[chosen])
        cameras = (camera.moved(step[CAMERAS * i : CAMERAS * (i + 1)]) for i, camera in enumerate(scene.cameras))
        scene = Scene(tuple(cameras), scene.zeros + step[own : own + len(JOINTS)], scene.base + step[-BASE_PARAMETERS:])
    normal = _normal(arm, scene, views, widths_px[-1])
    covariance = np.zeros((len(weak),) * 2)
    covariance[np.ix_(chosen, chosen)] = np.linalg.inv((normal.information + np.diag(weak))[np.ix_(chosen, chosen)])
    return Fit(scene, covariance[own:, own:], normal.cost, normal.rms_px, normal.pixels)


def overlap(arm: Arm, scene: Scene, views: Sequence[View], near_px: int = 8) -> float:
    """Intersection over union of drawn and seen arm, all views together.

    Counted up to ``near_px`` around the drawn arm, and without the pixels on either side of its outline: compression
    blurs those, and of a thin or half hidden arm they are most.
    """
    both = either = 0
    for view in views:
        silhouette = view.silhouette
        height, width = silhouette.inside.shape
        arm.place(view.reading - scene.zeros, scene.base)
        drawing = arm.draw(scene.cameras[view.camera], width, height)
        drawn = drawing.moving.astype(np.uint8)
        counted = (cv2.dilate(drawn, np.ones((2 * near_px + 1,) * 2, np.uint8)) > 0) & usable(drawing, silhouette)
        counted &= cv2.dilate(drawn, np.ones((3, 3), np.uint8)) == cv2.erode(drawn, np.ones((3, 3), np.uint8))
        both += int((drawing.moving & silhouette.inside & counted).sum())
        either += int(((drawing.moving | silhouette.inside) & counted).sum())
    return both / either if either else 0.0
