"""How far a picture has moved: shift, rotation and zoom between two views of one scene, or no answer.

The transform maps reference coordinates to live coordinates about the picture's centre ``c``::

    x_live = c + d + s · R(θ) · (x_ref − c),   R(θ) = [[cos θ, −sin θ], [sin θ, cos θ]],  +x right, +y down

so ``d`` is how far the content at the centre has moved, and a positive θ turns the content clockwise as seen.

Method: a few cheap starting guesses (no motion, phase correlation; for the exact path also SIFT matches under RANSAC)
are each refined by pyramidal Lucas–Kanade tracks of corners on locally normalised pictures; the one under which the
pictures agree best (correlation over the overlap) is polished by a robust Gauss–Newton fit of the textured pixels
(inverse compositional, Baker & Matthews 2004; Tukey's biweight). The agreement after that is the confidence. Inlier
counts are not used as confidence: unrelated pictures reach dozens.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import cv2
import numpy as np
from numpy.typing import NDArray

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.vision.images import FloatMap, Mask, Picture, checked, grey, locally_normalised, shrink

Matrix = NDArray[np.float64]
"""[2, 3], reference pixel → live pixel."""

EXACT_WIDTH = 640
"""Pixels. The exact path works at this width or below; more costs time and gains under 0.05 px of the 640."""
FAST_WIDTH = 320
"""Pixels. The fast path works at this width or below."""
MAX_SAMPLES = {EXACT_WIDTH: 40_000, FAST_WIDTH: 6_000}
"""Pixels that the final fit of each path looks at."""


@dataclass(frozen=True)
class Registration:
    """Image motion of a live picture against a reference, in pixels of the reference.

    Args:
        dx_px: How far the content at the picture's centre has moved to the right. NaN when nothing fits.
        dy_px: Likewise downwards.
        rotation_deg: How far the content has turned, clockwise as seen positive.
        scale: Live size over reference size of the content, 1 for no zoom.
        confidence: 0 when nothing fits, else the correlation of the two pictures over the masked overlap, in (0, 1].
        method: The starting guess that led to the fit: "identity", "phase", "sift", "last", or "none".
        overlap: Share of the reference (inside the mask) that the live picture shows.
        support: Share of the textured blocks of the overlap that agree by themselves.
    """

    dx_px: float
    dy_px: float
    rotation_deg: float
    scale: float
    confidence: float
    method: str
    overlap: float = 0.0
    support: float = 0.0

    @property
    def found(self) -> bool:
        """Whether there is an answer at all."""
        return self.confidence > 0.0

    def displacement_px(self, width: int, height: int) -> float:
        """The largest distance, in pixels, that a corner or the centre of a ``width`` × ``height`` picture has
        moved."""
        if not self.found:
            return math.nan
        matrix = _matrix(self, width, height)
        points = np.array([[0, 0], [width, 0], [0, height], [width, height], [width / 2, height / 2]], float)
        moved = points @ matrix[:, :2].T + matrix[:, 2]
        return float(np.linalg.norm(moved - points, axis=1).max())


NO_FIT = Registration(math.nan, math.nan, math.nan, math.nan, 0.0, "none")


def _centre(width: int, height: int) -> NDArray[np.float64]:
    return np.array([(width - 1) / 2.0, (height - 1) / 2.0])


def _matrix(motion: Registration, width: int, height: int) -> Matrix:
    """[2, 3] reference pixel → live pixel of a motion at ``width`` × ``height``."""
    angle = math.radians(motion.rotation_deg)
    linear = motion.scale * np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    centre = _centre(width, height)
    return np.column_stack([linear, centre + np.array([motion.dx_px, motion.dy_px]) - linear @ centre])


def _rescaled(matrix: Matrix, factor: float) -> Matrix:
    """The same motion in a picture whose side is ``factor`` times as long (pixel centres at half-integers)."""
    offset = matrix[:, 2] + 0.5 * (matrix[:, :2].sum(axis=1) - 1.0)
    return np.column_stack([matrix[:, :2], factor * offset - 0.5 * (matrix[:, :2].sum(axis=1) - 1.0)])


@dataclass(frozen=True)
class _Agreement:
    correlation: float
    overlap: float
    support: float


class _Level:
    """One picture at one working size: locally normalised, with what the trackers need of it."""

    def __init__(
        self, picture: Picture, width: int, height: int, mask: Mask | None = None, max_samples: int = 0
    ) -> None:
        self.size = (width, height)
        self.max_samples = max_samples
        # A window of an eighth of the width: wide enough to hold an edge, narrow enough to lose a shadow.
        self.map = locally_normalised(grey(shrink(picture, width, height)), 2 * max(4, width // 16) + 1)
        self.mask = None
        if mask is not None:
            resized = cv2.resize(mask.astype(np.float32), (width, height), interpolation=cv2.INTER_AREA)
            self.mask = resized > 0.99

    @cached_property
    def bytes_map(self) -> NDArray[np.uint8]:
        """[H, W] uint8 form for the corner tracker and SIFT."""
        return np.clip(self.map * 50.0 + 128.0, 0, 255).astype(np.uint8)

    @cached_property
    def corners(self) -> NDArray[np.float32]:
        """[N, 1, 2] corners, spread by a least distance so that no single object holds all of them."""
        width, height = self.size
        found = cv2.goodFeaturesToTrack(
            self.bytes_map,
            maxCorners=160,
            qualityLevel=0.01,
            minDistance=max(2.0, min(width, height) / 24.0),
            mask=None if self.mask is None else self.mask.astype(np.uint8),
            blockSize=5,
        )
        return np.empty((0, 1, 2), np.float32) if found is None else found.astype(np.float32)

    @cached_property
    def samples(self) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
        """What the pixel fit needs of a reference: textured pixels [N, 2], their values [N] and Jacobian [4, N].

        The Jacobian is that of the value with respect to (a, b, tx, ty) of x ← c + [[1+a, −b], [b, 1+a]](x − c) + t.
        """
        gx = cv2.Scharr(self.map, cv2.CV_32F, 1, 0, scale=1 / 32.0)
        gy = cv2.Scharr(self.map, cv2.CV_32F, 0, 1, scale=1 / 32.0)
        strength = gx * gx + gy * gy
        chosen = strength > 1e-4
        if self.mask is not None:
            chosen &= self.mask
        index = np.flatnonzero(chosen)
        if len(index) > self.max_samples:
            # A fixed random choice: every k-th pixel would line up into columns.
            index = np.random.default_rng(0).choice(index, self.max_samples, replace=False)
        width, height = self.size
        points = np.column_stack([index % width, index // width]).astype(np.float32)
        x, y = (points - _centre(width, height).astype(np.float32)).T
        gx, gy = gx.ravel()[index], gy.ravel()[index]
        return points, self.map.ravel()[index], np.stack([gx * x + gy * y, gy * x - gx * y, gx, gy])

    @cached_property
    def sift(self) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
        """Keypoint positions [N, 2] and RootSIFT descriptors [N, 128] (Arandjelović & Zisserman 2012)."""
        detector = cv2.SIFT.create(nfeatures=2000, contrastThreshold=0.01)
        mask = None if self.mask is None else self.mask.astype(np.uint8)
        keypoints, descriptors = detector.detectAndCompute(self.bytes_map, mask)
        if descriptors is None:
            return np.empty((0, 2), np.float32), None
        roots = np.sqrt(descriptors / np.maximum(descriptors.sum(axis=1, keepdims=True), 1e-6))
        return np.array([k.pt for k in keypoints], np.float32), roots.astype(np.float32)


def _phase_guess(reference: _Level, live: _Level) -> Matrix | None:
    """Pure shift by phase correlation of the unmasked maps (a zeroed mask would correlate with itself)."""
    window = cv2.createHanningWindow(reference.size, cv2.CV_32F)
    # Copies: OpenCV multiplies the window into its inputs in place when their size suits its Fourier transform.
    (dx, dy), response = cv2.phaseCorrelate(reference.map.copy(), live.map.copy(), window)
    # Under 0.03 the peak is no higher than between unrelated pictures (the design's measurement).
    return np.array([[1.0, 0.0, dx], [0.0, 1.0, dy]]) if response > 0.03 else None


def _sift_guess(reference: _Level, live: _Level) -> Matrix | None:
    points_ref, desc_ref = reference.sift
    points_live, desc_live = live.sift
    if desc_ref is None or desc_live is None or len(desc_ref) < 8 or len(desc_live) < 8:
        return None
    pairs = cv2.BFMatcher(cv2.NORM_L2).knnMatch(desc_ref, desc_live, k=2)
    good = [p[0] for p in pairs if len(p) == 2 and p[0].distance < 0.8 * p[1].distance]  # Lowe's ratio
    if len(good) < 4:
        return None
    a = points_ref[[m.queryIdx for m in good]]
    b = points_live[[m.trainIdx for m in good]]
    return _similarity(a, b, threshold=3.0)


def _similarity(a: NDArray[np.float32], b: NDArray[np.float32], threshold: float) -> Matrix | None:
    """Robust similarity a → b, or None when it is degenerate or beyond what a camera nudge does."""
    cv2.setRNGSeed(0)  # the same pictures give the same answer
    matrix, _ = cv2.estimateAffinePartial2D(
        a, b, method=cv2.RANSAC, ransacReprojThreshold=threshold, maxIters=500, confidence=0.995
    )
    return matrix if matrix is not None and _plausible(matrix) else None


def _plausible(matrix: Matrix) -> bool:
    scale = math.hypot(matrix[0, 0], matrix[1, 0])
    return bool(np.isfinite(matrix).all()) and 0.5 < scale < 2.0


def _track(reference: _Level, live: _Level, guess: Matrix, levels: int) -> Matrix | None:
    """Refine a guess by tracking the reference's corners into the live picture."""
    corners = reference.corners
    if len(corners) < 8:
        return None
    window = 21 if reference.size[0] >= 160 else 11
    start = (corners[:, 0] @ guess[:, :2].T + guess[:, 2]).astype(np.float32)[:, None]
    tracked, status, error = cv2.calcOpticalFlowPyrLK(
        reference.bytes_map,
        live.bytes_map,
        corners,
        start.copy(),
        winSize=(window, window),
        maxLevel=levels,
        criteria=(cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, 15, 0.03),
        flags=cv2.OPTFLOW_USE_INITIAL_FLOW,
    )
    kept = (status[:, 0] == 1) & np.isfinite(error[:, 0])
    if kept.sum() < 6:
        return None
    return _similarity(corners[kept, 0], tracked[kept, 0], threshold=max(0.8, reference.size[0] / 200.0))


