import math

import numpy as np
import pytest
from vision_scenes import HEIGHT, WIDTH, relit, table, warped, with_arm

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.vision import Registrar, register, to_reference


@pytest.mark.parametrize("path", ["exact", "fast"])
@pytest.mark.parametrize(
    ("dx", "dy", "turn", "zoom"),
    [(0, 0, 0, 1), (14.3, -6.2, 0, 1), (-18, 9, 0, 1), (3.5, 2, 4, 1), (5, -7, -3, 1.06), (0, 0, 0, 0.94)],
)
def test_known_motion_is_recovered_in_size_and_sign(path: str, dx: float, dy: float, turn: float, zoom: float) -> None:
    reference = table(1)
    answer = getattr(Registrar(reference), path)(warped(reference, dx, dy, turn, zoom))
    assert answer.found
    assert (answer.dx_px, answer.dy_px) == pytest.approx((dx, dy), abs=0.15)
    assert answer.rotation_deg == pytest.approx(turn, abs=0.05)
    assert answer.scale == pytest.approx(zoom, abs=0.001)
    assert answer.confidence > 0.9


def test_light_does_not_look_like_motion() -> None:
    reference = table(2)
    answer = register(relit(reference, 0.6, 0.5, 0.4), reference)
    assert math.hypot(answer.dx_px, answer.dy_px) < 0.1
    assert abs(answer.rotation_deg) < 0.05


@pytest.mark.parametrize("path", ["exact", "fast"])
def test_nothing_fits_unrelated_or_empty_pictures(path: str) -> None:
    registrar = Registrar(table(3))
    for stranger in (table(4), np.full((HEIGHT, WIDTH, 3), 90, np.uint8), np.zeros((HEIGHT, WIDTH, 3), np.uint8)):
        answer = getattr(registrar, path)(stranger)
        assert not answer.found
        assert answer.method == "none"
        assert math.isnan(answer.dx_px)
        assert math.isnan(answer.displacement_px(WIDTH, HEIGHT))


def test_an_arm_elsewhere_does_not_pull_the_answer() -> None:
    scene = table(5)
    answer = register(warped(with_arm(scene, 45), 6.0, 3.0), with_arm(scene, -40))
    assert (answer.dx_px, answer.dy_px) == pytest.approx((6.0, 3.0), abs=0.2)


def test_mask_chooses_what_is_registered() -> None:
    # The left half stands still, the right half has moved: each mask must find its own half's motion.
    reference = table(6)
    live = reference.copy()
    live[:, 160:] = warped(reference, 8, 0)[:, 160:]
    left = np.zeros((HEIGHT, WIDTH), bool)
    left[:, :150] = True
    assert abs(register(live, reference, left).dx_px) < 0.2
    assert register(live, reference, ~left).dx_px == pytest.approx(8.0, abs=0.3)


def test_fast_path_follows_from_the_last_answer_and_says_so() -> None:
    reference = table(7)
    registrar = Registrar(reference)
    first = registrar.fast(warped(reference, 10, 0))
    second = registrar.fast(warped(reference, 12, 1), first)
    assert (first.method, second.method) == ("identity", "last")
    assert (second.dx_px, second.dy_px) == pytest.approx((12, 1), abs=0.1)


def test_same_pictures_same_answer_and_inputs_untouched() -> None:
    reference, live = table(8), warped(table(8), 4, 4)
    before = (reference.copy(), live.copy())
    assert register(live, reference) == register(live, reference)
    assert np.array_equal(reference, before[0])
    assert np.array_equal(live, before[1])


def test_other_size_of_the_same_shape_is_answered_in_reference_pixels() -> None:
    reference = table(9)
    live = np.repeat(np.repeat(warped(reference, 8, 0), 2, axis=0), 2, axis=1)
    assert register(live, reference).dx_px == pytest.approx(8.0, abs=0.2)


def test_displacement_counts_rotation_at_the_corners() -> None:
    reference = table(1)
    answer = register(warped(reference, 0, 0, 3.0), reference)
    assert answer.displacement_px(WIDTH, HEIGHT) == pytest.approx(2 * math.sin(math.radians(1.5)) * 200, abs=0.5)


def test_to_reference_undoes_the_motion() -> None:
    reference = table(10)
    live = warped(reference, 9, -4, 2.0, 1.03)
    laid, covered = to_reference(live, register(live, reference), WIDTH, HEIGHT)
    inner = np.s_[30:-30, 30:-30]
    assert covered[inner].all()
    assert np.abs(laid[inner].astype(float) - reference[inner]).mean() < 3.0
    assert np.abs(live[inner].astype(float) - reference[inner]).mean() > 12.0


def test_other_shape_or_type_is_one_clear_line() -> None:
    with pytest.raises(UsageError, match="320x200"):
        register(table(1)[:200], table(1))
    with pytest.raises(UsageError, match="uint8"):
        register(table(1).astype(float), table(1))
    with pytest.raises(UsageError, match="mask"):
        register(table(1), table(1), np.ones((3, 3), bool))
