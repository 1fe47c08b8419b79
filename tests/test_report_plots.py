import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from lerobot_diagnostics.report.plots import PREDICTED, RECORDED, Moment, checkpoint_curve, joint_curves, worst_moments

T = 60
TIME = np.arange(T) / 30


def draw(path, J=2, **options):
    recorded = np.sin(TIME)[:, None] * np.ones(J)
    given = {"recorded": recorded, "predicted": recorded + 0.5, **options}
    names = options.pop("names", [f"joint_{j}" for j in range(J)])
    given.pop("names", None)
    return joint_curves(path, names=names, units=["°"] * J, timestamps=TIME, **given)


def pixels(path):
    return np.asarray(Image.open(path).convert("RGB")).astype(int)


def count(path, colour):
    rgb = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    return int((np.abs(pixels(path) - rgb).sum(axis=2) < 30).sum())


def test_both_curves_are_drawn_and_a_prediction_of_nan_is_a_gap(tmp_path):
    whole = draw(tmp_path / "a.png")
    gap = np.full((T, 2), np.nan)
    empty = draw(tmp_path / "b.png", predicted=gap)
    assert count(whole, RECORDED) > 500
    assert count(whole, PREDICTED) > 4 * count(empty, PREDICTED)  # what is left is the legend's sample


def test_chunk_starts_and_the_held_state_add_ink(tmp_path):
    plain = pixels(draw(tmp_path / "a.png"))
    ticks = pixels(draw(tmp_path / "b.png", chunk_starts=range(0, T, 20)))
    held = pixels(draw(tmp_path / "c.png", held=np.zeros((T, 2))))
    assert plain.shape == ticks.shape == held.shape
    assert (plain != ticks).any() and (plain != held).any()


@pytest.mark.parametrize(("J", "columns"), [(6, 1), (14, 2)])
def test_many_joints_stand_in_two_columns_each_at_least_an_inch_tall(tmp_path, J, columns):
    image = Image.open(draw(tmp_path / "a.png", J=J))
    assert image.height / 110 >= 1.2 * J / columns
    assert image.width == (1320 if columns == 2 else 1100)


def test_names_are_text_not_formulas(tmp_path):
    draw(tmp_path / "a.png", names=["$x_{", "日本"])


@pytest.mark.parametrize("wrong", [{"predicted": np.zeros((T, 3))}, {"held": np.zeros((T - 1, 2))}, {"names": ["one"]}])
def test_shapes_that_do_not_belong_together_are_refused_and_nothing_is_written(tmp_path, wrong):
    with pytest.raises(ValueError):
        draw(tmp_path / "a.png", **wrong)
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_curve_starts_at_zero_and_takes_gaps(tmp_path):
    path = checkpoint_curve(
        tmp_path / "a.png", [100, 200, 300], {"train": [3.0, 2.0, 1.0], "held out": [3.5, None, 3.0]}, ylabel="MAE (°)"
    )
    assert count(path, "#0072B2") > 200 and count(path, "#D55E00") > 20
    with pytest.raises(ValueError, match="train: 1 values for 2 steps"):
        checkpoint_curve(tmp_path / "b.png", [1, 2], {"train": [1.0]}, ylabel="MAE (°)")
    checkpoint_curve(tmp_path / "c.png", [100], {"train": [None]}, ylabel="MAE (°)")


def test_worst_moments_show_every_frame_in_its_row_and_column(tmp_path):
    red, green, blue = (np.full((48, 64, 3), c, dtype=np.uint8) for c in ((255, 0, 0), (0, 255, 0), (0, 0, 255)))
    path = worst_moments(
        tmp_path / "a.jpg", [Moment("first", {"top": red, "wrist": green}), Moment("second", {"wrist": blue})]
    )
    image = pixels(path)

    def centre(colour):
        mask = np.abs(image - colour).sum(axis=2) < 60
        assert mask.sum() > 10_000
        return np.argwhere(mask).mean(axis=0)

    r, g, b = centre((255, 0, 0)), centre((0, 255, 0)), centre((0, 0, 255))
    assert abs(r[0] - g[0]) < 5 and r[1] < g[1]
    assert abs(g[1] - b[1]) < 5 and g[0] < b[0]
    with pytest.raises(ValueError, match="no frame"):
        worst_moments(tmp_path / "b.jpg", [Moment("empty", {})])


def test_pyplot_is_never_imported(tmp_path):
    code = (
        "import sys, pathlib, lerobot_diagnostics.report.plots as p; assert 'matplotlib' not in sys.modules;"
        f"p.checkpoint_curve(pathlib.Path({str(tmp_path / 'a.png')!r}), [1, 2], {{'a': [1.0, 2.0]}}, ylabel='y');"
        "print('matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