def _warped(live: _Level, matrix: Matrix, like: _Level) -> tuple[FloatMap, Mask]:
    """The live map brought into the reference's frame, and where it is defined."""
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    warped = cv2.warpAffine(live.map, matrix, like.size, flags=flags)
    inside = cv2.warpAffine(np.full(live.map.shape, 255, np.uint8), matrix, like.size, flags=flags) == 255
    return warped, inside if like.mask is None else inside & like.mask


def _agreement(reference: _Level, warped: FloatMap, valid: Mask) -> _Agreement:
    """Correlation over the overlap, the overlap's share, and the share of textured blocks that agree."""
    usable = valid.size if reference.mask is None else max(int(reference.mask.sum()), 1)
    overlap = float(valid.sum()) / usable
    weight = valid.astype(np.float32)
    a, b = reference.map * weight, warped * weight
    aa, bb, ab = float((a * a).sum()), float((b * b).sum()), float((a * b).sum())
    correlation = ab / math.sqrt(aa * bb) if aa > 0 and bb > 0 else 0.0
    blocks = (8, 8)
    block_aa = cv2.resize(a * a, blocks, interpolation=cv2.INTER_AREA)
    block_bb = cv2.resize(b * b, blocks, interpolation=cv2.INTER_AREA)
    block_ab = cv2.resize(a * b, blocks, interpolation=cv2.INTER_AREA)
    filled = cv2.resize(weight, blocks, interpolation=cv2.INTER_AREA)
    energy = np.maximum(block_aa, block_bb)
    textured = (filled > 0.3) & (
        energy > 0.25 * float(np.median(energy[filled > 0.3])) if (filled > 0.3).any() else False
    )
    if not textured.any():
        return _Agreement(correlation, overlap, 0.0)
    agree = block_ab > 0.5 * np.sqrt(block_aa * block_bb) + 1e-9
    return _Agreement(correlation, overlap, float(agree[textured].mean()))


