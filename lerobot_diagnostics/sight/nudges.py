"""Without a model of the arm: how its picture changes with each joint, learnt from a snapshot's nudges.

While the setup works, each joint is nudged by a few degrees either way at a few poses and photographed. Later, at the
same poses, with readings q₀ then, q now, and zeros that read δ too much, the picture is to be

    picture(q₀) + slope · u + bend · u²,   u = q − q₀ − δ   (by joint)

Which δ, of one joint or of all, explains the pictures best is asked with Cauchy's loss ln(1 + (r / 2.4 s)²): something
else that has moved in front of the arm is an outlier, not a reason.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import cv2
import numpy as np

from lerobot_diagnostics.findings import Cause, Finding, Status
from lerobot_diagnostics.recording.names import is_gripper
from lerobot_diagnostics.sight.camera import Array
from lerobot_diagnostics.sight.verdicts import offset, undecided
from lerobot_diagnostics.vision import Registrar
from lerobot_diagnostics.vision.images import Mask, Picture, grey, locally_normalised

SIDE = 80
BLUR_PX = 2.5
"""A picture of this width, blurred, changes smoothly over a few degrees. Blurred by 1.5 px it named fewer joints."""
WINDOW = 1 / 8
"""Of the width: within it contrast is evened out. Against medians and spread of the whole picture, which another light
shifts, it left the zeros of a sound arm 2–3 times nearer to nothing."""
TOUCHED = 0.05
"""Share of the strongest change from which on a pixel counts as the arm's."""
CORRELATED_PX = 4 * np.pi * BLUR_PX**2
"""So many blurred pixels err together."""
CAUCHY = 2.4
"""Cauchy's constant for 95 % efficiency under normal noise."""
STEPS, NARROWER = 25, 0.7
LEAST_NOISE = 0.003
"""In units of local contrast: two pictures of a standing arm differ by more."""
FARTHEST = 15.0
"""Beyond this a fit does not follow: a picture is not a parabola for long."""
STRAIGHT = 0.01
"""Weight of a bend: where a joint could be nudged to one side only, its slope explains what is seen."""


class Nudged(NamedTuple):
    """What one camera saw around one pose.

    Args:
        readings: [N, J] joint readings; the first row is the pose, the others differ from it mainly in one joint each.
        pictures: N × [H, W, 3] uint8 RGB.
    """

    readings: Array
    pictures: Sequence[Picture]


@dataclass(frozen=True)
class NudgeFit:
    """How the pictures are explained, by joint [J].

    Args:
        alone, alone_error: How much each joint reads too much if it alone is to blame, and one standard error.
        gain: How much better than by nothing each explains the pictures: the fall of the loss, in independent pixels.
        together, together_error, gain_together: The same of all joints fitted at once.
    """

    alone: Array
    alone_error: Array
    gain: Array
    together: Array
    together_error: Array
    gain_together: float


def fit_nudges(snapshot: Sequence[Nudged], live: Sequence[tuple[Array, Picture]]) -> NudgeFit:
    """Explain live pictures at a snapshot's poses by the joints' zeros.

    Args:
        snapshot: One or more poses, of one or more cameras.
        live: For each of them the readings [J] and a picture now, the arm near the pose.
    """
    parts = [_learnt(pose, *now) for pose, now in zip(snapshot, live, strict=True)]
    seen = _Seen(*(np.concatenate(part) for part in zip(*parts, strict=True)))
    joints = range(seen.slope.shape[1])
    together, error, noise = seen.fit(list(joints))
    alone = [seen.fit([joint], noise) for joint in joints]
    nothing = seen.loss(np.zeros(len(joints)), noise)
    return NudgeFit(
        np.array([zeros[joint] for joint, (zeros, _, _) in enumerate(alone)]),
        np.array([own[0] for _, own, _ in alone]),
        np.array([nothing - seen.loss(zeros, noise) for zeros, _, _ in alone]),
        together,
        error,
        nothing - seen.loss(together, noise),
    )


