"""Compare live pictures with reference views: which camera is which, and what has happened to it.

Order of the checks, so that one fault is not called another: is there a picture at all (MISSING_CAMERA, DEAD, FROZEN) →
its shape (RESOLUTION) → which view, in which orientation, as an assignment over all cameras (SWAPPED, UNKNOWN_VIEW,
UNDECIDED, ROTATED, MIRRORED) → and only for a camera whose view is known: the channel order (CHANNELS), the light
(LIGHTING), the geometry (MOVED, FRAMING).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from lerobot_diagnostics.camera_names import camera_key
from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Cause, Finding, FindingsOf, Status
from lerobot_diagnostics.vision.colour import ChannelOrder
from lerobot_diagnostics.vision.identity import ORIENTATIONS, SIDE, Identifier, Scores, describe, undone
from lerobot_diagnostics.vision.images import Picture, checked, shrink
from lerobot_diagnostics.vision.lighting import Lighting, estimate_lighting
from lerobot_diagnostics.vision.references import ReferenceViews, is_dead, nearest_states
from lerobot_diagnostics.vision.registration import NO_FIT, Registrar, Registration
from lerobot_diagnostics.vision.workspace import direction

_finding = FindingsOf(Cause.CAMERAS)

Live = Mapping[str, Picture | Sequence[Picture]]
"""{camera: one picture [H, W, 3] uint8 RGB, or several of them, oldest first}."""

# Thresholds on the scores of identity.py (`total` = fit + likeness, near 2 for a recorded view and 0 for another one).
# Evidence: benchmarks/vision.py, every episode scored by references of the other episodes.
MIN_MARGIN = 0.4
"""Of `total`, summed over the cameras that trade places. The least of all single frames: third-person cameras 1.79, and
1.48 under light, motion and noise together (450 pairs each); twin wrist cameras 0.94 and 0.75 (42 pairs each)."""
KNOWN_TOTAL = 0.9
KNOWN_LIKENESS = 0.33
STRANGE_LIKENESS = 0.30
"""1341 pictures of other data sets: likeness at most 0.32, total at most 1.02, never both above KNOWN_*. Recorded views
of held-out episodes: likeness 0.43 and total 1.04 at least; under light, motion and noise together 0.40 and 0.89."""
TURNED_MARGIN = 0.5
TURNED_DOUBT = -0.15
"""`total` of the best other orientation minus the upright one. Upright pictures of held-out episodes: at most −0.10 and
99 % below −0.15; under light, motion and noise together at most +0.02."""
CHANNELS_SURE = 0.4
CHANNELS_DOUBT = 0.1
"""ChannelOrder.score of held-out episodes: 0.26 at least, median 0.9; exchanged it is the negative of that."""
LIGHT_EXPOSURE = 0.2
LIGHT_BALANCE = 0.12
"""Relative. Between episodes of one recording exposure differs by up to 13 %, white balance by up to 8 %."""
MOVED_SHARE = 0.0075
MOVED_DEG = 0.4
MOVED_ZOOM = 0.01
"""Least motion reported: 0.75 % of the width (5 px of 640), 0.4°, 1 %. Others report a noise floor at the same pose of
3 px of 640, 0.2° and 0.4 %; a camera that stands still (so101_sim_2cam) measures 0.12 % in 95 % of the frames."""
STEADY_SHARE = 0.01
"""A camera whose pictures move by more than this share of the width within an episode moves by itself (wrist, head)."""


@dataclass(frozen=True)
class _Identity:
    """What one live camera shows: the recorded camera (None: cannot tell), and what else was nearly as good."""

    camera: str | None
    rival: str | None
    margin: float
    needed: float
    orientation: int
    turned_margin: float
    total: float
    likeness: float


class Comparer:
    """Reference views prepared for many comparisons; about a second per camera to build, a few ms to use.

    Args:
        references: See :class:`~lerobot_diagnostics.vision.references.ReferenceViews`.
        source: What they were taken from, in a word, for the findings.
    """

    def __init__(self, references: ReferenceViews, source: str = "recording") -> None:
        self.references = references
        self.source = source
        recorded = source == "recording"
        self._then = "recorded" if recorded else f"in the {source}"
        self._go_there = f"Bring the arm to {'the recorded start pose' if recorded else f'its pose in the {source}'}"
        self._aligns = recorded  # lerobot-rollout --strategy.type=align lays recordings over the live views
        cameras = references.cameras
        self.names = tuple(cameras)
        self.identifier = Identifier(
            {name: views.thumbs for name, views in cameras.items()},
            {name: views.thumb_episodes for name, views in cameras.items()},
        )
        self.channels = {name: ChannelOrder(views.thumbs) for name, views in cameras.items()}
        self._view_vectors = {name: np.stack([describe(v) for v in views.views]) for name, views in cameras.items()}
        self._registrars: dict[tuple[str, int], Registrar] = {}

    # ---- what the references themselves allow

    @cached_property
    def pair_margins(self) -> dict[tuple[str, str], tuple[float, int]]:
        """For each pair of cameras: 1st percentile of the margin between right and exchanged, one episode held out,
        and how
        many frames that rests on. Empty with one camera or one episode."""
        held_out = self.identifier.held_out()
        result = {}
        for i, a in enumerate(self.names):
            for j in range(i + 1, len(self.names)):
                b = self.names[j]
                margins = [
                    float(sa.total[0, i] - sa.total[0, j] + sb.total[0, j] - sb.total[0, i])
                    for scores in held_out.values()
                    for sa, sb in zip(scores[a], scores[b], strict=False)
                ]
                if margins:
                    result[a, b] = (float(np.percentile(margins, 1)), len(margins))
        return result

    def _needed(self, a: str, b: str) -> float:
        """The margin asked for between two cameras: more when the recording shows that frames err the other way."""
        low = min(
            (self.pair_margins.get(pair, (0.0, 0))[0] for pair in ((a, b), (b, a)) if pair in self.pair_margins),
            default=0.0,
        )
        return MIN_MARGIN + max(0.0, -low)

    def self_test(self) -> list[Finding]:
        """Can the recorded cameras be told apart at all? One finding a pair, or one saying that it cannot be tested."""
        if len(self.names) < 2:
            return [
                _finding(
                    "UNDECIDED", Status.PASS, self.names[0], "only one camera recorded: nothing to exchange it with"
                )
            ]
        findings = []
        for i, a in enumerate(self.names):
            for b in self.names[i + 1 :]:
                subject = f"{a}, {b}"
                if (a, b) not in self.pair_margins:
                    findings.append(
                        _finding(
                            "UNDECIDED",
                            Status.UNKNOWN,
                            subject,
                            f"{a} and {b} come from one episode only: cannot test whether they can be told apart",
                            fix="Build the reference views from at least two episodes.",
                        )
                    )
                    continue
                low, count = self.pair_margins[a, b]
                evidence = {"margin_1st_percentile": low, "margin_needed": MIN_MARGIN, "frames": count}
                if low >= MIN_MARGIN:
                    summary = f"{a} and {b} can be told apart (margin {low:.2f}, needed {MIN_MARGIN})"
                    findings.append(_finding("UNDECIDED", Status.PASS, subject, summary, evidence))
                else:
                    summary = (
                        f"{a} and {b} are near-twins (margin {low:.2f}, needed {MIN_MARGIN}): some swaps stay undecided"
                    )
                    fix = f"Put tape at the edge of {a}'s or {b}'s view, or cover one and see which darkens."
                    findings.append(_finding("UNDECIDED", Status.WARN, subject, summary, evidence, fix))
        return findings

    @cached_property
    def steady(self) -> dict[str, bool | None]:
        """Whether a camera stands still while the arm moves; None when the references do not show it."""
        result: dict[str, bool | None] = {}
        for name, views in self.references.cameras.items():
            width, height = views.views[0].shape[1::-1]
            moved = []
            for number in sorted(set(views.view_episodes)):
                mine = [k for k, e in enumerate(views.view_episodes) if e == number]
                for k in mine[1:]:
                    motion = self._registrar(name, mine[0]).fast(views.views[k])
                    moved.append(motion.displacement_px(width, height) / width if motion.found else np.inf)
            # Identical pictures say nothing: the arm was not moving either.
            result[name] = None if not moved else bool(np.median(moved) <= STEADY_SHARE)
        return result

    def _registrar(self, camera: str, view: int) -> Registrar:
        key = (camera, view)
        if key not in self._registrars:
            self._registrars[key] = Registrar(self.references.cameras[camera].views[view])
        return self._registrars[key]

    # ---- the comparison

    def compare(
        self,
        live: Live,
        *,
        state: NDArray[np.floating] | None = None,
        geometry: bool = True,
        light: bool = True,
        moving: bool | None = None,
    ) -> list[Finding]:
        """What each live camera shows, against the reference views.

        Args:
            live: {camera: picture or pictures, oldest first}. One is enough; several decide more and show FROZEN.
            state: [D] arm state at the (last) pictures, in the units of the reference states: geometry is then
                judged against
                the reference at the nearest pose, which a camera on the arm needs.
            geometry: Also measure motion (about 5 ms a camera more).
            light: Also measure exposure and white balance (about 1.5 ms a camera more).
            moving: Whether the arm moved while several pictures were taken; None when not known.

        Returns:
            Findings for every recorded camera, at least one each; ``pass`` findings name what was checked.

        Raises:
            UsageError: On pictures of a wrong type, or no live camera at all.
        """
        if not live:
            raise UsageError("no live pictures given.", "Check --robot.cameras.")
        pictures = {name: _sequence(name, value) for name, value in live.items()}
        thumbs = {name: [shrink(p, SIDE, SIDE) for p in sequence] for name, sequence in pictures.items()}
        findings: list[Finding] = []
        alive: dict[str, list[Picture]] = {}
        for name in (*self.names, *(n for n in pictures if n not in self.names)):
            if name not in pictures:
                continue
            dead = sum(is_dead(p) for p in thumbs[name])
            if not dead:
                alive[name] = pictures[name]
            elif name in self.names:
                findings.append(_dead(name, dead, len(pictures[name])))
        findings += self.frozen(alive, moving)
        identities = self._identify(alive, thumbs)
        for name in self.names:
            if name not in pictures:
                findings.append(self._missing(name, identities))
            elif name in alive:
                findings += self._judge(name, pictures[name][-1], thumbs[name], identities, state, geometry, light)
        return findings

    def frozen(self, pictures: Mapping[str, Sequence[Picture]], moving: bool | None) -> list[Finding]:
        """Exact repeats. A sensor's noise never repeats; a simulator's still picture does, so something must have
        moved."""
        several = {name: p for name, p in pictures.items() if len(p) >= 3}
        still = {name for name, p in several.items() if all(np.array_equal(p[0], q) for q in p[1:])}
        changed = moving is True or (moving is None and len(still) < len(several))
        findings = []
        for name in self.names:
            if name not in several:
                continue
            count = len(several[name])
            if name not in still:
                findings.append(_finding("FROZEN", Status.PASS, name, f"{name}: {count} pictures, they change"))
            elif changed:
                why = "the arm moved" if moving else "other cameras' pictures changed"
                summary = f"{name} is frozen: {count} identical pictures while {why}"
                fix = f"Unplug {name} and plug it in again; give each camera its own USB port."
                findings.append(_finding("FROZEN", Status.FAIL, name, summary, {"identical_pictures": count}, fix))
            else:
                summary = f"{name}: {count} identical pictures, but nothing is known to have moved meanwhile"
                fix = "Move the arm or a hand in view and check again."
                findings.append(_finding("FROZEN", Status.UNKNOWN, name, summary, {"identical_pictures": count}, fix))
        return findings

    def _scores(self, camera: str, pictures: Sequence[Picture], thumbs: Sequence[Picture]) -> Scores:
        """Scores averaged over the pictures, under the framing (see :func:`_framings`) that fits best."""
        best: Scores | None = None
        reference = self.references.cameras.get(camera) or next(iter(self.references.cameras.values()))
        aspect = reference.size[0] / reference.size[1]
        others = zip(*(_framings(p, aspect) for p in pictures), strict=True)
        for framing in (thumbs, *others):
            each = [self.identifier.scores(p) for p in framing]
            mean = Scores(np.mean([s.fit for s in each], axis=0), np.mean([s.likeness for s in each], axis=0))
            if best is None or mean.total.max() > best.total.max():
                best = mean
        assert best is not None
        return best

    def _identify(
        self, alive: Mapping[str, Sequence[Picture]], thumbs: Mapping[str, Sequence[Picture]]
    ) -> dict[str, _Identity]:
        """Assign live cameras to recorded ones, jointly."""
        rows = list(alive)
        if not rows:
            return {}
        scores = {name: self._scores(name, alive[name], thumbs[name]) for name in rows}
        # How each live picture lies, judged over all cameras together: a turn must win clearly to be believed.
        orientation: dict[str, int] = {}
        turned_margin: dict[str, float] = {}
        for name in rows:
            best = scores[name].total.max(axis=1)
            other = 1 + int(np.argmax(best[1:]))
            turned_margin[name] = float(best[other] - best[0])
            orientation[name] = other if turned_margin[name] >= TURNED_MARGIN else 0
        matrix = np.stack([scores[name].total[orientation[name]] for name in rows])
        chosen, value = _assignment(matrix)
        result = {}
        for i, name in enumerate(rows):
            j = chosen[i]
            if j is None:  # more live cameras than recorded ones
                result[name] = _Identity(None, None, 0.0, 0.0, 0, 0.0, 0.0, 0.0)
                continue
            rival_assignment, rival_value = _assignment(matrix, forbidden=(i, j))
            rival = rival_assignment[i]
            margin = value - rival_value if np.isfinite(rival_value) else np.inf
            needed = self._needed(self.names[j], self.names[rival]) if rival is not None else MIN_MARGIN
            result[name] = _Identity(
                camera=self.names[j] if margin >= needed else None,
                rival=None if rival is None else self.names[rival],
                margin=float(margin),
                needed=needed,
                orientation=orientation[name],
                turned_margin=turned_margin[name],
                total=float(matrix[i, j]),
                likeness=float(scores[name].likeness[orientation[name], j]),
            )
        return result

    def _missing(self, name: str, identities: Mapping[str, _Identity]) -> Finding:
        shows = [live for live, identity in identities.items() if identity.camera == name and _known(identity)]
        if shows:
            fix = (
                "Rename it in --robot.cameras, or "
                f'--rename_map=\'{{"observation.images.{shows[0]}": "observation.images.{name}"}}\'.'
            )
            return _finding(
                "MISSING_CAMERA", Status.FAIL, name, f"{name} is missing; camera {shows[0]} shows its view", fix=fix
            )
        return _finding(
            "MISSING_CAMERA",
            Status.FAIL,
            name,
            f"{name} is missing: no live camera has that name",
            fix="Add it to --robot.cameras.",
        )

    def _judge(
        self,
        name: str,
        picture: Picture,
        thumbs: Sequence[Picture],
        identities: Mapping[str, _Identity],
        state: NDArray[np.floating] | None,
        geometry: bool,
        light: bool,
    ) -> list[Finding]:
        identity = identities[name]
        findings = [
            _finding("DEAD", Status.PASS, name, f"{name} delivers pictures"),
            self._resolution(name, picture),
        ]
        evidence = {
            "shows": identity.camera,
            "rival": identity.rival,
            "margin": identity.margin,
            "margin_needed": identity.needed,
            "score": identity.total,
            "likeness": identity.likeness,
            "pictures": len(thumbs),
        }
        if identity.likeness < STRANGE_LIKENESS:
            summary = (
                f"{name} shows none of the {self.source}'s views (likeness {identity.likeness:.2f}, those have "
                f"{KNOWN_LIKENESS} or more)"
            )
            fix = (
                f"Look at {name}'s picture: wrong device, moved far, or covered? lerobot-find-cameras shows every "
                "camera."
            )
            return [*findings, _finding("UNKNOWN_VIEW", Status.FAIL, name, summary, evidence, fix)]
        if identity.camera is None or not _known(identity):
            if identity.camera is None and identity.rival is not None:
                other = "another camera" if identity.rival == name else identity.rival
                summary = (
                    f"{name}: cannot tell whether it shows its own view or that of {other} "
                    f"(margin {identity.margin:.2f}, needed {identity.needed:.2f})"
                )
            else:
                summary = (
                    f"{name}: the picture is not clear enough to say which of the {self.source}'s views it shows "
                    f"(score {identity.total:.2f}, needed {KNOWN_TOTAL})"
                )
            fix = f"{self._go_there} and check again, or cover one camera and see which darkens."
            return [*findings, _finding("UNDECIDED", Status.UNKNOWN, name, summary, evidence, fix)]
        if identity.camera != name:
            summary = (
                f"{name} shows what {identity.camera} showed in the {self.source} (margin {identity.margin:.2f}, "
                f"needed {identity.needed:.2f})"
            )
            inverse = identities.get(identity.camera)
            fix = swap_fix(
                name, identity.camera, mutual=inverse is not None and inverse.camera == name and _known(inverse)
            )
            findings.append(_finding("SWAPPED", Status.FAIL, name, summary, evidence, fix))
        else:
            summary = (
                f"{name} shows the view of that name in the {self.source} (margin {min(identity.margin, 9.99):.2f})"
            )
            findings.append(_finding("SWAPPED", Status.PASS, name, summary, evidence))
        findings.append(self._orientation(name, identity))
        upright = [undone(p, identity.orientation) for p in thumbs]
        findings.append(self._channel_order(name, identity.camera, upright))
        if light:
            findings.append(self._lighting(name, identity.camera, upright[-1]))
        if geometry and identity.camera == name and not identity.orientation:
            findings.append(self._geometry(name, picture, state))
        return findings

    def _resolution(self, name: str, picture: Picture) -> Finding:
        height, width = picture.shape[:2]
        recorded_width, recorded_height = self.references.cameras[name].size
        evidence = {
            "width_px": width,
            "height_px": height,
            "recorded_width_px": recorded_width,
            "recorded_height_px": recorded_height,
        }
        if (width, height) == (recorded_width, recorded_height):
            return _finding("RESOLUTION", Status.PASS, name, f"{name} is {width}x{height} as {self._then}", evidence)
        fix = f"Set width: {recorded_width}, height: {recorded_height} for {name} in --robot.cameras."
        shape = "" if abs(width / height - recorded_width / recorded_height) < 0.02 else ", another shape"
        summary = f"{name} is {width}x{height}, in the {self.source} {recorded_width}x{recorded_height}{shape}"
        return _finding("RESOLUTION", Status.WARN, name, summary, evidence, fix)

    def _orientation(self, name: str, identity: _Identity) -> Finding:
        code = "MIRRORED" if identity.orientation >= 4 else "ROTATED"
        evidence = {
            "margin": identity.turned_margin,
            "margin_needed": TURNED_MARGIN,
            "orientation": ORIENTATIONS[identity.orientation],
        }
        if identity.orientation:
            how = ORIENTATIONS[identity.orientation]
            fix = (
                f"Set `rotation` for {name} in --robot.cameras, or turn the camera back."
                if code == "ROTATED"
                else f"Switch off mirroring in {name}'s driver or capture software."
            )
            return _finding(code, Status.FAIL, name, f"{name}'s picture is {how}", evidence, fix)
        if identity.turned_margin > TURNED_DOUBT:
            summary = f"{name}: cannot tell whether its picture is upright (margin {-identity.turned_margin:.2f})"
            fix = f"Look at {name}'s picture beside that of the {self.source}."
            return _finding("ROTATED", Status.UNKNOWN, name, summary, evidence, fix)
        return _finding("ROTATED", Status.PASS, name, f"{name}'s picture is neither turned nor mirrored", evidence)

    def _channel_order(self, name: str, camera: str, pictures: Sequence[Picture]) -> Finding:
        score = float(np.mean([self.channels[camera].score(p) for p in pictures]))
        evidence = {"score": score, "score_needed": CHANNELS_SURE}
        if score <= -CHANNELS_SURE:
            fix = (
                f"Set `color_mode: rgb` for {name} in --robot.cameras (a ZMQ camera delivers BGR whatever it is set "
                "to)."
            )
            return _finding(
                "CHANNELS", Status.FAIL, name, f"{name}: red and blue are exchanged (score {score:.2f})", evidence, fix
            )
        if score < CHANNELS_DOUBT:
            summary = f"{name}: too little colour to tell the order of the channels (score {score:.2f})"
            return _finding(
                "CHANNELS", Status.UNKNOWN, name, summary, evidence, f"Look at {name}'s picture: are the colours right?"
            )
        summary = f"{name}: channels in the order of the {self.source} (score {score:.2f})"
        return _finding("CHANNELS", Status.PASS, name, summary, evidence)

    def _lighting(self, name: str, camera: str, picture: Picture) -> Finding:
        light = self.lighting(camera, picture)
        evidence = {
            "exposure_ratio": light.exposure,
            "red_ratio": light.red,
            "blue_ratio": light.blue,
            "clipped_share": light.clipped,
        }
        what = []
        if not 1 - LIGHT_EXPOSURE <= light.exposure <= 1 / (1 - LIGHT_EXPOSURE):
            what.append(f"{abs(light.exposure - 1):.0%} {'brighter' if light.exposure > 1 else 'darker'}")
        for ratio, colour in ((light.red, "red"), (light.blue, "blue")):
            if not 1 - LIGHT_BALANCE <= ratio <= 1 / (1 - LIGHT_BALANCE):
                what.append(f"{abs(ratio - 1):.0%} {'more' if ratio > 1 else 'less'} {colour}")
        if not what:
            summary = (
                f"{name}: light as {self._then} (exposure ×{light.exposure:.2f}, red ×{light.red:.2f}, blue "
                f"×{light.blue:.2f})"
            )
            return _finding("LIGHTING", Status.PASS, name, summary, evidence, cause=Cause.LIGHTING)
        fix = f"Restore the light, or lock {name}'s exposure and white balance to the look of the {self.source}."
        summary = f"{name} is {', '.join(what)} than {self._then}"
        return _finding("LIGHTING", Status.WARN, name, summary, evidence, fix, cause=Cause.LIGHTING)

    def lighting(self, camera: str, picture: Picture) -> Lighting:
        """The change of light against the most alike references: the smallest change among the three nearest."""
        thumbs = self.references.cameras[camera].thumbs
        nearest = self.identifier.nearest(camera, picture, 3)
        estimates = [estimate_lighting(picture, thumbs[k]) for k in nearest]
        return min(estimates, key=lambda e: abs(np.log(e.exposure)) + abs(np.log(e.red)) + abs(np.log(e.blue)))

    def motion(
        self, camera: str, picture: Picture, state: NDArray[np.floating] | None = None
    ) -> tuple[Registration, int]:
        """The smallest confident motion against the reference views (the camera stands as in at least one recorded
        episode).

        With a state: against the views at the nearest poses. Returns the motion in pixels of the view, and which view;
        :data:`NO_FIT` and −1 when none fits.
        """
        views = self.references.cameras[camera]
        width, height = views.views[0].shape[1::-1]
        small = shrink(picture, width, height)
        if state is not None and views.view_states.shape[1]:
            order = nearest_states(views.view_states, state, 3)[0].tolist()
        else:
            order = np.argsort(-(self._view_vectors[camera] @ describe(small)), kind="stable")[:3].tolist()
        best: tuple[Registration, int] = (NO_FIT, -1)
        for k in order:
            found = self._registrar(camera, k).fast(small)
            if not found.found:
                continue
            size = found.displacement_px(width, height)
            if not best[0].found or size < best[0].displacement_px(width, height):
                best = (found, k)
            if size <= MOVED_SHARE * width / 2:
                break
        return best

    def _geometry(self, name: str, picture: Picture, state: NDArray[np.floating] | None) -> Finding:
        views = self.references.cameras[name]
        height, width = picture.shape[:2]
        if abs(width / height - views.size[0] / views.size[1]) > 0.02 * views.size[0] / views.size[1]:
            summary = f"{name} has another shape than {self._then}: its field of view differs"
            fix = f"Set width: {views.size[0]}, height: {views.size[1]} for {name} in --robot.cameras."
            return _finding("FRAMING", Status.WARN, name, summary, {}, fix)
        steady = self.steady[name]
        if not steady and state is None:
            why = "moves by itself" if steady is False else "may move by itself (one reference picture an episode)"
            summary = (
                f"{name} {why}: whether it was knocked shows only with the arm where it stood in the {self.source}"
            )
            fix = f"{self._go_there}{' (lerobot-rollout --strategy.type=align)' if self._aligns else ''}."
            return _finding("MOVED", Status.UNKNOWN, name, summary, {}, fix)
        motion, view = self.motion(name, picture, state)
        if not motion.found:
            summary = (
                f"{name}: no picture of the {self.source} can be laid over the live one: its position is not known"
            )
            return _finding("MOVED", Status.UNKNOWN, name, summary, {}, f"{self._go_there} and check again.")
        scale = views.size[0] / views.views[0].shape[1]  # from view pixels to recorded pixels
        dx, dy = motion.dx_px * scale, motion.dy_px * scale
        shift = float(np.hypot(dx, dy))
        evidence = {
            "dx_px": dx,
            "dy_px": dy,
            "shift_px": shift,
            "rotation_deg": motion.rotation_deg,
            "zoom": motion.scale,
            "confidence": motion.confidence,
            "reference_episode": views.view_episodes[view],
            "width_px": views.size[0],
        }
        limit = MOVED_SHARE * views.size[0]
        zoomed = abs(motion.scale - 1) > MOVED_ZOOM
        if shift <= limit and abs(motion.rotation_deg) <= MOVED_DEG and not zoomed:
            return _finding(
                "MOVED", Status.PASS, name, f"{name} stands where it stood (within {shift:.1f} px)", evidence
            )
        amount = (
            f"{shift:.1f} px {direction(dx, dy)}, {abs(motion.rotation_deg):.1f}° "
            f"{'clockwise' if motion.rotation_deg > 0 else 'counter-clockwise'}, zoom ×{motion.scale:.3f}"
        )
        if abs(motion.scale - 1) > 0.03 and shift <= 0.02 * views.size[0] and abs(motion.rotation_deg) <= 1.0:
            summary = (
                f"{name} frames the scene {abs(motion.scale - 1):.0%} "
                f"{'tighter' if motion.scale > 1 else 'wider'} than {self._then}"
            )
            fix = (
                f"Undo a crop, digital zoom or lens change of {name}, or move it "
                f"{'back' if motion.scale > 1 else 'closer'}."
            )
            return _finding("FRAMING", Status.WARN, name, summary, evidence, fix)
        fix = f"Turn {name} so that its picture moves {direction(-dx, -dy)} by {shift:.0f} px"
        fix += "; lerobot-rollout --strategy.type=align shows it live." if self._aligns else "."
        return _finding("MOVED", Status.WARN, name, f"{name}: the picture has moved {amount}", evidence, fix)


def swap_fix(name: str, shows: str, *, mutual: bool) -> str:
    """How to mend that ``name`` shows the view recorded as ``shows``.

    Args:
        name: The live camera.
        shows: The recorded one.
        mutual: Whether the live camera ``shows`` shows the view of ``name`` in turn: then both flags are named.
    """
    if not mutual:
        return f"Give {shows} the device that {name} has now, in --robot.cameras."
    a, b = (camera_key(name), camera_key(shows))
    mapping = json.dumps({a: b, b: a})
    return (
        f"Exchange the devices of {name} and {shows} in --robot.cameras, or pass --rename_map='{mapping}' "
        "(if you pass a --rename_map already, exchange those two targets in it)."
    )


def compare_views(live: Live, reference: Mapping[str, Sequence[Picture]] | ReferenceViews) -> list[Finding]:
    """Which recorded camera each live camera shows, and what has changed; see :meth:`Comparer.compare`.

    Args:
        live: {camera: [H, W, 3] uint8 RGB, or several, oldest first}.
        reference: {camera: list of [H, W, 3] uint8 RGB} from the recording, or prepared :class:`ReferenceViews`.
            With plain
            lists every picture counts as an episode of its own.

    Raises:
        UsageError: See :meth:`Comparer.compare` and :meth:`ReferenceViews.build`.
    """
    if not isinstance(reference, ReferenceViews):
        reference = ReferenceViews(
            {
                name: ReferenceViews.build({name: pictures}, episodes=list(range(len(pictures)))).cameras[name]
                for name, pictures in reference.items()
            }
        )
    return Comparer(reference).compare(live)


def _sequence(name: str, value: Picture | Sequence[Picture]) -> list[Picture]:
    pictures = [value] if isinstance(value, np.ndarray) and value.ndim == 3 else list(value)
    if not pictures:
        raise UsageError(f"camera {name}: no picture given.")
    return [checked(p, f"picture of {name}") for p in pictures]


def _framings(picture: Picture, aspect: float) -> list[Picture]:
    """Nothing, or when the picture's shape differs, the picture cropped and padded to the recorded aspect ratio.

    A camera that changes from 4:3 to 16:9 scales, crops or widens; which one it did shows in the scores.
    """
    height, width = picture.shape[:2]
    if abs(width / height - aspect) <= 0.02 * aspect:
        return []
    if width / height > aspect:
        inner, full = round(height * aspect), round(width / aspect)
        left, top = (width - inner) // 2, (full - height) // 2
        cropped = picture[:, left : left + inner]
        padded = np.pad(picture, ((top, full - height - top), (0, 0), (0, 0)), mode="edge")
    else:
        inner, full = round(width / aspect), round(height * aspect)
        top, left = (height - inner) // 2, (full - width) // 2
        cropped = picture[top : top + inner]
        padded = np.pad(picture, ((0, 0), (left, full - width - left), (0, 0)), mode="edge")
    return [np.ascontiguousarray(cropped), padded]


def _assignment(
    matrix: NDArray[np.floating], forbidden: tuple[int, int] | None = None
) -> tuple[list[int | None], float]:
    """Best one-to-one assignment of rows to columns and its sum; −inf when the forbidden edge leaves none."""
    barrier = -1e6
    costs = np.array(matrix, float)
    if forbidden is not None:
        costs[forbidden] = barrier
    rows, columns = linear_sum_assignment(costs, maximize=True)
    chosen: list[int | None] = [None] * len(costs)
    for row, column in zip(rows, columns, strict=True):
        chosen[int(row)] = int(column)
    value = float(costs[rows, columns].sum())
    return chosen, value if value > barrier / 2 else -np.inf


def _known(identity: _Identity) -> bool:
    return identity.total >= KNOWN_TOTAL and identity.likeness >= KNOWN_LIKENESS


def _dead(name: str, dead: int, count: int) -> Finding:
    summary = (
        f"{name} is black or shows no picture" if dead == count else f"{name}: {dead} of {count} pictures are black"
    )
    fix = f"Take off the lens cap, check {name}'s cable and that no other program holds it."
    return _finding("DEAD", Status.FAIL, name, summary, {"dead_pictures": dead, "pictures": count}, fix)