def _polish(reference: _Level, live: _Level, matrix: Matrix, iterations: int) -> tuple[Matrix, float]:
    """Robust Gauss–Newton fit of the textured pixels of the overlap, from a start within a few pixels.

    Returns:
        The refined matrix and the length of the last step in pixels (at the picture's edge), large when the fit has
        not come to rest.
    """
    width, height = reference.size
    centre = _centre(width, height)
    points, values, jacobian = reference.samples
    step_px = math.inf
    for _ in range(iterations):
        at = (points @ matrix[:, :2].T + matrix[:, 2]).astype(np.float32)
        inside = (at[:, 0] >= 0) & (at[:, 1] >= 0) & (at[:, 0] <= live.size[0] - 1) & (at[:, 1] <= live.size[1] - 1)
        if inside.sum() < 50:
            return matrix, math.inf
        # cv2.remap takes at most 32767 columns: fold the list of points into a square.
        side = math.ceil(math.sqrt(len(at)))
        folded = np.zeros((side * side, 2), np.float32)
        folded[: len(at)] = at
        sampled = cv2.remap(live.map, folded.reshape(side, side, 2), None, cv2.INTER_LINEAR).ravel()[: len(at)]
        residual = sampled - values
        spread = 1.4826 * float(np.median(np.abs(residual[inside])))
        weight = np.square(np.maximum(0.0, 1.0 - np.square(residual / (4.685 * max(spread, 0.05))))) * inside
        weighted = jacobian * weight
        normal = (weighted @ jacobian.T).astype(np.float64)
        a, b, tx, ty = np.linalg.lstsq(normal, (weighted @ residual).astype(np.float64), rcond=1e-9)[0]
        # The step explains the residual by moving the reference: undo it before the current transform.
        step = np.array([[1 + a, -b], [b, 1 + a]])
        undo = np.linalg.inv(step)
        linear = matrix[:, :2] @ undo
        matrix = np.column_stack(
            [linear, matrix[:, :2] @ centre - linear @ (centre + np.array([tx, ty])) + matrix[:, 2]]
        )
        step_px = max(abs(tx), abs(ty), math.hypot(a, b) * width / 2)
        if step_px < 0.01 or not _plausible(matrix):
            break
    return matrix, step_px


