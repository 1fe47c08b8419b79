"""Are red and blue exchanged? The one fault of a picture that no grey method sees."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lerobot_diagnostics.vision.images import Picture, shrink

_CELLS = 8
_RIDGE = 0.1
GREYNESS = 0.03
"""Red–blue contrast, relative to brightness, under which a picture counts as colourless: JPEG at quality 30 alone
makes 0.01."""


def red_minus_blue(picture: Picture) -> NDArray[np.float64]:
    """[64] where the picture is redder than its own average, and where bluer.

    Each channel is divided by its mean, so that gain and white balance cancel and exchanging red and blue flips the
    sign of every element. Scaled to unit root mean square, less when there is hardly any colour.
    """
    small = shrink(picture, 8 * _CELLS, 8 * _CELLS).astype(np.float64)
    cells = small.reshape(_CELLS, 8, _CELLS, 8, 3).mean(axis=(1, 3))
    relative = cells / (cells.mean(axis=(0, 1)) + 2.0)
    difference = (relative[..., 0] - relative[..., 2]).reshape(-1)
    difference -= difference.mean()
    return np.asarray(difference / np.hypot(np.sqrt(np.square(difference).mean()), GREYNESS))


class ChannelOrder:
    """Scores the order of the colour channels against one camera's references: near +1 as recorded, near −1
    exchanged."""

    def __init__(self, references: Sequence[Picture]) -> None:
        rows = np.stack([red_minus_blue(picture) for picture in references])
        # Ridge regression of +1 on the references; their exchanged forms (−1) are the same equations.
        gram = rows @ rows.T
        gram[np.diag_indices(len(rows))] += _RIDGE * len(rows) * _CELLS * _CELLS / 8.0
        self._weights = rows.T @ np.linalg.solve(gram, np.ones(len(rows)))

    def score(self, picture: Picture) -> float:
        return float(self._weights @ red_minus_blue(picture))
