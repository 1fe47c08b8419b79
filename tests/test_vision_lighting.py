import numpy as np
import pytest
from vision_scenes import relit, table, warped, with_arm

from lerobot_diagnostics.vision import estimate_lighting


def test_gain_and_balance_are_measured_apart() -> None:
    reference = (table(1) * 0.7).astype(np.uint8)
    light = estimate_lighting(relit(reference, 0.84, 0.7, 0.56), reference)
    assert light.red == pytest.approx(1.2, abs=0.03)
    assert light.blue == pytest.approx(0.8, abs=0.03)
    assert light.exposure == pytest.approx((0.84 * 0.7 * 0.56) ** (1 / 3), abs=0.02)


def test_geometry_and_arm_are_not_light() -> None:
    reference = with_arm(table(1), -40)
    light = estimate_lighting(warped(with_arm(table(1), 30), 10, 5, 3), reference)
    assert (light.exposure, light.red, light.blue) == pytest.approx((1, 1, 1), abs=0.05)


def test_black_and_white_pictures_do_not_divide_by_zero() -> None:
    black, white = np.zeros((48, 64, 3), np.uint8), np.full((48, 64, 3), 255, np.uint8)
    assert estimate_lighting(white, black).exposure > 100
    assert estimate_lighting(black, white).exposure < 0.01


def test_clipping_is_reported() -> None:
    reference = table(1)
    assert estimate_lighting(relit(reference, 3, 3, 3), reference).clipped > 0.3
    assert estimate_lighting(reference, reference).clipped == 0.0