MIN_CORRELATION = 0.4
MIN_OVERLAP = 0.3
MIN_SUPPORT = 0.3
"""Least agreement of an answer. Of 960 known warps of real frames none was answered wrongly by more than 3 px and none
refused; the 5th percentile of the correlation was 0.62 at its lowest. Of 240 unrelated pairs none was answered."""
MAX_LAST_STEP_PX = 0.25
"""Working pixels. A fit still moving by more has not come to rest."""


def _answer(
    matrix: Matrix | None, agreement: _Agreement, method: str, factor: float, width: int, height: int
) -> Registration:
    """The motion in pixels of the full-size reference, or :data:`NO_FIT`."""
    if (
        matrix is None
        or agreement.correlation < MIN_CORRELATION
        or agreement.overlap < MIN_OVERLAP
        or agreement.support < MIN_SUPPORT
    ):
        return NO_FIT
    full = _rescaled(matrix, factor)
    centre = _centre(width, height)
    shift = full[:, :2] @ centre + full[:, 2] - centre
    scale = math.hypot(full[0, 0], full[1, 0])
    angle = math.degrees(math.atan2(full[1, 0], full[0, 0]))
    return Registration(
        float(shift[0]),
        float(shift[1]),
        angle,
        scale,
        agreement.correlation,
        method,
        agreement.overlap,
        agreement.support,
    )


