"""What a comparison by sight says, as findings, and when it says that it cannot tell."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lerobot_diagnostics.findings import Cause, Finding, Status
from lerobot_diagnostics.recording.names import is_gripper
from lerobot_diagnostics.sight.camera import Array
from lerobot_diagnostics.sight.explain import BASE, SEVERAL, UNDERRATED, Explained, Explanation
from lerobot_diagnostics.sight.model import JOINTS, PAN_AXIS_M
from lerobot_diagnostics.sight.solve import LEAST_OVERLAP, Solved

# Measured with benchmarks/calibration_by_sight.py: 46 faults (joint zeros off by 3–6, base) and 26 sound arms (some of
# the cameras moved, light ±20 %), from the front and the side.
LEAST_GAIN = 20.0
"""Gain of an explanation under which nothing has changed. The faults gained 73 and more, sound arms up to 48 (136 where
the camera was moved): there it is the size of the change, next, that keeps quiet."""
LEAST_OFF = {**dict.fromkeys(JOINTS, 1.0), "shoulder_pan": 0.5, "gripper": 2.0}
"""Smallest change of a zero that is reported: degrees, the gripper in its 0–100. With all six free, sound arms came out
off by up to 0.23, 0.38, 0.71, 0.59, 0.75 and 1.2, in the order of the joints."""
LEAST_BASE_M, LEAST_BASE_RAD = 0.002, np.deg2rad(0.5)
MARGIN, MARGIN_SHARE = 12.0, 0.05
"""How much more the best explanation must gain than another of as few numbers, at least and as a share of its gain.
The right joint led the next by 79 % of its gain and more."""
ABOUT_PAN_M = 0.0015
"""How far the axis of a turned base may miss the pan joint's: of a pan's zero 4–5° off it missed by 0.1–0.7 mm (five
draws from the front, the side and above)."""
SEVERAL_MARGIN, SEVERAL_SHARE = 40.0, 0.15
"""How much more all six zeros must gain than one of them: they also take up what a held object adds to the outline (up
to 44, or 28 % of a small gain, with one joint off)."""
WORST_COST = 2.5
"""Cost of the best explanation over that of the recording from which on something else must have changed."""
OVERLAP_LOST = 0.05
"""How far the overlap under the best explanation may fall below the recording's (and below what :mod:`.solve` asks for)
before something else must have changed. Explained faults and sound arms: 0.98 and more, 0.946 in light of 40–70 %;
fits that had gone astray: 0.51 to 0.898."""
BLUNTEST_DEG = 3.0
"""Uncertainty (two standard errors) of a joint's zero beyond which nothing found is no pass: faults begin at 3°."""
SURE = 4.0
"""Standard errors from which on one of several zeros counts as changed."""

RECALIBRATE = "Recalibrate this joint, or correct its zero by {:+.1f} {} in a new calibration file."


def judge(explained: Explained, solved: Mapping[str, Solved]) -> list[Finding]:
    """Findings of one comparison.

    Args:
        explained: See :func:`~lerobot_diagnostics.sight.explain.explain`.
        solved: The cameras it rests on, by name.
    """
    by_name = {one.what: one for one in explained.explanations}
    several, base = by_name.pop(SEVERAL), by_name.pop(BASE)
    joints = sorted(by_name.values(), key=lambda one: -one.gain)
    evidence = {
        "poses": min(len(solved[name].readings) for name in explained.settled),
        "cameras": sorted(explained.settled),
        "outline_overlap": round(explained.overlap, 3),
        "camera_moved_px": {name: round(place.moved_px, 1) for name, place in explained.settled.items()},
        "gain": {one.what: round(one.gain, 1) for one in explained.explanations},
    }
    simple = max([*joints, base], key=lambda one: one.gain)
    best = several if several.gain - simple.gain > _margin(several, SEVERAL_MARGIN, SEVERAL_SHARE) else simple
    changed = best.gain >= LEAST_GAIN and bool(_changed(best))
    recorded = float(np.mean([solved[name].overlap for name in explained.settled]))
    astray = explained.overlap < min(LEAST_OVERLAP, recorded - OVERLAP_LOST)
    if astray or (changed and best.fit.cost > WORST_COST * explained.recorded):
        return [
            undecided(
                "arm",
                "At the same joint readings the arm does not appear as it did, and neither the joints' zeros nor the "
                "base explain it: something else has changed, or several things at once.",
                evidence,
            )
        ]
    if not changed:
        return _unchanged(several, evidence)
    if best is several:
        return [offset(joint, *several.off[joint], evidence) for joint in _changed(several)]
    # The base has three numbers, a joint one: it must gain that much more.
    pan = joints[0].what == JOINTS[0] and about_pan(base.fit.scene.base)
    if not pan and base.gain - joints[0].gain > _margin(base, MARGIN, MARGIN_SHARE):
        return [_base_moved(base, evidence)]
    if joints[0].gain - joints[1].gain < _margin(joints[0], MARGIN, MARGIN_SHARE):
        names = " or ".join(f"{one.what} by {one.off[one.what][0]:+.1f}" for one in joints[:2])
        return [
            undecided(
                "arm",
                "At the same joint readings the arm is not where it was; the pictures do not tell which zero has "
                f"moved: {names}.",
                evidence,
            )
        ]
    return [offset(joints[0].what, *joints[0].off[joints[0].what], evidence)]


