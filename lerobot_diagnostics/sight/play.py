"""Zeros and play of every joint, by the same poses: how this arm differs from the one that was recorded.

A pose is approached from both sides. What a joint's encoder shows of the difference is how short of its goal it stops;
what only the pictures show is play behind the encoder: gears, horn, screws.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from lerobot_diagnostics.findings import Table
from lerobot_diagnostics.sight.camera import Array
from lerobot_diagnostics.sight.explain import (
    OFF_PRIOR,
    SEVERAL,
    WIDTHS_PX,
    Explained,
    Seen,
    all_views,
    unmoved,
)
from lerobot_diagnostics.sight.fit import NothingSeenError, Scene, View, fit
from lerobot_diagnostics.sight.model import JOINTS, Arm
from lerobot_diagnostics.sight.solve import THE_ZEROS, CannotTellError, Solved, free, prior

WORTH_SAYING = {**dict.fromkeys(JOINTS, 0.5), "gripper": 2.0}
"""Degrees (gripper: of 100) under which a difference is left out of the sentence: what a servo's dead zone and a
picture's error amount to."""


class Play(NamedTuple):
    """Of one joint, coming from above less coming from below at the same goal; degrees, the gripper in its 0–100.

    Args:
        stops: What the encoder shows: it stops that far short of its goal, both ways together.
        unseen: What the encoder does not show; NaN where it was not measured.
        error: One standard error of ``unseen``.
    """

    stops: float
    unseen: float
    error: float


def measure_play(
    arm: Arm, solved: Mapping[str, Solved], after: Seen, side: Array, first: Sequence[int], second: Sequence[int]
) -> dict[str, Play]:
    """Play by joint, from pictures of the same poses approached from both sides.

    Args:
        arm: The model.
        solved: The cameras, by name.
        after: What they see now, at these and at other poses.
        side: [6] from which side the joints came in the first pictures, +1 from above, −1 from below, 0 for joints that
            cannot be approached from both; in the second from the other.
        first, second: Their rows, the same poses in the same order.

    Raises:
        CannotTellError: Where no camera's pictures can be compared.
    """
    settled, views, _used = all_views(arm, solved, after, [*first, *second])
    readings = next(iter(after.values()))[0]
    later = np.arange(len(views)) % (len(first) + len(second)) >= len(first)
    here, there = (
        _zeros(arm, unmoved(settled), [view for view, late in zip(views, later, strict=True) if late == one])
        for one in (False, True)
    )
    # a zero is reading minus true angle; what comes from above stands higher than it reads
    unseen = side * (there[0] - here[0])
    stops = side * (readings[list(first)] - readings[list(second)]).mean(axis=0)
    error = np.sqrt(here[1] ** 2 + there[1] ** 2)
    return {
        joint: Play(float(stops[j]), float(unseen[j]), float(error[j])) for j, joint in enumerate(JOINTS) if side[j]
    }


def _zeros(arm: Arm, start: Scene, views: Sequence[View]) -> tuple[Array, Array]:
    """All six zeros [6] and their standard errors [6]."""
    try:
        found = fit(arm, start, views, free(THE_ZEROS), prior(OFF_PRIOR), WIDTHS_PX)
    except (NothingSeenError, np.linalg.LinAlgError):
        raise CannotTellError("the arm is not seen where it should be") from None
    return found.scene.zeros, np.sqrt(np.diag(found.covariance))[: len(JOINTS)]


def zeros_of(explained: Explained) -> dict[str, tuple[float, float]]:
    """By joint, how much more it reads in the same place than when it was recorded, and two standard errors.

    All six are fitted together.
    """
    several = next(one for one in explained.explanations if one.what == SEVERAL)
    return {joint: (off, 2 * error) for joint, (off, error) in several.off.items()}


def compare_arms(zeros: Mapping[str, tuple[float, float]], play: Mapping[str, Play] | None = None) -> Table:
    """A row a joint, and the comparison in one sentence.

    Args:
        zeros: See :func:`zeros_of`.
        play: See :func:`measure_play`; None where it was not measured.
    """
    play = play or {}
    rows: list[list[object]] = []
    for joint, (off, error) in zeros.items():
        values = [off, error]
        if play:
            one = play.get(joint, Play(float("nan"), float("nan"), float("nan")))
            values += [one.stops, one.unseen, 2 * one.error]
        rows.append([joint, "of 100" if joint == "gripper" else "degrees", *(round(value, 2) for value in values)])
    columns = ["joint", "unit", "reads more by", "±", *(["stops short", "play", "± (play)"] if play else [])]
    return Table("This arm against the recorded one", columns, rows, sentence(zeros, play))


def sentence(zeros: Mapping[str, tuple[float, float]], play: Mapping[str, Play]) -> str:
    """The comparison in one sentence, of what is larger than its uncertainty and than :data:`WORTH_SAYING`."""
    off = [
        f"{_amount(joint, abs(value))} {'more' if value > 0 else 'less'} in {joint}"
        for joint, (value, error) in zeros.items()
        if abs(value) > max(error, WORTH_SAYING[joint])
    ]
    loose = [
        f"{_amount(joint, one.unseen)} in {joint}"
        for joint, one in play.items()
        if one.unseen > max(2 * one.error, WORTH_SAYING[joint])
    ]
    short = [
        f"{_amount(joint, one.stops)} in {joint}" for joint, one in play.items() if one.stops > WORTH_SAYING[joint]
    ]
    said = f"In the same place this arm reads {_listed(off)}" if off else "In the same place this arm reads what the"
    said += " than the recorded one did" if off else " recorded one did"
    if play:
        said += f", has play of {_listed(loose)}" if loose else ", has no play that the pictures show"
        said += f", and by the side it comes from it stops apart by {_listed(short)}" if short else ""
    return said + "."


def _amount(joint: str, value: float) -> str:
    return f"{value:.1f} of 100" if joint == "gripper" else f"{value:.1f}°"


def _listed(items: Sequence[str]) -> str:
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)
