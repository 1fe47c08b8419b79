"""Moved camera, moved arm base or moved object? What stands still over a recording tells them apart.

The background is what most frames of the recording agree on. It moved in the live picture: the camera was moved. It
stands, but the arm appears elsewhere at the same joint state: the base was moved, or the calibration changed. Both
stand and something else lies beyond the places recorded for it: an object. For cameras that stand still; a wrist
camera has no background.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Cause, Finding, Status
from lerobot_diagnostics.vision.images import FloatMap, Mask, Picture, checked, grey
from lerobot_diagnostics.vision.registration import Registrar, Registration, to_reference

NOISE_LEVELS = 14.0
"""Grey levels of 255 that JPEG, noise and a change of light leave after gain correction."""
SHAKE_PX = 1.0
"""Shake of the camera that still counts as standing: it changes a pixel by this much of the gradient."""
AGREE = 0.7
"""Share of the frames in which a background pixel shows the background."""
LEAST_BACKGROUND = 0.15
"""Share of the picture under which there is no background: the camera moves by itself."""
LEAST_AREA = 0.0004
"""Share of the picture a blob must cover to be an object (5 × 5 px of 256 × 256)."""
LEAST_MATCH = 0.6
"""Correlation from which a displaced patch counts as found again."""
ARRIVED = 0.3
"""Share of the place a displaced thing has gone to that must have changed: half of it where the thing is half as bright
as its surroundings."""
CLIPPED = 250
"""Level from which a channel counts as clipped."""
LEAST_VISIBLE = 0.3
"""Share of the arm that must not be clipped for its pixels to be compared."""
SEARCH_ARM, SEARCH_OBJECT = 0.08, 0.25
"""Shares of the width within which the arm and objects are searched."""
NEAR = 0.03
"""Share of the width within which blobs belong together."""
STILL_PX_OF_640 = 3.0
"""Displacements below this, scaled to the width, are the noise floor (at least 1 px)."""
SAME_SHAPE = 0.8
"""Correlation of a changed blob with the reference in place from which it is the same thing in another shade: 0.91 for
the simulated setup's tray under warm light of 55 %, 0.65 and less where red and blue are exchanged."""
FAINT = 1.5
"""Difference of a blob, in units of what is tolerated, under which it is a shade, as a plain surface has no likeness to
go by: 1.0 on the simulated tray in light of 95 %; things that have moved or other colours: 4.9 and more."""
ARM_DIFFERS = 0.25
"""Share of the arm's pixels that differ at the same joint state from which parts of it are elsewhere. Simulated arm:
healthy 0.00, in light of 80 % 0.03; a joint 4–6° off 0.04–0.23, which needs a closer look."""
SPREAD_MARGIN = 4.0
"""How far beyond n recorded places, in units of their range / (n − 1), a place still counts as one of them. Places
drawn uniformly fall outside in 0.2 % (n = 20), 0.5 % (12), 0.9 % (8), 2.1 % (5) of 100,000 draws, an axis; there are
two of them for each object and camera."""
FEWEST_PLACES = 5
"""Recorded places from which on their range is a measure (see above)."""
STILL_DEG, STILL_ZOOM = 0.3, 0.006
"""Rotation and zoom of the background below which a camera stands; others report a noise floor of 0.2° and 0.4 %."""


@dataclass(frozen=True)
class Background:
    """What stands still over a recording.

    Args:
        picture: [H, W, 3] uint8 RGB, the median of the frames.
        mask: [H, W] bool, true where most frames show it; None when the camera moves by itself.
    """

    picture: Picture
    mask: Mask | None


@dataclass(frozen=True)
class Change:
    """Something displaced, in pixels of the reference.

    Args:
        kind: "arm" or "object".
        x_px, y_px: Centre of where it was.
        dx_px, dy_px: How far it went; NaN when it was not found again.
        area_px: Size.
        confidence: Correlation of the match, 0 when not found again.
    """

    kind: str
    x_px: float
    y_px: float
    dx_px: float
    dy_px: float
    area_px: int
    confidence: float


