"""Which recorded camera does a picture show: a classifier trained on the recording itself.

A picture becomes a histogram of oriented gradients (Dalal & Triggs 2005): 8 × 8 cells × 8 directions over a 64 × 64 grey
picture, the gradient strength divided by its surroundings'. Exposure, white balance, blur and small objects hardly touch
it, and a motion of a few percent of the picture moves it little. Two scores a camera, both near 1 for its own pictures and
near 0 for others:

* ``fit``: ridge regression on every camera's references, jittered in geometry and light. The seven turned and mirrored
  forms of all references are in the training set as strangers, so a score is of an upright picture of that camera.
* ``likeness``: mean cosine with the three nearest references after removing what all views in all orientations share.

The first separates well what it has seen and cannot know what it has not; the second knows a stranger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from lerobot_diagnostics.vision.images import Picture, grey, shrink

Vector = NDArray[np.float32]

SIDE, CELLS, DIRECTIONS = 64, 8, 8
LENGTH = CELLS * CELLS * DIRECTIONS

ORIENTATIONS = (
    "upright",
    "turned 90° counter-clockwise",
    "turned 180°",
    "turned 90° clockwise",
    "mirrored left-right",
    "mirrored left-right, then turned 90° counter-clockwise",
    "mirrored top-bottom",
    "mirrored left-right, then turned 90° clockwise",
)
"""What has happened to a picture, in the order of :func:`oriented`."""

JITTERS = 3
"""Jittered copies of a reference in the training set."""


def oriented(picture: Picture, orientation: int) -> Picture:
    """The picture as it would look after :data:`ORIENTATIONS` ``[orientation]`` has happened to it."""
    base = picture[:, ::-1] if orientation >= 4 else picture
    return np.ascontiguousarray(np.rot90(base, orientation % 4))


def undone(picture: Picture, orientation: int) -> Picture:
    """Inverse of :func:`oriented`."""
    base = np.rot90(picture, -(orientation % 4))
    return np.ascontiguousarray(base[:, ::-1] if orientation >= 4 else base)


def describe(picture: Picture) -> Vector:
    """[512] float32 descriptor of unit length; about 1 ms for a 640×480 picture."""
    values = np.log1p(grey(shrink(picture, SIDE, SIDE)))
    values = cv2.GaussianBlur(values, (0, 0), 1.0)
    gx = cv2.Sobel(values, cv2.CV_32F, 1, 0, ksize=3)
    gy = cv2.Sobel(values, cv2.CV_32F, 0, 1, ksize=3)
    strength = cv2.magnitude(gx, gy)
    around = cv2.blur(strength, (SIDE // 4 + 1, SIDE // 4 + 1))
    # 0.02: a gradient of 2 % a pixel, the strength of sensor noise and JPEG blocks after the blur.
    weight = np.sqrt(strength) / np.sqrt(around + 0.02)
    unit_x, unit_y = gx / (strength + 1e-6), gy / (strength + 1e-6)
    layers = []
    for k in range(DIRECTIONS):
        angle = 2 * np.pi * k / DIRECTIONS
        along = np.maximum(np.cos(angle) * unit_x + np.sin(angle) * unit_y, 0.0)
        layers.append(weight * np.square(np.square(along)))
    cells = cv2.resize(cv2.GaussianBlur(np.dstack(layers), (0, 0), 3.0), (CELLS, CELLS), interpolation=cv2.INTER_AREA)
    vector = cells.reshape(-1)
    return np.asarray(vector / (np.linalg.norm(vector) + 1e-9), np.float32)


def _permutation(orientation: int) -> NDArray[np.intp]:
    """``describe(oriented(picture, k)) == describe(picture)[_permutation(k)]``, up to rounding.

    A mirror sends direction θ to π − θ; a counter-clockwise quarter turn, with y down, sends θ to θ − π/2.
    """
    index = np.arange(LENGTH).reshape(CELLS, CELLS, DIRECTIONS)
    directions = np.arange(DIRECTIONS)
    if orientation >= 4:
        index = index[:, ::-1][..., (DIRECTIONS // 2 - directions) % DIRECTIONS]
    for _ in range(orientation % 4):
        index = np.rot90(index)[..., (directions + DIRECTIONS // 4) % DIRECTIONS]
    return index.reshape(-1)


PERMUTATIONS: NDArray[np.intp] = np.stack([_permutation(k) for k in range(8)])
"""[8, 512]. A turned or mirrored picture's descriptor without looking at the picture again."""


def _jittered(picture: Picture, rng: np.random.Generator) -> Picture:
    """The picture under a small random camera motion and another light: ±6 % shift, ±5°, ±8 % zoom, ×0.5–1.6."""
    small = shrink(picture, SIDE, SIDE)
    matrix = cv2.getRotationMatrix2D(((SIDE - 1) / 2, (SIDE - 1) / 2), rng.uniform(-5, 5), 1 + rng.uniform(-0.08, 0.08))
    matrix[:, 2] += rng.uniform(-0.06, 0.06, 2) * SIDE
    moved = cv2.warpAffine(small, matrix, (SIDE, SIDE), borderMode=cv2.BORDER_REPLICATE)
    gains = rng.uniform(0.5, 1.6) * rng.uniform(0.85, 1.15, 3)
    noisy = moved * gains + rng.normal(0.0, rng.uniform(0.0, 6.0), moved.shape)
    return np.clip(noisy, 0, 255).astype(np.uint8)


