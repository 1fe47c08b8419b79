import numpy as np
from vision_scenes import recording, relit, table

from lerobot_diagnostics.vision.colour import ChannelOrder, red_minus_blue


def test_exchange_flips_the_sign_and_white_balance_does_not() -> None:
    frames, _ = recording({"a": 1})
    order = ChannelOrder(frames["a"])
    live = frames["a"][3]
    assert order.score(live) > 0.7
    assert order.score(live[..., ::-1]) < -0.7
    assert order.score(relit(live, 0.7, 0.8, 0.95)) > 0.7


def test_a_grey_scene_decides_nothing() -> None:
    grey = np.repeat(table(1).mean(axis=2, keepdims=True), 3, axis=2).astype(np.uint8)
    noise = np.random.default_rng(0).integers(-2, 3, (5, *grey.shape))
    order = ChannelOrder(list(np.clip(grey + noise[:4], 0, 255).astype(np.uint8)))
    assert abs(order.score(np.clip(grey + noise[4], 0, 255).astype(np.uint8))) < 0.1


def test_vector_is_exactly_antisymmetric() -> None:
    assert np.allclose(red_minus_blue(table(2)), -red_minus_blue(table(2)[..., ::-1]))
