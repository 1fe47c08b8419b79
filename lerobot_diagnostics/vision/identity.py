"""Which recorded camera does a picture show: a classifier trained on the recording itself.

A picture becomes a histogram of oriented gradients (Dalal & Triggs 2005): 8 × 8 cells × 8 directions over a 64 × 64
grey picture, the gradient strength divided by its surroundings'. Exposure, white balance, blur and small objects hardly
touch it, and a motion of a few percent of the picture moves it little. Two scores a camera, both near 1 for its own
pictures and near 0 for others:

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
_ANGLES = 2 * np.pi * np.arange(DIRECTIONS) / DIRECTIONS
_COS, _SIN = np.cos(_ANGLES).astype(np.float32), np.sin(_ANGLES).astype(np.float32)

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
RIDGE = 0.06
"""Ridge, as a share of the mean eigenvalue."""
NEIGHBOURS = 3
"""References that a likeness is the mean cosine with."""


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
    along = np.maximum(unit_x[..., None] * _COS + unit_y[..., None] * _SIN, 0.0)
    layers = weight[..., None] * np.square(np.square(along))
    cells = cv2.resize(cv2.GaussianBlur(layers, (0, 0), 3.0), (CELLS, CELLS), interpolation=cv2.INTER_AREA)
    vector = cells.reshape(-1)
    return np.asarray(vector / (np.linalg.norm(vector) + 1e-9), np.float32)


def _permutation(orientation: int) -> NDArray[np.intp]:
    """``describe(oriented(picture, k)) == describe(picture)[_permutation(k)]``, up to rounding.

    A mirror sends direction θ to π − θ; a counter-clockwise quarter turn, with y down, sends θ to θ − π/2.
    """
    index: NDArray[np.intp] = np.arange(LENGTH).reshape(CELLS, CELLS, DIRECTIONS)
    directions = np.arange(DIRECTIONS)
    if orientation >= 4:
        index = index[:, ::-1][..., (DIRECTIONS // 2 - directions) % DIRECTIONS]
    for _ in range(orientation % 4):
        index = np.rot90(index)[..., (directions + DIRECTIONS // 4) % DIRECTIONS]
    return index.reshape(-1)


PERMUTATIONS: NDArray[np.intp] = np.stack([_permutation(k) for k in range(8)])
"""[8, 512]. A turned or mirrored picture's descriptor without looking at the picture again."""
INVERSES: NDArray[np.intp] = np.stack([np.argsort(p) for p in PERMUTATIONS])


def _jittered(picture: Picture, rng: np.random.Generator) -> Picture:
    """The picture under a small random camera motion and another light: ±6 % shift, ±5°, ±8 % zoom, ×0.5–1.6."""
    small = shrink(picture, SIDE, SIDE)
    matrix = cv2.getRotationMatrix2D(((SIDE - 1) / 2, (SIDE - 1) / 2), rng.uniform(-5, 5), 1 + rng.uniform(-0.08, 0.08))
    matrix[:, 2] += rng.uniform(-0.06, 0.06, 2) * SIDE
    moved = cv2.warpAffine(small, matrix, (SIDE, SIDE), borderMode=cv2.BORDER_REPLICATE)
    gains = rng.uniform(0.5, 1.6) * rng.uniform(0.85, 1.15, 3)
    noisy = moved * gains + rng.normal(0.0, rng.uniform(0.0, 6.0), moved.shape)
    return np.asarray(np.clip(noisy, 0, 255), np.uint8)


@dataclass(frozen=True)
class Scores:
    """Scores of one picture: [8, C] over what may have happened to it (:data:`ORIENTATIONS`) and the cameras."""

    fit: Vector
    likeness: Vector

    @property
    def total(self) -> Vector:
        """[8, C] sum of both."""
        return self.fit + self.likeness