class Registrar:
    """One reference picture, prepared once, against which live pictures are registered.

    Args:
        reference: [H, W, 3] uint8 RGB.
        mask: [H, W] bool, true where the reference may be used (the background; see
            :func:`lerobot_diagnostics.vision.background.background_mask`). A mask that leaves too little is dropped.
    """

    def __init__(self, reference: Picture, mask: Mask | None = None) -> None:
        self.reference = checked(reference, "reference")
        self.height, self.width = self.reference.shape[:2]
        if mask is not None and mask.shape != (self.height, self.width):
            raise UsageError(f"mask has shape {mask.shape}, the reference {(self.height, self.width)}.")
        # Under a tenth of the picture there is too little left to register by.
        self.mask = mask if mask is not None and mask.mean() >= 0.1 else None

    def _level(self, picture: Picture, limit: int, mask: Mask | None = None) -> _Level:
        width = min(limit, self.width)
        return _Level(picture, width, max(1, round(self.height * width / self.width)), mask, MAX_SAMPLES[limit])

    @cached_property
    def _exact_level(self) -> _Level:
        return self._level(self.reference, EXACT_WIDTH, self.mask)

    @cached_property
    def _fast_level(self) -> _Level:
        return self._level(self.reference, FAST_WIDTH, self.mask)

    def _checked_live(self, live: Picture) -> Picture:
        live = checked(live, "live picture")
        height, width = live.shape[:2]
        if abs(width / height - self.width / self.height) > 0.02 * self.width / self.height:
            raise UsageError(
                f"live picture is {width}x{height}, the reference {self.width}x{self.height}: the shapes differ.",
                "Crop one of them to the other's aspect ratio first.",
            )
        return live

    def exact(self, live: Picture) -> Registration:
        """The most accurate answer, in a few hundred milliseconds at 640×480."""
        reference = self._exact_level
        current = self._level(self._checked_live(live), EXACT_WIDTH)
        guesses = {
            "identity": np.eye(2, 3),
            "phase": _phase_guess(reference, current),
            "sift": _sift_guess(reference, current),
        }
        best: tuple[float, Matrix, str] | None = None
        for method, guess in guesses.items():
            if guess is None:
                continue
            for matrix in (guess, _track(reference, current, guess, levels=3)):
                if matrix is None:
                    continue
                score = _agreement(reference, *_warped(current, matrix, reference))
                value = score.correlation * min(1.0, score.overlap / 0.5)
                if best is None or value > best[0]:
                    best = (value, matrix, method)
        if best is None:
            return NO_FIT
        return self._refined(reference, current, best[1], best[2], iterations=30)

    def fast(self, live: Picture, last: Registration | None = None) -> Registration:
        """The answer for a live loop, ≤ 10 ms at 640×480 on one core.

        Args:
            live: [H, W, 3] uint8 RGB.
            last: The previous answer, tried as a starting guess as well.
        """
        reference = self._fast_level
        current = self._level(self._checked_live(live), FAST_WIDTH)
        factor = reference.size[0] / self.width
        factor = reference.size[0] / self.width
        start = (
            np.eye(2, 3)
            if last is None or not last.found
            else _rescaled(_matrix(last, self.width, self.height), factor)
        )
        method = "identity" if last is None or not last.found else "last"
        answer = self._refined(reference, current, _track(reference, current, start, levels=3), method, iterations=4)
        if answer.found:
            return answer
        phase = _phase_guess(reference, current)
        if phase is None:
            return NO_FIT
        return self._refined(reference, current, _track(reference, current, phase, levels=3), "phase", iterations=4)

    def _refined(
        self, reference: _Level, current: _Level, matrix: Matrix | None, method: str, iterations: int
    ) -> Registration:
        """Polish one candidate and accept or refuse it."""
        if matrix is None:
            return NO_FIT
        matrix, step_px = _polish(reference, current, matrix, iterations)
        if not _plausible(matrix) or step_px > MAX_LAST_STEP_PX:
            return NO_FIT
        agreement = _agreement(reference, *_warped(current, matrix, reference))
        return _answer(matrix, agreement, method, self.width / reference.size[0], self.width, self.height)


def to_reference(live: Picture, motion: Registration, width: int, height: int) -> tuple[Picture, Mask]:
    """The live picture laid over the ``width`` × ``height`` reference, and where it covers it.

    Args:
        live: [H, W, 3] uint8 RGB.
        motion: What :func:`register` found between them.
    """
    resized = shrink(live, width, height)
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    matrix = _matrix(motion, width, height)
    laid = cv2.warpAffine(resized, matrix, (width, height), flags=flags, borderMode=cv2.BORDER_REPLICATE)
    covered = cv2.warpAffine(np.full((height, width), 255, np.uint8), matrix, (width, height), flags=flags) == 255
    return np.asarray(laid, np.uint8), covered


def register(live: Picture, reference: Picture, mask: Mask | None = None) -> Registration:
    """How far the content of ``live`` has moved against ``reference``, in pixels of the reference.

    Args:
        live: [H, W, 3] uint8 RGB; another size of the same aspect ratio is resized.
        reference: [H, W, 3] uint8 RGB.
        mask: [H, W] bool over the reference, true where it may be used.

    Returns:
        A :class:`Registration`; ``found`` is false and the numbers NaN when nothing fits.

    Raises:
        UsageError: On pictures that are not [H, W, 3] uint8 or whose aspect ratios differ.
    """
    return Registrar(reference, mask).exact(live)