@dataclass(frozen=True)
class Scores:
    """Scores of one picture: [8, C] over what may have happened to it (:data:`ORIENTATIONS`) and the cameras."""

    fit: Vector
    likeness: Vector

    @property
    def total(self) -> Vector:
        """[8, C] sum of both."""
        return self.fit + self.likeness


class Identifier:
    """Scores pictures against the references of C cameras.

    Args:
        references: A camera's reference pictures, [H, W, 3] uint8 RGB, for every camera.
        groups: The episode each reference comes from, for :meth:`held_out`.
    """

    def __init__(self, references: Mapping[str, Sequence[Picture]], groups: Mapping[str, Sequence[int]]) -> None:
        self.cameras = tuple(references)
        rng = np.random.default_rng(0)
        plain, rows, labels, row_groups = [], [], [], []
        self._owner = np.concatenate([np.full(len(references[c]), j) for j, c in enumerate(self.cameras)])
        self._group = np.concatenate([np.asarray(groups[c]) for c in self.cameras])
        for j, camera in enumerate(self.cameras):
            for picture, group in zip(references[camera], groups[camera], strict=True):
                plain.append(describe(picture))
                copies = [plain[-1], *(describe(_jittered(picture, rng)) for _ in range(JITTERS))]
                for vector in copies:
                    rows.append(vector[PERMUTATIONS])
                    labels += [j] + [-1] * 7
                    row_groups += [group] * 8
        self._plain = np.stack(plain)
        self._rows = np.concatenate(rows).astype(np.float64)
        self._targets = np.equal.outer(np.array(labels), np.arange(len(self.cameras))).astype(np.float64)
        self._row_groups = np.array(row_groups)
        self._fitted = self._fit(np.ones(len(self._rows), bool))

    def _fit(self, used: NDArray[np.bool_]) -> tuple[Vector, Vector, Vector]:
        """Ridge weights [512, C], intercept [C] and the centre [512]; upright rows weigh as much as all others."""
        rows, targets = self._rows[used], self._targets[used]
        weight = np.where(targets.any(axis=1), 1.0, 1.0 / 7.0)
        centre = rows.mean(axis=0)
        rows = rows - centre
        weighted = rows * weight[:, None]
        gram = weighted.T @ rows
        mean_target = weight @ targets / weight.sum()
        # A ridge of 6 % of the mean eigenvalue per dimension: chosen once, results flat between 2 % and 15 %.
        gram[np.diag_indices(LENGTH)] += RIDGE * np.trace(gram) / LENGTH
        solved = np.linalg.solve(gram, weighted.T @ (targets - mean_target))
        return solved.astype(np.float32), mean_target.astype(np.float32), centre.astype(np.float32)

    def scores(self, picture: Picture) -> Scores:
        """[8, C] scores of a picture, as it is and with each orientation undone."""
        return self._scores(describe(picture), self._fitted, np.ones(len(self._plain), bool))

    def _scores(self, vector: Vector, fitted: tuple[Vector, Vector, Vector], used: NDArray[np.bool_]) -> Scores:
        weights, intercept, centre = fitted
        # Row k: the descriptor with orientation k undone.
        candidates = vector[INVERSES] - centre
        fit = candidates @ weights + intercept
        references = self._plain[used] - centre
        references = references / (np.linalg.norm(references, axis=1, keepdims=True) + 1e-9)
        candidates = candidates / (np.linalg.norm(candidates, axis=1, keepdims=True) + 1e-9)
        cosines = candidates @ references.T
        likeness = np.zeros_like(fit)
        for j in range(len(self.cameras)):
            mine = np.sort(cosines[:, self._owner[used] == j], axis=1)[:, -3:]
            likeness[:, j] = mine.mean(axis=1) if mine.shape[1] else 0.0
        return Scores(fit, likeness)

    def nearest(self, camera: str, picture: Picture, count: int) -> list[int]:
        """Which of a camera's references look most like the picture, the most alike first."""
        mine = self._plain[self._owner == self.cameras.index(camera)]
        order: list[int] = np.argsort(-(mine @ describe(picture)), kind="stable")[:count].tolist()
        return order

    def held_out(self) -> dict[int, dict[str, list[Scores]]]:
        """Every reference scored by a classifier that has not seen its episode: {episode: {camera: scores}}."""
        result: dict[int, dict[str, list[Scores]]] = {}
        if len(set(self._group.tolist())) < 2:
            return result
        for group in sorted(set(self._group.tolist())):
            used = self._group != group
            if set(self._owner[used].tolist()) != set(range(len(self.cameras))):
                continue  # a camera without any other episode
            fitted = self._fit(self._row_groups != group)
            result[group] = {
                camera: [
                    self._scores(v, fitted, used) for v in self._plain[(self._group == group) & (self._owner == j)]
                ]
                for j, camera in enumerate(self.cameras)
            }
        return result


RIDGE = 0.06
INVERSES: NDArray[np.intp] = np.stack([np.argsort(p) for p in PERMUTATIONS])