def background_of(frames: Sequence[Picture]) -> Background:
    """Median picture and mask of what stands still, from frames spread over the recording (ten or more are good).

    A plain variance threshold would throw away every textured edge under one pixel of shake: the tolerance grows with
    the gradient instead.

    Raises:
        UsageError: With fewer than three frames, or frames of different sizes.
    """
    if len(frames) < 3 or len({f.shape for f in frames}) != 1:
        raise UsageError(f"a background needs three or more frames of one size, got {len(frames)}.")
    stack = np.stack([checked(f, "background frame") for f in frames])
    picture = np.median(stack, axis=0).astype(np.uint8)
    tolerance = _tolerance(picture)
    agree = np.zeros(picture.shape[:2], np.float32)
    for frame in stack:
        agree += _difference(_relit(frame, picture, None), picture) <= tolerance
    mask = agree >= AGREE * len(stack)
    return Background(picture, mask if mask.mean() >= LEAST_BACKGROUND else None)


def _tolerance(*pictures: Picture) -> FloatMap:
    """[H, W] grey levels that may differ at each pixel without meaning anything."""
    steepest = np.zeros(pictures[0].shape[:2], np.float32)
    for picture in pictures:
        values = grey(picture)
        slope = cv2.magnitude(
            cv2.Sobel(values, cv2.CV_32F, 1, 0, scale=1 / 8), cv2.Sobel(values, cv2.CV_32F, 0, 1, scale=1 / 8)
        )
        steepest = np.maximum(steepest, cv2.dilate(slope, np.ones((3, 3), np.uint8)))
    return np.asarray(NOISE_LEVELS + SHAKE_PX * steepest, np.float32)


def _difference(a: Picture, b: Picture) -> FloatMap:
    """[H, W] largest difference over the channels, of what both would show in a video.

    A live picture has sharper colours than a decoded frame, in which four pixels share one (4:2:0): at the edges of
    vivid objects that alone is more than any tolerance.
    """
    return np.asarray(cv2.absdiff(_as_in_video(a), _as_in_video(b)).max(axis=2), np.float32)


def _excess(picture: Picture, reference: Picture) -> FloatMap:
    """[H, W] difference in units of what is tolerated: over 1 the pixel differs."""
    return np.asarray(_difference(picture, reference) / _tolerance(picture, reference), np.float32)