class _Seen(NamedTuple):
    """Pixels of all poses: slope and bend [P, J], change since the snapshot [P], and q − q₀ of the readings [P, J]."""

    slope: Array
    bend: Array
    change: Array
    away: Array

    def left(self, zeros: Array) -> Array:
        """[P] of the change that zeros [J] leave unexplained."""
        u = self.away - zeros
        rest: Array = self.change - (self.slope * u + self.bend * u**2).sum(axis=1)
        return rest

    def loss(self, zeros: Array, noise: float) -> float:
        return float(np.log1p((self.left(zeros) / (CAUCHY * noise)) ** 2).sum() / CORRELATED_PX)

    def fit(self, free: list[int], noise: float | None = None) -> tuple[Array, Array, float]:
        """Zeros [J], the standard errors of the free ones, and the noise; iterated reweighted least squares."""
        zeros = np.zeros(self.slope.shape[1])
        wide = _spread(self.left(zeros))
        for step in range(STEPS):
            left = self.left(zeros)
            # from wide to narrow: with the least noise at once, whatever is far off would count as an outlier
            scale = max(_spread(left) if noise is None else noise, wide * NARROWER**step)
            weight = 1 / (1 + (left / (CAUCHY * scale)) ** 2)
            slope = (self.slope + 2 * self.bend * (self.away - zeros))[:, free]
            information = slope.T @ (slope * weight[:, None])
            change = np.linalg.pinv(information, hermitian=True) @ (slope.T @ (weight * left))
            zeros[free] = np.clip(zeros[free] - change, -FARTHEST, FARTHEST)
        variance = np.diag(np.linalg.pinv(information, hermitian=True)) * scale**2 * CORRELATED_PX
        return zeros, np.sqrt(variance), scale


def _spread(left: Array) -> float:
    """Standard deviation by the median, which outliers do not move."""
    return max(1.4826 * float(np.median(np.abs(left))), LEAST_NOISE)


def _learnt(pose: Nudged, reading: Array, picture: Picture) -> tuple[Array, Array, Array, Array]:
    """What :class:`_Seen` holds, of one pose."""
    arm = touched(pose)
    here, *nudged, now = (_map(seen)[arm] for seen in (*pose.pictures, picture))
    steps = pose.readings[1:] - pose.readings[0]
    by_step = np.linalg.pinv(np.concatenate([steps, STRAIGHT * steps**2], axis=1)) @ (np.stack(nudged) - here)
    slope, bend = np.split(by_step, 2)
    return slope.T, STRAIGHT * bend.T, now - here, np.tile(reading - pose.readings[0], (len(here), 1))


def touched(pose: Nudged) -> Mask:
    """[h, SIDE], where the nudges change the picture: the arm, wherever a few degrees take it."""
    here = _map(pose.pictures[0])
    most = np.max([np.abs(_map(seen) - here) for seen in pose.pictures[1:]], axis=0)
    return np.asarray(most > TOUCHED * most.max())


MOST_TOUCHED = 0.4
"""Of the picture. In simulation nudges changed 0.10–0.20 of it for a camera in the room (36 poses, from the front and
from above) and 0.51–0.99 for one on the wrist (5)."""


def stands_still(poses: Sequence[Nudged]) -> bool:
    """Whether a camera stands still while the arm moves."""
    return float(np.mean([touched(pose).mean() for pose in poses])) <= MOST_TOUCHED


def _map(picture: Picture) -> Array:
    """[h, SIDE] blurred, whatever the light."""
    height, width = picture.shape[:2]
    even = locally_normalised(grey(picture), 2 * round(WINDOW * width / 2) + 1)
    small = cv2.resize(even, (SIDE, round(SIDE * height / width)), interpolation=cv2.INTER_AREA)
    return np.asarray(cv2.GaussianBlur(small, (0, 0), BLUR_PX), np.float64)


LEAST_GAIN, SEVERAL_GAIN = 1.0, 8.0
"""In independent pixels. Of the best joint of 128 sound arms in simulation (benchmarks/nudges.py): 0.3 typically, 3.2
for one in twenty from the front, there with a zero of under 1°. Of all zeros together: up to 6.0, of faults 2–20."""
LEAST_OFF_DEG, LEAST_OFF_PCT = 1.0, 2.5
LEAD, SINGLE = 0.05, 0.85
"""Shares of its gain by which a joint must lead the next, and of what all together gain. Chosen on 384
zeros off by 3–6 from four sides (with 0.75 a tenth more are named, and twice as many wrongly, zeros and bases); of 288
others (benchmarks/nudges.py) 167 were named rightly, 1 wrongly, and of 48 moved bases 14 were taken for a zero."""
BLUNTEST_DEG, BLUNTEST_PCT = 3.0, 4.0
"""Zeros that cannot be told from nothing up to here are not said to be sound: faults begin at 3°. A gripper was said to
be within 5–6 while it was not."""
UNDERRATED = 2.4
"""The true error over the fit's own, by zeros of sound arms: root mean square 0.4 to 2.8 by joint and view."""

STILL_PX = 1.0
"""Motion of the background, largest over a picture 320 wide, up to which a camera stands. Of 56 cameras moved by up to
3 mm and 0.3° three stayed below; no zero was blamed for them."""
REACH = 3
"""Pixels around what the nudges touched into which a displaced arm may reach, of a picture :data:`SIDE` wide."""


