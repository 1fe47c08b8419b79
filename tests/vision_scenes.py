"""Hand-made pictures for the vision tests: a table with things on it, an arm that moves, known in every number."""

from __future__ import annotations

import cv2
import numpy as np

WIDTH, HEIGHT = 320, 240


def table(seed: int) -> np.ndarray:
    """[240, 320, 3] uint8: soft colours and 30 sharp-edged things, the same for the same seed."""
    rng = np.random.default_rng(seed)
    picture = cv2.resize(rng.uniform(60, 200, (6, 8, 3)), (WIDTH, HEIGHT), interpolation=cv2.INTER_CUBIC)
    for _ in range(30):
        x, y = int(rng.integers(0, WIDTH)), int(rng.integers(0, HEIGHT))
        w, h = (int(v) for v in rng.integers(8, 50, 2))
        colour = tuple(float(v) for v in rng.uniform(20, 235, 3))
        if rng.random() < 0.5:
            cv2.rectangle(picture, (x, y), (x + w, y + h), colour, -1)
        else:
            cv2.circle(picture, (x, y), w // 2, colour, -1)
    return np.clip(cv2.GaussianBlur(picture, (0, 0), 0.8), 0, 255).astype(np.uint8)


def with_arm(picture: np.ndarray, angle_deg: float, base: tuple[int, int] = (160, 239)) -> np.ndarray:
    """A two-link arm drawn over the picture, from its base at the lower edge."""
    result = picture.copy()
    angle = np.radians(angle_deg)
    elbow = (int(base[0] + 70 * np.sin(angle)), int(base[1] - 70 * np.cos(angle)))
    hand = (int(elbow[0] + 50 * np.sin(1.6 * angle)), int(elbow[1] - 50 * np.cos(1.6 * angle)))
    cv2.line(result, base, elbow, (30, 30, 30), 16, cv2.LINE_AA)
    cv2.line(result, elbow, hand, (230, 180, 20), 12, cv2.LINE_AA)
    cv2.circle(result, elbow, 6, (240, 240, 240), -1, cv2.LINE_AA)
    return result


def camera(seed: int, angle_deg: float, noise_seed: int = 0) -> np.ndarray:
    """One frame of camera ``seed`` with the arm at an angle and sensor noise of 2 levels."""
    picture = with_arm(table(seed), angle_deg).astype(float)
    return np.clip(picture + np.random.default_rng(noise_seed).normal(0, 2, picture.shape), 0, 255).astype(np.uint8)


def recording(
    seeds: dict[str, int], episodes: int = 4, length: int = 5
) -> tuple[dict[str, list[np.ndarray]], list[int]]:
    """Frames of several cameras while the arm sweeps, and the episode of each frame."""
    angles = [(e, -50 + 100 * k / (length - 1) + 3 * e) for e in range(episodes) for k in range(length)]
    frames = {n: [camera(s, a, 100 * s + i) for i, (_, a) in enumerate(angles)] for n, s in seeds.items()}
    return frames, [e for e, _ in angles]


def warped(picture: np.ndarray, dx: float, dy: float, turn_deg: float = 0.0, zoom: float = 1.0) -> np.ndarray:
    """The content moved by (dx, dy) px (+x right, +y down), turned clockwise, zoomed, all about the picture's
    centre."""
    height, width = picture.shape[:2]
    centre = ((width - 1) / 2, (height - 1) / 2)
    matrix = cv2.getRotationMatrix2D(centre, -turn_deg, zoom)  # OpenCV turns counter-clockwise
    matrix[:, 2] += (dx, dy)
    return cv2.warpAffine(picture, matrix, (width, height), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REFLECT_101)


def relit(picture: np.ndarray, *gains: float) -> np.ndarray:
    return np.clip(picture * np.array(gains), 0, 255).astype(np.uint8)