@dataclass(frozen=True)
class _Fitted:
    """A trained classifier: ridge weights [512, C], intercept [C], centre [512], unit references [N, 512], their
    owners [N]."""

    weights: Vector
    intercept: Vector
    centre: Vector
    references: Vector
    owners: NDArray[np.intp]

    def scores(self, vector: Vector) -> Scores:
        candidates = vector[INVERSES] - self.centre  # row k: the descriptor with orientation k undone
        fit = candidates @ self.weights + self.intercept
        cosines = _unit(candidates) @ self.references.T
        likeness = np.zeros(fit.shape, np.float32)
        for j in range(fit.shape[1]):
            likeness[:, j] = np.sort(cosines[:, self.owners == j], axis=1)[:, -NEIGHBOURS:].mean(axis=1)
        return Scores(np.asarray(fit, np.float32), likeness)


def _unit(rows: Vector) -> Vector:
    return np.asarray(rows / (np.linalg.norm(rows, axis=1, keepdims=True) + 1e-9), np.float32)


class Identifier:
    """Scores pictures against the references of C cameras.

    Args:
        references: Every camera's reference pictures, [H, W, 3] uint8 RGB.
        groups: The episode each reference comes from, for :meth:`held_out`.
    """

    def __init__(self, references: Mapping[str, Sequence[Picture]], groups: Mapping[str, Sequence[int]]) -> None:
        self.cameras = tuple(references)
        rng = np.random.default_rng(0)
        vectors, owners, episodes, plain = [], [], [], []
        for j, camera in enumerate(self.cameras):
            for picture, group in zip(references[camera], groups[camera], strict=True):
                vectors += [describe(picture), *(describe(_jittered(picture, rng)) for _ in range(JITTERS))]
                plain += [True] + [False] * JITTERS
                owners += [j] * (1 + JITTERS)
                episodes += [group] * (1 + JITTERS)
        self._vectors = np.stack(vectors)
        self._plain = np.array(plain)
        self._owners = np.array(owners, np.intp)
        self._episodes = np.array(episodes)
        self._fitted = self._fit(np.ones(len(vectors), bool))

    def _fit(self, used: NDArray[np.bool_]) -> _Fitted:
        """Train on the references marked: upright ones as their camera, their seven other orientations as strangers."""
        vectors, owners = self._vectors[used], self._owners[used]
        rows = vectors[:, PERMUTATIONS].reshape(-1, LENGTH).astype(np.float64)  # 8 a reference, upright first
        targets = np.zeros((len(rows), len(self.cameras)))
        targets[np.arange(0, len(rows), 8), owners] = 1.0
        # Upright rows weigh as much as all others together.
        weight = np.tile([1.0] + [1.0 / 7.0] * 7, len(vectors))
        centre = rows.mean(axis=0)
        rows -= centre
        weighted = rows * weight[:, None]
        gram = weighted.T @ rows
        gram[np.diag_indices(LENGTH)] += RIDGE * np.trace(gram) / LENGTH
        intercept = weight @ targets / weight.sum()
        solved = np.linalg.solve(gram, weighted.T @ (targets - intercept))
        centre32 = centre.astype(np.float32)
        return _Fitted(
            solved.astype(np.float32), intercept.astype(np.float32), centre32, _unit(vectors - centre32), owners
        )

    def scores(self, picture: Picture) -> Scores:
        """[8, C] scores of a picture, as it is and with each orientation undone."""
        return self._fitted.scores(describe(picture))

    def nearest(self, camera: str, picture: Picture, count: int) -> list[int]:
        """Which of a camera's references look most like the picture, the most alike first."""
        mine = self._vectors[self._plain & (self._owners == self.cameras.index(camera))]
        order: list[int] = np.argsort(-(mine @ describe(picture)), kind="stable")[:count].tolist()
        return order

    def held_out(self) -> dict[int, dict[str, list[Scores]]]:
        """Every reference scored by a classifier that has not seen its episode: {episode: {camera: scores}}.

        Episodes without which some camera has no reference left are skipped.
        """
        result: dict[int, dict[str, list[Scores]]] = {}
        for episode in sorted(set(self._episodes.tolist())):
            held = self._episodes == episode
            if len(set(self._owners[~held].tolist())) < len(self.cameras):
                continue
            fitted = self._fit(~held)
            result[episode] = {
                camera: [fitted.scores(v) for v in self._vectors[held & self._plain & (self._owners == j)]]
                for j, camera in enumerate(self.cameras)
            }
        return result
