"""A jointed arm drawn into a picture: what moves when one joint does."""

from itertools import pairwise

import cv2
import numpy as np


def draw_arm(picture, base, angle, links, gripper, *, finger, width):
    """Draw links, each turned by degrees from the one before, and two fingers; returns the joints' places.

    ``links``: (degrees, pixels) each; ``angle``: radians of the base; ``gripper``: degrees; ``finger``, ``width``:
    pixels.
    """
    at = np.array(base)
    points = [at]
    for turn, length in links:
        angle += np.deg2rad(turn)
        at = at + length * np.array([np.sin(angle), -np.cos(angle)])
        points.append(at)
    joints = list(points)
    for side in (-1, 1):
        tip = angle + side * np.deg2rad(10 + gripper)
        points += [at + finger * np.array([np.sin(tip), -np.cos(tip)]), at]
    for a, b in pairwise(points):
        start, end = ((16 * p).round().astype(int).tolist() for p in (a, b))
        cv2.line(picture, start, end, (250, 220, 40), width, cv2.LINE_AA, 4)
    return joints