def about_pan(base: Array) -> bool:
    """Whether a displacement of the base [3] is a turn about the pan joint's axis, and so looks like that joint's zero.

    It is taken for the joint then: a hand that moves the base does not turn it about just that axis.
    """
    sine, cosine = np.sin(base[2]), np.cos(base[2])
    turned = np.array([[cosine, -sine], [sine, cosine]]) @ PAN_AXIS_M
    return bool(np.linalg.norm(base[:2] - (PAN_AXIS_M - turned)) < ABOUT_PAN_M)


def undecided(subject: str, summary: str, evidence: Mapping[str, object]) -> Finding:
    """Something that the pictures do not tell."""
    return Finding("UNDECIDED", Status.UNKNOWN, Cause.CALIBRATION, subject, summary, evidence)


def _margin(one: Explanation, least: float, share: float) -> float:
    return max(least, share * one.gain)


def _changed(one: Explanation) -> list[str]:
    """Joints (or the base) that an explanation says have moved by more than is worth a word."""
    if one.what == BASE:
        along, turn = np.linalg.norm(one.fit.scene.base[:2]), abs(one.fit.scene.base[2])
        return [BASE] if along > LEAST_BASE_M or turn > LEAST_BASE_RAD else []
    return [
        joint
        for joint, (off, error) in one.off.items()
        if abs(off) > LEAST_OFF[joint] and (one.what != SEVERAL or abs(off) > SURE * error)
    ]


def offset(joint: str, off: float, error: float, evidence: Mapping[str, object]) -> Finding:
    """A joint's zero that has moved.

    Args:
        joint: Its name.
        off, error: Reading minus true pose, degrees or of the gripper's 0–100, and one standard error.
        evidence: What it rests on.
    """
    words, key = ("of 100", "pct") if is_gripper(joint) else ("degrees", "deg")
    return Finding(
        "JOINT_OFFSET",
        Status.FAIL,
        Cause.CALIBRATION,
        joint,
        f"{joint} reads {abs(off):.1f} ± {2 * error:.1f} {words} {'more' if off > 0 else 'less'} than when it was "
        "recorded in the same place: its zero has moved.",
        {f"offset_{key}": round(off, 2), f"uncertainty_{key}": round(2 * error, 2), **evidence},
        RECALIBRATE.format(-off, words),
    )


def _base_moved(one: Explanation, evidence: Mapping[str, object]) -> Finding:
    forward, left, turn = one.fit.scene.base * (1000, 1000, np.rad2deg(1))
    error = UNDERRATED * np.sqrt(np.diag(one.fit.covariance))[-3:] * (1000, 1000, np.rad2deg(1))
    return Finding(
        "BASE_MOVED",
        Status.FAIL,
        Cause.WORKSPACE,
        "base",
        f"The arm's base has moved {forward:+.0f} mm forward, {left:+.0f} mm to its left, and turned {turn:+.1f}° "
        "(counter-clockwise from above).",
        {
            "forward_mm": round(forward, 1),
            "left_mm": round(left, 1),
            "turn_deg": round(turn, 2),
            "uncertainty_mm": round(2 * float(error[:2].max()), 1),
            "uncertainty_deg": round(2 * float(error[2]), 2),
            **evidence,
        },
        f"Push the base back: {-forward:+.0f} mm forward, {-left:+.0f} mm to its left, {-turn:+.1f}°.",
    )


def _unchanged(several: Explanation, evidence: Mapping[str, object]) -> list[Finding]:
    limit = {joint: max(LEAST_OFF[joint], 2 * error) for joint, (_, error) in several.off.items()}
    worst, arm = max(((joint, value) for joint, value in limit.items() if joint != "gripper"), key=lambda pair: pair[1])
    if arm > BLUNTEST_DEG:
        return [
            undecided(
                "arm",
                f"No zero is seen to have moved, but the pictures would show {worst} only from {arm:.0f}° on: more "
                "poses, farther apart, at which the arm stands still would tell.",
                evidence,
            )
        ]
    return [
        Finding(
            "JOINT_OFFSET",
            Status.PASS,
            Cause.CALIBRATION,
            "arm",
            f"At the same joint readings the arm is where it was: no zero has moved by more than {arm:.1f}° (gripper "
            f"{limit['gripper']:.0f} of 100).",
            {"off": {joint: round(off, 2) for joint, (off, _) in several.off.items()}, **evidence},
        ),
        Finding("BASE_MOVED", Status.PASS, Cause.WORKSPACE, "base", "The arm's base is where it was.", evidence),
    ]
