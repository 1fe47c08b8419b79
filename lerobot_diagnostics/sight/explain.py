"""What explains a displaced arm best: nothing, one joint's zero, the base, or several joints.

Each explanation is fitted to the same outlines. It gains ``n · ln(cost of nothing / cost)``, with n the number of
independent outline pixels: twice the log-likelihood ratio for residuals of unknown scale.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lerobot_diagnostics.sight.camera import Array
from lerobot_diagnostics.sight.fit import CORRELATED_PX, Fit, NothingSeenError, Scene, View, fit, overlap
from lerobot_diagnostics.sight.model import BASE_PARAMETERS, JOINTS, Arm
from lerobot_diagnostics.sight.settle import Settled, settle
from lerobot_diagnostics.sight.silhouette import silhouette, uncovered
from lerobot_diagnostics.sight.solve import (
    LEAST_POSES,
    LOOSE_COVER_PX,
    POSES,
    THE_BASE,
    THE_ZEROS,
    CannotTellError,
    Solved,
    cover,
    free,
    prior,
    working_size,
)
from lerobot_diagnostics.vision.images import Picture, shrink

OFF_PRIOR = np.full(len(JOINTS), 10.0)
"""How far a zero may have gone: degrees, the gripper in its 0–100."""
WIDTHS_PX = (40, 40, 20, 10, 5, 3, 3)
"""A base moved by 10–30 mm and turned by 1–5°: with (20, 10, 5, 3, 3) the fit had not arrived in 7 of 40 draws; this
arrives in the four of them that were tried again."""
UNDERRATED = 2.2
"""The true error over the fit's own: root mean square 2.0 to 2.9 by joint over 28 draws from the front and the side.
The fit does not know the error of the camera."""
BASE, SEVERAL = "base", "several joints"


@dataclass(frozen=True)
class Explanation:
    """One explanation, fitted.

    Args:
        what: A joint's name, :data:`BASE` or :data:`SEVERAL`.
        gain: See above.
        fit: Its zeros and base are the changes since the recording.
    """

    what: str
    gain: float
    fit: Fit

    @property
    def off(self) -> dict[str, tuple[float, float]]:
        """By joint, how far its zero has moved (reading minus true pose, the joint's units) and one standard error."""
        error = UNDERRATED * np.sqrt(np.diag(self.fit.covariance))[: len(JOINTS)]
        return {joint: (float(self.fit.scene.zeros[i]), float(error[i])) for i, joint in enumerate(JOINTS)}


@dataclass(frozen=True)
class Explained:
    """Everything that was tried.

    Args:
        nothing: Cost in px² with nothing changed; ``recorded`` is that of the recording itself.
        explanations: Best first.
        overlap: Intersection over union under the best explanation.
        settled: By camera.
    """

    nothing: float
    recorded: float
    explanations: Sequence[Explanation]
    overlap: float
    settled: Mapping[str, Settled]


def views_after(
    arm: Arm,
    solved: Solved,
    readings: Array,
    pictures: Sequence[Picture],
    number: int,
    rows: Sequence[int] | None = None,
) -> tuple[Settled, list[View]]:
    """The camera now, and the outlines: of all poses when they are few, else of those nearest to the solved ones.

    Args:
        arm: The model.
        solved: The camera as recorded.
        readings: [M, 6] joint readings now.
        pictures: M × [H, W, 3] uint8 RGB.
        number: The camera's index in the scene to be fitted.
        rows: The pictures whose outlines are wanted, instead; the background is taken from all.

    Raises:
        CannotTellError: The background does not tell where the camera is, or too few poses.
    """
    size = working_size(solved.background.picture)
    pictures = [shrink(picture, *size) for picture in pictures]
    if len(readings) < LEAST_POSES:
        raise CannotTellError(f"{len(readings)} different poses are too few (at least {LEAST_POSES})")
    scene = Scene((solved.camera,), solved.zeros, np.zeros(BASE_PARAMETERS))
    background = uncovered(pictures, cover(arm, scene, readings, *size, LOOSE_COVER_PX))
    settled = settle(solved.camera, solved.background, background)
    if settled.camera is None:
        raise CannotTellError("the background is not recognised: the camera was moved too far, or it is another view")
    if settled.camera is not solved.camera:
        scene = Scene((settled.camera,), scene.zeros, scene.base)
        background = uncovered(pictures, cover(arm, scene, readings, *size, LOOSE_COVER_PX))
    if rows is None and len(readings) <= POSES:
        rows = range(len(readings))
    chosen = rows or sorted({int(np.linalg.norm(readings - pose, axis=1).argmin()) for pose in solved.readings})
    return settled, [
        View(readings[index] - solved.zeros, number, silhouette(pictures[index], background)) for index in chosen
    ]


Seen = Mapping[str, tuple[Array, Sequence[Picture]]]
"""By camera, joint readings [M, 6] and their M pictures."""


def all_views(
    arm: Arm, solved: Mapping[str, Solved], after: Seen, rows: Sequence[int] | None = None
) -> tuple[dict[str, Settled], list[View], list[Solved]]:
    """:func:`views_after` of every camera that can be compared: the cameras now, all outlines, what they rest on.

    Raises:
        CannotTellError: Where no camera's pictures can be compared.
    """
    settled: dict[str, Settled] = {}
    views: list[View] = []
    refused: list[str] = []
    used: list[Solved] = []
    for name, camera in solved.items():
        try:
            settled[name], seen = views_after(arm, camera, *after[name], number=len(used), rows=rows)
        except CannotTellError as reason:
            refused.append(f"{name}: {reason}")
            continue
        views += seen
        used.append(camera)
    if not views:
        raise CannotTellError("; ".join(refused))
    return settled, views, used


def unmoved(settled: Mapping[str, Settled]) -> Scene:
    """The cameras as they stand now, nothing else changed."""
    cameras = tuple(place.camera for place in settled.values() if place.camera is not None)
    return Scene(cameras, np.zeros(len(JOINTS)), np.zeros(BASE_PARAMETERS))


def explain(arm: Arm, solved: Mapping[str, Solved], after: Seen) -> Explained:
    """Explain what several cameras see now by what they saw in the recording.

    Args:
        arm: The model.
        solved: By camera, see :func:`~lerobot_diagnostics.sight.solve.solve_camera`.
        after: What they see now.

    Raises:
        CannotTellError: Where no camera's pictures can be compared.
    """
    settled, views, used = all_views(arm, solved, after)
    start = unmoved(settled)
    weights = prior(OFF_PRIOR)
    try:
        nothing = fit(arm, start, views, free(), weights, WIDTHS_PX[-1:])
        several = fit(arm, start, views, free(THE_ZEROS), weights, WIDTHS_PX)
        tried = {SEVERAL: several, BASE: fit(arm, start, views, free(THE_BASE), weights, WIDTHS_PX)}
        for joint in likely(several):
            tried[JOINTS[joint]] = fit(arm, start, views, free(THE_ZEROS.start + joint), weights, WIDTHS_PX)
    except (NothingSeenError, np.linalg.LinAlgError):
        raise CannotTellError("the arm is not seen where it should be") from None
    found = sorted(
        (Explanation(what, one.pixels / CORRELATED_PX * math.log(nothing.cost / one.cost), one)
         for what, one in tried.items()),
        key=lambda one: -one.gain,
    )  # fmt: skip
    return Explained(
        nothing.cost,
        float(np.mean([camera.fit.cost for camera in used])),
        found,
        overlap(arm, found[0].fit.scene, views),
        settled,
    )


def likely(several: Fit, count: int = 2) -> list[int]:
    """The joints which, alone, come nearest to all zeros fitted together, by the fit's own quadratic."""
    information = np.linalg.inv(several.covariance[: len(JOINTS), : len(JOINTS)])
    pull = information @ several.scene.zeros
    explained = pull**2 / np.diag(information)
    return [int(joint) for joint in np.argsort(-explained)[:count]]