def _as_in_video(picture: Picture) -> Picture:
    luma, *chroma = cv2.split(cv2.cvtColor(picture, cv2.COLOR_RGB2YCrCb))
    height, width = luma.shape
    half = ((width + 1) // 2, (height + 1) // 2)
    shared = [cv2.resize(cv2.resize(c, half, interpolation=cv2.INTER_AREA), (width, height)) for c in chroma]
    return np.asarray(cv2.cvtColor(cv2.merge([luma, *shared]), cv2.COLOR_YCrCb2RGB), np.uint8)


def _relit(live: Picture, reference: Picture, mask: Mask | None) -> Picture:
    """The live picture with the reference's exposure and white balance: channel gains by medians over the mask."""
    chosen = (reference.min(axis=2) > 12) & (reference.max(axis=2) < 243) & (live.max(axis=2) < 250)
    chosen &= live.min(axis=2) > 4
    if mask is not None:
        chosen &= mask
    if chosen.sum() < 100:
        return live
    gains = np.median(reference[chosen].astype(np.float32) / live[chosen], axis=0)
    return np.asarray(np.clip(live * gains, 0, 255), np.uint8)


def foreground(picture: Picture, background: Background) -> Mask:
    """[H, W], where a picture shows something else than the background, whatever the light; nowhere outside its mask.

    Args:
        picture: [H, W, 3] uint8 RGB of the same view.
        background: See :func:`background_of`.
    """
    differs = _before(picture, background)
    return differs if background.mask is None else differs & background.mask


def largest_change(picture: Picture, reference: Picture) -> float:
    """Share of the picture that the largest thing covers in which two pictures of one standing view differ.

    Another light is no difference.

    Args:
        picture, reference: [H, W, 3] uint8 RGB of one size.
    """
    blobs = _blobs(foreground(picture, Background(reference, None)), 1)
    return float(blobs[0].mean()) if blobs else 0.0


def _before(picture: Picture, background: Background) -> Mask:
    """[H, W], where a picture differs from the background's, outside its mask too."""
    lit = _relit(picture, background.picture, background.mask)
    return np.asarray(_difference(lit, background.picture) > _tolerance(background.picture))


def _blobs(marked: NDArray[np.bool_], least: int) -> list[Mask]:
    """Connected regions of at least ``least`` pixels after closing pinholes, largest first."""
    cleaned = cv2.morphologyEx(marked.astype(np.uint8), cv2.MORPH_OPEN, np.ones((2, 2), np.uint8))
    cleaned = cv2.morphologyEx(cleaned, cv2.MORPH_CLOSE, np.ones((5, 5), np.uint8))
    count, labels, stats, _ = cv2.connectedComponentsWithStats(cleaned, connectivity=8)
    order = sorted(range(1, count), key=lambda k: -int(stats[k, cv2.CC_STAT_AREA]))
    return [labels == k for k in order if stats[k, cv2.CC_STAT_AREA] >= least]


def _displacement(
    reference: Picture, live: Picture, region: Mask, search: int
) -> tuple[float, float, float, float] | None:
    """Where the reference's content of a region is in the live picture: (dx, dy, correlation there, correlation here).

    None when the content has no contrast, so that it would be found anywhere.
    """
    ys, xs = np.nonzero(region)
    top, bottom, left, right = ys.min(), ys.max() + 1, xs.min(), xs.max() + 1
    patch, inside = reference[top:bottom, left:right], region[top:bottom, left:right]
    if patch[inside].std(axis=0).max() < NOISE_LEVELS / 2:
        return None
    padded = cv2.copyMakeBorder(live, search, search, search, search, cv2.BORDER_REPLICATE)
    window = padded[top : bottom + 2 * search, left : right + 2 * search].astype(np.float32)
    weights = np.repeat(inside[..., None].astype(np.float32), 3, axis=2)
    scores = cv2.matchTemplate(window, patch.astype(np.float32), cv2.TM_CCOEFF_NORMED, mask=weights)
    scores = np.nan_to_num(scores, nan=-1.0, posinf=-1.0, neginf=-1.0)
    y, x = (int(v) for v in np.unravel_index(int(np.argmax(scores)), scores.shape))

    def vertex(before: float, at: float, after: float) -> float:
        curve = before - 2 * at + after
        return 0.5 * (before - after) / curve if curve < -1e-9 else 0.0

    fx = vertex(scores[y, x - 1], scores[y, x], scores[y, x + 1]) if 0 < x < scores.shape[1] - 1 else 0.0
    fy = vertex(scores[y - 1, x], scores[y, x], scores[y + 1, x]) if 0 < y < scores.shape[0] - 1 else 0.0
    return x + fx - search, y + fy - search, float(scores[y, x]), float(scores[search, search])


def locate_changes(
    live: Picture, at_pose: Sequence[Picture], background: Background
) -> tuple[Registration, list[Change]]:
    """What has moved: the camera (the motion of the background), and in its frame the arm and objects.

    Args:
        live: [H, W, 3] uint8 RGB.
        at_pose: Recorded pictures with the arm at the live joint state (see
            :func:`~lerobot_diagnostics.vision.references.nearest_states`), the best first, one an episode: several
            tell the arm (in all of them) from objects, and objects that lie elsewhere in every episode from moved ones.
        background: See :func:`background_of`.

    Returns:
        The motion of the background and the changes. Changes are given only when the camera stands where it stood: what
        a moved camera sees from another side differs everywhere.
    """
    if not at_pose:
        raise UsageError("no recorded picture at the live pose given.")
    reference = checked(at_pose[0], "reference")
    motion = Registrar(background.picture, background.mask).exact(live)
    height, width = reference.shape[:2]
    if not motion.found or _camera_moved(motion, width):
        return motion, []
    aligned, seen = to_reference(live, motion, width, height)
    seen &= aligned.max(axis=2) < CLIPPED  # what is clipped has lost the colour that could be compared
    aligned = _relit(aligned, reference, seen if background.mask is None else seen & background.mask)
    least = max(9, round(LEAST_AREA * width * height))
    still = _still_px(width)
    live_excess = _excess(aligned, reference)
    recorded = [_relit(p, reference, background.mask) for p in at_pose[1:]]
    excesses = [_excess(p, reference) for p in recorded]
    foregrounds = [_before(p, background) for p in at_pose]
    arm, explained = _arm_change(reference, aligned, foregrounds, live_excess, excesses, seen, least, still)
    others = [
        _object_changes(reference, p, excess, ~explained, explained, arm, least, still)
        for p, excess in zip(recorded, excesses, strict=True)
    ]
    varies = np.zeros((height, width), bool)  # where recorded pictures of this pose differ from each other
    for excess in excesses:
        varies |= (excess > 1) & ~explained
    near = round(NEAR * width)
    varies = cv2.dilate(varies.astype(np.uint8), np.ones((near, near), np.uint8)) > 0
    moved = _object_changes(reference, aligned, live_excess, seen & ~explained, explained, arm, least, still)
    changes = [pair[0] for pair in moved if not _as_recorded(*pair, [[c for c, _ in o] for o in others], varies, still)]
    return motion, ([arm] if arm else []) + changes


def _arm_change(
    reference: Picture,
    aligned: Picture,
    foregrounds: Sequence[Mask],
    live_excess: FloatMap,
    recorded_excesses: Sequence[FloatMap],
    seen: Mask,
    least: int,
    still: float,
) -> tuple[Change | None, Mask]:
    """Whether the arm appears elsewhere, and the mask of what the arm explains: where it was and where it is.

    As a whole: with its displacement. Parts of it (a joint at another angle than the encoder says): without.
    """
    height, width = reference.shape[:2]
    constant = np.mean(foregrounds, axis=0) >= 2.0 / 3.0
    arm = next(iter(_blobs(constant, least)), None)  # the largest thing that is there at this pose in every episode
    if arm is None:
        return None, np.zeros((height, width), bool)
    grown = cv2.dilate(arm.astype(np.uint8), np.ones((5, 5), np.uint8)) > 0
    explained = cv2.dilate(arm.astype(np.uint8), np.ones((9, 9), np.uint8)) > 0
    found = _displacement(reference, aligned, grown, round(SEARCH_ARM * width))
    if found is not None:
        dx, dy, there, here = found
        if np.hypot(dx, dy) > still and there >= LEAST_MATCH and there > here + 0.02:
            shift = np.array([[1, 0, dx], [0, 1, dy]], np.float64)
            explained |= cv2.warpAffine(explained.astype(np.uint8), shift, (width, height)) > 0
            return _change("arm", arm, dx, dy, there), explained
    visible = arm & seen
    if visible.sum() < LEAST_VISIBLE * arm.sum():
        return None, explained
    differs = float((live_excess > 1)[visible].mean())
    usual = max((float((excess > 1)[visible].mean()) for excess in recorded_excesses), default=0.0)
    if differs > max(ARM_DIFFERS, 2 * usual):
        return _change("arm", arm, np.nan, np.nan, 0.0), explained
    return None, explained


def _object_changes(
    reference: Picture,
    aligned: Picture,
    excess: FloatMap,
    seen: Mask,
    explained: Mask,
    arm: Change | None,
    least: int,
    still: float,
) -> list[tuple[Change, Mask]]:
    """What is not where the reference shows it, the arm apart; with the pixels that show it."""
    height, width = reference.shape[:2]
    different = (excess > 1) & seen
    near = 2 * round(NEAR * width) + 1
    arm_blobs = cv2.dilate(explained.astype(np.uint8), np.ones((near, near), np.uint8)) > 0
    blobs = [b for b in _blobs(different, least) if float(excess[b].mean()) >= FAINT]
    shades = [_same_shape(b, reference, aligned) for b in blobs]
    arrivals = different.copy()  # nothing has arrived where the same thing is seen in another shade
    for blob, shade in zip(blobs, shades, strict=True):
        arrivals &= ~(blob & shade)
    search = round(SEARCH_OBJECT * width)
    traced = [(_traced(b, reference, aligned, arrivals, search), b, s) for b, s in zip(blobs, shades, strict=True)]
    claimed = np.zeros((height, width), bool)
    changes: list[tuple[Change, Mask]] = []
    # The surest first: what lies where it was or where it has arrived is that same object, not another one.
    for change, blob, shade in sorted(traced, key=lambda one: -one[0].confidence * one[0].area_px ** 0.5):
        if (blob & claimed).sum() > 0.3 * blob.sum():
            continue
        if arm is not None and _of_the_arm(change, arm, bool((blob & arm_blobs).any())):
            continue
        if change.confidence == 0 and shade:
            continue
        if change.confidence == 0 or np.hypot(change.dx_px, change.dy_px) > still:
            changes.append((change, blob))
        if change.confidence > 0:
            claimed |= cv2.dilate((_shifted(blob, change) | blob).astype(np.uint8), np.ones((near, near), np.uint8)) > 0
    return changes


def _shifted(blob: Mask, change: Change) -> Mask:
    """Where a displaced blob has gone."""
    height, width = blob.shape
    shift = np.array([[1, 0, change.dx_px], [0, 1, change.dy_px]], np.float64)
    return np.asarray(cv2.warpAffine(blob.astype(np.uint8), shift, (width, height)) > 0)


def _same_shape(blob: Mask, reference: Picture, aligned: Picture) -> bool:
    """Whether a changed blob shows the same thing in another shade."""
    region = cv2.dilate(blob.astype(np.uint8), np.ones((9, 9), np.uint8)) > 0
    a, b = (p[region].astype(np.float64) - p[region].mean(axis=0) for p in (reference, aligned))
    scale = float(np.sqrt((a**2).sum() * (b**2).sum()))
    return scale > 0 and float((a * b).sum()) / scale >= SAME_SHAPE


def _as_recorded(change: Change, blob: Mask, others: Sequence[Sequence[Change]], varies: Mask, still: float) -> bool:
    """Whether the recordings themselves place this object as differently as the live picture does.

    Args:
        change, blob: From :func:`_object_changes`.
        others: What each further recorded picture shows elsewhere than the first.
        varies: Where the recorded pictures differ from each other, a little widened.
        still: Displacements below this mean nothing.
    """
    ends = [blob] if change.confidence == 0 else [blob, _shifted(blob, change)]
    if all(varies[end].mean() >= AGREE for end in ends if end.any()):
        return True
    if change.confidence == 0:
        return False
    near = NEAR * blob.shape[1]
    # A blob that covers both places of an object has its centre half-way. Of few places one more would widen the range
    # so far that nothing had moved.
    half_way = 0.5 if len(others) >= FEWEST_PLACES else 0.0
    moved = [
        (c.dx_px, c.dy_px)
        for episode in others
        for c in episode
        if c.confidence > 0
        and np.hypot(c.x_px - change.x_px, c.y_px - change.y_px) <= near + half_way * np.hypot(c.dx_px, c.dy_px)
    ]
    if not moved:
        return False
    places = np.array([(0.0, 0.0), *moved])
    margin = SPREAD_MARGIN * np.ptp(places, axis=0) / len(others) + still
    inside = (places.min(axis=0) - margin <= (change.dx_px, change.dy_px)) & (
        (change.dx_px, change.dy_px) <= places.max(axis=0) + margin
    )
    return bool(inside.all())


def _of_the_arm(change: Change, arm: Change, touches: bool) -> bool:
    """Whether a changed blob belongs to a displaced arm: it touches it, or has gone the same way.

    The base and the shoulder's foot never move in a recording, so they are background, not part of the arm's blob.
    """
    gone = float(
        np.hypot(change.dx_px - arm.dx_px, change.dy_px - arm.dy_px)
    )  # NaN, never less, without a displacement
    return touches or gone < 0.35 * float(np.hypot(arm.dx_px, arm.dy_px))


def _traced(blob: Mask, reference: Picture, aligned: Picture, arrivals: Mask, search: int) -> Change:
    """The displacement of what the reference shows in a blob; unknown when it is not found again.

    What has gone somewhere has changed the picture there too: a likeness where nothing has changed was there before.
    """
    grown = cv2.dilate(blob.astype(np.uint8), np.ones((5, 5), np.uint8)) > 0
    found = _displacement(reference, aligned, grown, search)
    unknown = _change("object", blob, np.nan, np.nan, 0.0)
    if found is None or found[2] < LEAST_MATCH or found[2] < found[3] + 0.1:
        return unknown
    change = _change("object", blob, *found[:3])
    arrived = _shifted(blob, change)
    changed = (arrived & (arrivals | blob)).sum()
    return change if changed >= ARRIVED * max(1, arrived.sum()) else unknown


def _still_px(width: int) -> float:
    return max(1.0, STILL_PX_OF_640 * width / 640.0)


def _camera_moved(motion: Registration, width: int) -> bool:
    shift = float(np.hypot(motion.dx_px, motion.dy_px))
    return shift > _still_px(width) or abs(motion.rotation_deg) > STILL_DEG or abs(motion.scale - 1) > STILL_ZOOM


def _change(kind: str, region: Mask, dx: float, dy: float, confidence: float) -> Change:
    ys, xs = np.nonzero(region)
    return Change(
        kind, float(xs.mean()), float(ys.mean()), float(dx), float(dy), int(region.sum()), min(float(confidence), 1.0)
    )


def direction(dx: float, dy: float) -> str:
    """A direction in the picture in words, of eight."""
    names = ("right", "down-right", "down", "down-left", "left", "up-left", "up", "up-right")
    return names[round(float(np.degrees(np.arctan2(dy, dx))) / 45) % 8]


def compare_workspace(
    live: Mapping[str, Picture],
    at_pose: Mapping[str, Sequence[Picture]],
    backgrounds: Mapping[str, Background],
) -> list[Finding]:
    """MOVED, BASE_MOVED and OBJECT_MOVED for every camera, ``pass`` where looked for and not found.

    An arm displaced in parts, not as a whole, is JOINT_OFFSET. Objects are displaced when they lie beyond the places
    that the recorded pictures show.

    Args:
        live: {camera: [H, W, 3] uint8 RGB}.
        at_pose: {camera: recorded pictures with the arm at the live joint state, the best first}.
        backgrounds: {camera: see :func:`background_of`}.
    """
    findings: list[Finding] = []
    for camera, picture in live.items():
        if backgrounds[camera].mask is None:
            summary = f"{camera} moves by itself: it cannot tell whether base or objects were moved"
            findings.append(Finding("OBJECT_MOVED", Status.UNKNOWN, Cause.WORKSPACE, camera, summary))
            continue
        motion, changes = locate_changes(checked(picture, camera), at_pose[camera], backgrounds[camera])
        findings += _findings(camera, motion, changes, backgrounds[camera].picture.shape[1])
    return findings


def _findings(camera: str, motion: Registration, changes: Sequence[Change], width: int) -> list[Finding]:
    if not motion.found:
        summary = f"{camera}: the recorded background is not in the picture, so nothing can be said about what moved"
        fix = "Check which view this camera shows first (lerobot-camera-guard)."
        return [Finding("MOVED", Status.UNKNOWN, Cause.CAMERAS, camera, summary, {}, fix)]
    shift = float(np.hypot(motion.dx_px, motion.dy_px))
    evidence = {
        "dx_px": motion.dx_px,
        "dy_px": motion.dy_px,
        "rotation_deg": motion.rotation_deg,
        "zoom": motion.scale,
        "confidence": motion.confidence,
    }
    if _camera_moved(motion, width):
        summary = (
            f"{camera} was moved: the background is {shift:.1f} px {direction(motion.dx_px, motion.dy_px)}, "
            f"turned {motion.rotation_deg:+.1f}°, zoom ×{motion.scale:.3f}"
        )
        fix = f"Turn {camera} until its picture moves {shift:.0f} px {direction(-motion.dx_px, -motion.dy_px)}."
        later = f"{camera}: base and objects are judged once the camera stands where it stood"
        return [
            Finding("MOVED", Status.WARN, Cause.CAMERAS, camera, summary, evidence, fix),
            Finding("BASE_MOVED", Status.UNKNOWN, Cause.WORKSPACE, camera, later),
            Finding("OBJECT_MOVED", Status.UNKNOWN, Cause.WORKSPACE, camera, later),
        ]
    summary = f"{camera} stands where it stood (background within {shift:.1f} px)"
    findings = [Finding("MOVED", Status.PASS, Cause.CAMERAS, camera, summary, evidence)]
    for kind, code in (("arm", "BASE_MOVED"), ("object", "OBJECT_MOVED")):
        mine = [c for c in changes if c.kind == kind]
        if not mine:
            text = f"{camera}: {'the arm appears where it did' if kind == 'arm' else 'no object is displaced'}"
            findings.append(Finding(code, Status.PASS, Cause.WORKSPACE, camera, text))
        for c in mine:
            cause = Cause.WORKSPACE
            where = f"at ({c.x_px:.0f}, {c.y_px:.0f})"
            known = c.confidence > 0
            size = float(np.hypot(c.dx_px, c.dy_px)) if known else np.nan
            if kind == "arm" and not known:
                code, cause = "JOINT_OFFSET", Cause.CALIBRATION
                text = (
                    f"{camera}: parts of the arm appear elsewhere at this joint state, not the arm as a whole: "
                    "a joint's zero has moved"
                )
                fix = "Compare today's calibration with the one recorded with; recalibrate the joint that differs."
            elif kind == "arm":
                back = direction(-c.dx_px, -c.dy_px)
                text = (
                    f"{camera}: the arm appears {size:.1f} px {direction(c.dx_px, c.dy_px)} "
                    "of where it was at this joint state"
                )
                fix = f"Move the arm's base so that it appears {size:.0f} px {back}, or check the calibration."
            elif not known:
                text = f"{camera}: something {where} is gone, new or looks different"
                fix = f"Compare the live view with the recorded one {where}."
            else:
                text = f"{camera}: an object {where} has moved {size:.1f} px {direction(c.dx_px, c.dy_px)}"
                fix = f"Move it {size:.0f} px {direction(-c.dx_px, -c.dy_px)} in {camera}'s view."
            details = {"x_px": c.x_px, "y_px": c.y_px, "area_px": c.area_px}
            if known:
                details |= {"dx_px": c.dx_px, "dy_px": c.dy_px, "shift_px": size, "confidence": c.confidence}
            findings.append(Finding(code, Status.WARN, cause, camera, text, details, fix))
    return findings
