"""Faults of single joints: not finite, flat, shifted, scaled, mirrored, late, missed grasps, or just poor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.ndimage import median_filter

from lerobot_diagnostics.findings import Cause, Finding, Status
from lerobot_diagnostics.openloop.arrays import (
    FLAT,
    TIED,
    Arrays,
    Found,
    new_finding,
    own_square,
    signed,
    subject_of,
)
from lerobot_diagnostics.openloop.checks import quantity
from lerobot_diagnostics.openloop.explanations import Choice, Explanation
from lerobot_diagnostics.openloop.metrics import (
    GripperScore,
    correlation,
    delayed,
    score_gripper,
)
from lerobot_diagnostics.report.format import count_of

FLAT_CORRELATION = 0.9

NOISY_FLAT, UNRELATED = 0.5, 0.3
"""A constant with noise on it spreads more (noise of 10 % of the range: 0.3–0.5 of the recorded spread) but has nothing
to do with the recording: flat as well."""

GRIPPER_OFF, GRIPPER_OFF_S = 0.25, 0.5
"""A missed or added grasp is real when the gripper is also off by a quarter of its range for a while (half of half a
second, by the median). Without this, white noise of 1–10 % failed 2 of 600 good policies and warned on 11 of 200."""

POOR_OVER_SCALE, POOR_OVER_MEAN = 0.15, 0.8
"""A joint is predicted poorly when its rmse is above 15 % of its scale *and* above 80 % of what predicting one constant
costs. Both, because a joint that rests and moves briefly has a cheap constant."""


def find_nan(a: Arrays) -> list[Finding]:
    findings = []
    for what, values, cause, fix in (
        ("prediction", a.p, Cause.MODEL, "Look for NaN in the weights and in the normalization statistics (std of 0)."),
        ("recording", a.y, Cause.DATA, "Delete or record again: lerobot-edit-dataset --operation.type delete_episodes"),
    ):
        bad = ~np.isfinite(values)
        for j in np.flatnonzero(bad.any(axis=0)):
            first, count = int(np.argmax(bad[:, j])), int(bad[:, j].sum())
            if bad[first:, j].all():
                where = f"from frame {first} on"
            else:
                where = f"in {count_of(count, 'frame')}, the first is frame {first}"
            summary = f"{a.names[j]}: the {what} is not a finite number {where}; the rest is scored without these."
            evidence = {"first_frame": first, "frames": count, "of_frames": len(values), "side": what}
            findings.append(Finding("NAN", Status.FAIL, cause, a.names[j], summary, evidence, fix))
    return findings


def find_near_constant(a: Arrays) -> list[Finding]:
    findings = []
    for j in a.scored:
        if j in a.moving:
            continue
        error = a.p[:, j] - a.y[:, j]
        mae = float(np.nanmean(np.abs(np.where(np.isfinite(error), error, np.nan))))
        finite = np.isfinite(a.p[:, j])
        wild = float(a.p[finite, j].std()) > max(0.5 * a.scale[j], 10 * float(np.nanstd(a.y[:, j])))
        name, moved = a.names[j], a.say(j, float(a.motion[j]))
        evidence = {"range_of_motion": float(a.motion[j]), "mae": mae, "unit": a.units[j]}
        if wild:
            summary = (
                f"{name} hardly moves in the recording ({moved}) but its prediction swings by "
                f"{a.say(j, float(a.p[finite, j].std()))}: statistics with almost no spread blow up any deviation."
            )
            fix = f"Train without this joint or with a fixed std for it; check the action statistics of {name}."
            findings.append(Finding("NEAR_CONSTANT", Status.FAIL, Cause.DATA, name, summary, evidence, fix))
        else:
            summary = (
                f"{name} hardly moves in the recording ({moved}): only its absolute error ({a.say(j, mae)}) counts."
            )
            findings.append(Finding("NEAR_CONSTANT", Status.INFO, Cause.DATA, name, summary, evidence))
    return findings


def find_flat(a: Arrays, explained: set[int]) -> Found:
    findings, joints = [], set()
    for j in a.moving:
        both = np.isfinite(a.y[:, j]) & np.isfinite(a.p[:, j])
        ratio = float(a.p[both, j].std() / a.y[both, j].std())
        r = correlation(a.y[:, j], a.p[:, j])
        related = abs(r) if np.isfinite(r) else 0.0
        flat = ratio <= FLAT and related < FLAT_CORRELATION
        if j in explained or not (flat or (ratio <= NOISY_FLAT and related <= UNRELATED)):
            continue
        joints.add(j)
        level = float(a.p[both, j].mean())
        code = "GRIPPER_FLAT" if j in a.grippers else "FLAT"
        at = f"stays at {a.say(j, level)} (±{a.say(j, float(a.p[both, j].std()))})"
        if a.train_mean is not None and abs(level - a.train_mean[j]) <= 0.1 * a.scale[j]:
            at += f", the training mean ({a.say(j, float(a.train_mean[j]))}),"
        summary = (
            f"{a.names[j]} is predicted flat: it {at} while the recording moves over {a.say(j, float(a.motion[j]))}."
        )
        if code == "GRIPPER_FLAT":
            summary += " The gripper never opens or closes."
        evidence = {"predicted_over_recorded_spread": ratio, "predicted_mean": level, "unit": a.units[j]}
        fix = (
            "The policy learned only the average of this joint: train longer (lerobot-train --steps), and check that "
            "the pictures show what decides the motion; lerobot-open-loop-eval on an earlier checkpoint "
            "shows the trend."
        )
        findings.append(new_finding(code, Status.FAIL, a.names[j], summary, evidence, fix))
    return findings, joints


def find_explained(a: Arrays, choices: dict[int, Choice]) -> Found:
    """OFFSET, SCALE, SIGN and LAG where one of them fits; a delay that joints share is said once."""
    findings, joints = [], set()
    late: dict[int, list[int]] = {}
    for j, choice in choices.items():
        best = choice.best
        if best is None:
            continue
        if j not in a.moving:  # absolute error only
            if best.codes != ("OFFSET",) and not any(r.codes == ("OFFSET",) for r in choice.rivals):
                continue
            best = next(f for f in (best, *choice.rivals) if f.codes == ("OFFSET",))
            choice = Choice(choice.identity, best)
        joints.add(j)
        for code in best.codes:
            if code == "LAG":
                late.setdefault(best.lag, []).append(j)
            else:
                findings.append(_SAY[code](a, j, best, choice))
    for lag, group in late.items():
        findings.append(_say_lag(a, group, lag, choices))
    return findings, joints


def _evidence(a: Arrays, j: int, fit: Explanation, choice: Choice) -> dict[str, Any]:
    evidence: dict[str, Any] = {
        "unit": a.units[j],
        "rmse": choice.identity.rms,
        "rmse_left": fit.rms,
        "range_of_motion": float(a.motion[j]),
    }
    if choice.rivals:
        evidence["also_fits"] = {" and ".join(r.codes): r.rms for r in choice.rivals}
    return evidence


def _rivals(a: Arrays, j: int, choice: Choice) -> str:
    """ "…fits equally well", or nothing."""
    said = []
    for r in choice.rivals:
        parts = {
            "OFFSET": f"an offset of {signed(a, j, r.offset)}",
            "SCALE": f"a scale of {r.factor:.2f}",
            "SIGN": "a mirrored joint",
            "LAG": f"a lag of {count_of(r.lag, 'frame')}",
        }
        said.append(" with ".join(parts[c] for c in r.codes) + f" ({a.say(j, r.rms)} left)")
    return f" Equally well fits {' or '.join(said)}: this recording does not decide." if said else ""


def _say_offset(a: Arrays, j: int, fit: Explanation, choice: Choice) -> Finding:
    y = delayed(a.y[:, j], fit.lag, a.episodes)
    error = a.p[:, j] - y
    blocks = [b.mean() for b in np.array_split(error[np.isfinite(error)], 8)]
    scatter = float(np.std(blocks))
    way = "high" if fit.offset > 0 else "low"
    summary = (
        f"{a.names[j]} is predicted {a.say(j, abs(fit.offset))} too {way} everywhere "
        f"(±{quantity(scatter, a.units[j], like=fit.offset)}): "
        + (
            "statistics or a joint order that are not this recording's"
            if a.trained_on
            else "a shifted zero or stale statistics"
        )
        + f", not training.{_rivals(a, j, choice)}"
    )
    evidence = _evidence(a, j, fit, choice) | {"offset": fit.offset, "scatter_over_time": scatter}
    statistics = (
        "the checkpoint's action.mean with meta/stats.json; after a merge: lerobot-edit-dataset --operation.type "
        "recompute_stats."
    )
    if a.trained_on:
        fix = f"Compare the order of features.action.names in meta/info.json with the policy's, and {statistics}"
        return new_finding("OFFSET", Status.FAIL, a.names[j], summary, evidence, fix, Cause.CONFIG)
    fix = (
        f"Compare the calibration of {a.names[j]} at recording with today's (homing_offset in "
        f"~/.cache/huggingface/lerobot/calibration), and {statistics}"
    )
    return new_finding("OFFSET", Status.FAIL, a.names[j], summary, evidence, fix)


def _say_scale(a: Arrays, j: int, fit: Explanation, choice: Choice) -> Finding:
    lowest, highest = np.nanmin(a.y[:, j]) - a.motion[j], np.nanmax(a.y[:, j]) + a.motion[j]
    if fit.offset == 0:
        about = "about zero"
    elif lowest <= fit.centre <= highest:
        about = f"about {a.say(j, fit.centre)}"
    else:
        about = f"and shifted by {signed(a, j, fit.offset)}"
    units = ""
    for factor, what in ((np.pi / 180, "degrees given as radians"), (180 / np.pi, "radians given as degrees")):
        if abs(np.log(fit.factor / factor)) < 0.05:
            units = f": that is {what}"
    summary = (
        f"{a.names[j]} is predicted {fit.factor:.2g} times as far as recorded "
        f"{about}{units or ': units or statistics'}; "
        f"the error falls from {a.say(j, choice.identity.rms)} to {a.say(j, fit.rms)}.{_rivals(a, j, choice)}"
    )
    evidence = _evidence(a, j, fit, choice) | {"factor": fit.factor, "centre": fit.centre, "offset": fit.offset}
    fix = (
        f"Compare the unit and the calibrated range of {a.names[j]} (--robot.use_degrees) and the checkpoint's "
        "action.std with those of the data set."
    )
    if a.trained_on and not units:
        fix = "Compare the checkpoint's action.std with that of the data set, which may have been converted since."
        return new_finding("SCALE", Status.FAIL, a.names[j], summary, evidence, fix, Cause.CONFIG)
    return new_finding("SCALE", Status.FAIL, a.names[j], summary, evidence, fix)


def _say_sign(a: Arrays, j: int, fit: Explanation, choice: Choice) -> Finding:
    summary = (
        f"{a.names[j]} is predicted the wrong way round, mirrored about {a.say(j, fit.centre)}"
        + (f" and {-fit.factor:.2g} times as far" if not 0.8 <= -fit.factor <= 1.25 else "")
        + f": turning it over leaves {a.say(j, fit.rms)} of {a.say(j, choice.identity.rms)}.{_rivals(a, j, choice)}"
    )
    evidence = _evidence(a, j, fit, choice) | {"factor": fit.factor, "centre": fit.centre}
    if a.trained_on:
        fix = f"The policy was trained on this recording: look at what has turned {a.names[j]} over in either since."
        return new_finding("SIGN", Status.FAIL, a.names[j], summary, evidence, fix, Cause.CONFIG)
    fix = f"Compare drive_mode of {a.names[j]} in the calibration at recording with today's; lerobot-calibrate anew."
    return new_finding("SIGN", Status.FAIL, a.names[j], summary, evidence, fix)


def _say_lag(a: Arrays, joints: list[int], lag: int, choices: dict[int, Choice]) -> Finding:
    """One finding for all joints with the same delay."""
    ms = 1000 * lag / a.fps
    late = "late" if lag > 0 else "early"
    before = np.mean([choices[j].identity.rms / a.scale[j] for j in joints])
    left = np.mean([fit.rms / a.scale[j] for j in joints if (fit := choices[j].best)])
    subject = subject_of(a, joints)
    summary = (
        f"{subject}: predictions come {count_of(abs(lag), 'frame')} ({abs(ms):.0f} ms) {late}; moved in time the error "
        f"falls from {100 * before:.1f} to {100 * left:.1f} % of the range."
    )
    evidence: dict[str, Any] = {
        "lag_frames": lag,
        "lag_ms": ms,
        "joints": [a.names[j] for j in joints],
        "error_over_range": float(before),
        "error_over_range_left": float(left),
    }
    if a.states is not None:
        states, own = a.states, {j: choices[j] for j in joints}
        copies = [
            j for j, c in own.items() if c.best and a.square(j, states[:, j]) <= TIED * own_square(a, j, c)
        ]  # fmt: skip
        if len(copies) > len(joints) / 2:
            summary += " The measured state fits as well: the policy may just repeat the state it sees."
            evidence["also_fits"] = {"copy of the current state": [a.names[j] for j in copies]}
    rivals = {j: choices[j].rivals for j in joints if choices[j].rivals}
    if rivals and len(rivals) > len(joints) / 2:
        j = next(iter(rivals))
        summary += f" ({a.names[j]}){_rivals(a, j, choices[j])}"
        evidence.setdefault("also_fits", {}).update({" and ".join(r.codes): r.rms for r in rivals[j]})
    fix = (
        "Compare the frame offset between observation and action in the training data set (action_delta_indices, "
        "time stamps) and the fps of both; a delay is not mended by more training."
    )
    return new_finding("LAG", Status.FAIL, subject, summary, evidence, fix)


_SAY: dict[str, Callable[[Arrays, int, Explanation, Choice], Finding]] = {
    "OFFSET": _say_offset,
    "SCALE": _say_scale,
    "SIGN": _say_sign,
}


def _events(a: Arrays, j: int) -> tuple[GripperScore, dict[str, Any], str]:
    """Gripper events of joint ``j`` with the evidence and the next step they give."""
    score = score_gripper(a.y[:, j], a.p[:, j], name=a.names[j], fps=a.fps, episode_index=a.episode_index)
    evidence = {
        "recorded_events": len(score.recorded),
        "predicted_events": len(score.predicted),
        "matched_events": len(score.matched),
        "missed_events": score.missed,
        "extra_events": score.extra,
        "timing_error_ms": score.timing_error_ms,
        "timing_spread_ms": score.timing_spread_ms,
    }
    fix = f"Look at {a.names[j]} in the plots around these frames: lerobot-open-loop-eval --display_data=true"
    return score, evidence, fix


def find_gripper_flat(a: Arrays, choices: dict[int, Choice], explained: set[int]) -> Found:
    """A gripper that stays open (or closed) while the recorded one does not."""
    findings, joints = [], set()
    for j in a.grippers:
        if j in explained or j not in a.moving:
            continue
        score, evidence, fix = _events(a, j)
        best = choices[j].best
        # Moving too little is the same thing here; shifted, the wrong way round or in other units is not.
        other = best is not None and (best.codes != ("SCALE",) or best.factor < FLAT)
        if not score.recorded or score.predicted or other:
            continue
        p, name = a.p[np.isfinite(a.p[:, j]), j], a.names[j]
        summary = (
            f"{name} never opens or closes in the prediction (it stays within {a.say(j, float(p.min()))} … "
            f"{a.say(j, float(p.max()))}); the recording does {count_of(len(score.recorded), 'time')}."
        )
        findings.append(new_finding("GRIPPER_FLAT", Status.FAIL, name, summary, evidence, fix))
        joints.add(j)
    return findings, joints


def _off_for_a_while(a: Arrays, j: int) -> bool:
    """Whether the error of gripper ``j`` is large for longer than noise is; see :data:`GRIPPER_OFF`."""
    error = np.nan_to_num(np.abs(a.p[:, j] - a.y[:, j]))
    width = max(1, round(GRIPPER_OFF_S * a.fps))
    return any(
        median_filter(error[e], size=min(width, e.stop - e.start), mode="nearest").max() >= GRIPPER_OFF * a.motion[j]
        for e in a.episodes
    )


def find_missed_grasps(a: Arrays, explained: set[int]) -> Found:
    """Missed and added grasps, which a small error can hide."""
    findings: list[Finding] = []
    joints: set[int] = set()
    for j in a.grippers:
        if j in explained or j not in a.moving:
            continue
        score, evidence, fix = _events(a, j)
        if not score.missed and not score.extra:
            continue
        recorded, name = len(score.recorded), a.names[j]
        summary = (
            f"{name} misses {score.missed} of "
            f"{count_of(recorded, 'opening or closing', 'openings and closings')} and adds "
            f"{score.extra}: the grasp depends on these."
        )
        # Where a slow gripper lingers near a threshold, noise alone loses or adds one.
        if not _off_for_a_while(a, j):
            status = Status.INFO
        elif score.missed and (not score.matched or score.missed > max(1, recorded / 2)):
            status = Status.FAIL
            joints.add(j)
        else:
            status = Status.WARN
        findings.append(new_finding("POOR_FIT", status, name, summary, evidence, fix))
    return findings, joints


def find_poor_fit(a: Arrays, joints: list[int]) -> list[Finding]:
    findings = []
    for j in joints:
        both = np.isfinite(a.y[:, j]) & np.isfinite(a.p[:, j])
        y, p = a.y[both, j], a.p[both, j]
        rmse = float(np.sqrt(np.mean((p - y) ** 2)))
        constant = float(a.train_mean[j]) if a.train_mean is not None else float(y.mean())
        baseline = float(np.sqrt(np.mean((constant - y) ** 2)))
        if rmse < POOR_OVER_SCALE * a.scale[j] or rmse < POOR_OVER_MEAN * baseline:
            continue
        what = "the training mean" if a.train_mean is not None else "the recording's own mean"
        evidence = {
            "rmse": rmse,
            f"rmse_of_{what.replace(' ', '_')}": baseline,
            "error_over_range": rmse / float(a.motion[j]),
            "correlation": correlation(y, p),
            "unit": a.units[j],
        }
        more = ""
        if a.hold is not None:
            held = float(np.sqrt(np.nanmean((a.hold[both, j] - y) ** 2)))
            evidence["rmse_of_holding_still"] = held
            more = f", holding still {a.say(j, held)}"
        summary = (
            f"{a.names[j]} is predicted poorly: {a.say(j, rmse)} rms ({100 * rmse / a.motion[j]:.0f} % of its range), "
            f"where always predicting {what} gives {a.say(j, baseline)}{more}; no shift, scale, sign or delay "
            "explains it."
        )
        fix = (
            "Compare checkpoints: lerobot-open-loop-eval --policy.path=<run>/checkpoints shows whether "
            "training was too "
            "short, too long or on other data."
        )
        findings.append(new_finding("POOR_FIT", Status.FAIL, a.names[j], summary, evidence, fix))
    return findings