def moved_away(pose: Nudged, picture: Picture) -> str:
    """Why a camera is not where it was, told by the background; empty while it is."""
    reference = pose.pictures[0]
    if picture.shape != reference.shape:
        return "its picture has another shape"
    arms = cv2.dilate(touched(pose).astype(np.uint8), np.ones((2 * REACH + 1, 2 * REACH + 1), np.uint8))
    height, width = reference.shape[:2]
    around = cv2.resize(arms, (width, height), interpolation=cv2.INTER_NEAREST) == 0
    motion = Registrar(reference, around).exact(picture)
    if not motion.found:
        return "the background is not recognised: the camera was moved too far, or it is another view"
    away = motion.displacement_px(width, height) * 320 / width
    return f"the camera has moved by {away:.1f} px (of 320)" if away > STILL_PX else ""


def compare_nudges(
    snapshot: Mapping[str, Sequence[Nudged]],
    readings: Array,
    pictures: Mapping[str, Sequence[Picture]],
    joints: Sequence[str],
) -> list[Finding]:
    """Judge the arm's zeros by a snapshot's nudges.

    Args:
        snapshot: By camera, its poses.
        readings: [poses, J] what the joints read at them now.
        pictures: By camera, a picture at each pose now.
        joints: J names.

    Returns:
        JOINT_OFFSET, failed or passed, or UNDECIDED with the reason.
    """
    reasons: dict[str, str] = {}
    poses: list[Nudged] = []
    live: list[tuple[Array, Picture]] = []
    for camera, nudged in snapshot.items():
        seen = pictures.get(camera, ())
        reason = "it gives no picture now"
        if len(seen) == len(nudged):
            reason = next(filter(None, map(moved_away, nudged, seen)), "")
        if reason:
            reasons[camera] = reason
        else:
            poses += nudged
            live += zip(readings, seen, strict=True)
    if not poses:
        why = "; ".join(f"{camera}: {reason}" for camera, reason in reasons.items())
        return [undecided("arm", f"Cannot attribute by sight: {why}.", {"reasons": reasons})]
    evidence = {"poses": len(readings), "cameras": sorted(set(snapshot) - set(reasons)), "reasons": reasons}
    return judge_nudges(fit_nudges(poses, live), joints, evidence)


def judge_nudges(fit: NudgeFit, joints: Sequence[str], evidence: Mapping[str, object]) -> list[Finding]:
    """The findings of one fit.

    Args:
        fit: See :func:`fit_nudges`.
        joints: Their names.
        evidence: What it rests on.
    """
    evidence = {**evidence, "gain": _by(joints, fit.gain), "gain_together": round(fit.gain_together, 2)}
    best, other = (int(joint) for joint in np.argsort(-fit.gain)[:2])
    gripper = np.array([is_gripper(joint) for joint in joints])
    gain, off, error = float(fit.gain[best]), fit.alone, UNDERRATED * fit.alone_error
    least = np.maximum(np.where(gripper, LEAST_OFF_PCT, LEAST_OFF_DEG), 2 * error)
    changed = gain >= LEAST_GAIN and abs(off[best]) > least[best]
    if changed or fit.gain_together > SEVERAL_GAIN:
        leads = gain - fit.gain[other] >= LEAD * gain and gain >= SINGLE * fit.gain_together
        if not (changed and leads):
            names = " or ".join(f"{joints[joint]} by {off[joint]:+.1f}" for joint in (best, other))
            summary = (
                "At the same joint readings the arm is not where it was; the pictures do not tell which zero has moved "
                f"({names}), or whether the base or something in front of the arm has."
            )
            return [undecided("arm", summary, evidence)]
        found = offset(joints[best], float(off[best]), float(error[best]), evidence)
        return [dataclasses.replace(found, fix=f"{STANDS} {found.fix}")]
    limit = np.maximum(np.abs(off) + 2 * error, np.where(gripper, LEAST_OFF_PCT, LEAST_OFF_DEG))
    told = limit <= np.where(gripper, BLUNTEST_PCT, BLUNTEST_DEG)
    findings = []
    if told.any():
        what = [f"{joint} {value:.1f}" for joint, value, tells in zip(joints, limit, told, strict=True) if tells]
        summary = (
            f"At the same joint readings the arm is where it was. No zero has moved by more than: {', '.join(what)}."
        )
        subject = "arm" if told.all() else ", ".join(joint for joint, tells in zip(joints, told, strict=True) if tells)
        evidence = {"off": _by(joints, off), **evidence}
        findings.append(Finding("JOINT_OFFSET", Status.PASS, Cause.CALIBRATION, subject, summary, evidence))
    if not told.all():
        what = [f"{joint} {value:.0f}" for joint, value, tells in zip(joints, limit, told, strict=True) if not tells]
        summary = f"Moved zeros of these joints would be seen only from so much on: {', '.join(what)}."
        findings.append(undecided("arm", summary, evidence))
    return findings


STANDS = "See first that the base stands where it stood: one that was moved a little can look like a zero."


def _by(joints: Sequence[str], values: Array) -> dict[str, float]:
    return dict(zip(joints, values.round(2).tolist(), strict=True))
