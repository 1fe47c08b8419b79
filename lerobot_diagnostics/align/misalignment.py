"""How far one camera's view is from the recorded one, whether that is near enough, and what to do about it in words.

Directions are those of the picture: the camera is to be slid towards where its picture's content has gone, because
content runs the other way round: a camera that was pushed to the left shows everything farther to the right.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lerobot_diagnostics.findings import Cause, Finding, Status
from lerobot_diagnostics.vision.lighting import Lighting
from lerobot_diagnostics.vision.registration import Registration
from lerobot_diagnostics.vision.views import LIGHT_BALANCE, LIGHT_EXPOSURE
from lerobot_diagnostics.vision.workspace import STILL_DEG, STILL_PX_OF_640, STILL_ZOOM, Change

LEAST_SHOWN_PX, LEAST_SHOWN_DEG, LEAST_SHOWN_ZOOM = 0.5, 0.1, 0.002
"""Parts of a correction below these are not worth a word: the fast registration's own scatter."""

LEAST_UNEXPLAINED = 0.0025
"""Share of the picture that something new or gone must cover to count. Measured by re-encoding as JPEG what the
reference shows (quality 75 to 95, also with exchanged channels as LeRobot's ZMQ server does): 97 % of the differences
in 40 drawn scenes are below 0.22 %, and all but one of 20 episodes of three real recordings show none at all."""


@dataclass(frozen=True)
class Tolerance:
    """The target band. Inside it a view counts as put back.

    The defaults are the noise floor that others report for a camera nobody touched, at the same arm pose
    (:mod:`lerobot_diagnostics.vision.workspace`), and for the light what episodes of one recording differ by.

    Args:
        shift_px: Of the camera and of base and objects, for a picture 640 wide; scaled with the width.
        rotation_deg: Of the camera about its axis.
        zoom: Relative.
        light: Relative, exposure.
        pose: Largest difference of a joint from the recorded start, in its own unit. STS3215 servos stand 2–3° off
            their goal, and so they did in the recording.
    """

    shift_px: float = STILL_PX_OF_640
    rotation_deg: float = STILL_DEG
    zoom: float = STILL_ZOOM
    light: float = LIGHT_EXPOSURE
    pose: float = 6.0

    def shift_for(self, width: int) -> float:
        """Pixels allowed in a picture ``width`` wide."""
        return self.shift_px * width / 640.0


@dataclass(frozen=True)
class Misalignment:
    """One camera against the reference.

    Args:
        camera: The camera's name.
        width, height: Of the recorded picture, which all pixels refer to.
        motion: How far the picture's content has moved.
        light: What the light has done; None where the view was not found.
        changes: Base and objects displaced though the camera stands; None where that was not looked for.
        unknown: Why nothing can be said, e.g. a wrist camera while the arm is elsewhere.
        can_judge_changes: Whether this camera shows what stands still, so that ``changes`` will come.
    """

    camera: str
    width: int
    height: int
    motion: Registration
    light: Lighting | None = None
    changes: tuple[Change, ...] | None = None
    unknown: str = ""
    can_judge_changes: bool = False

    @property
    def shift_px(self) -> float:
        """How far the content at the centre has moved; NaN when the view was not found."""
        return math.hypot(self.motion.dx_px, self.motion.dy_px)

    def size_px(self) -> float:
        """The whole misalignment of the camera in one number: the largest distance that a corner or the centre moved;
        infinite when the view was not found."""
        return self.motion.displacement_px(self.width, self.height) if self.motion.found else math.inf

    def camera_excess(self, tolerance: Tolerance) -> float:
        """Size of the camera's misalignment in tolerances: the target band is 0 to 1."""
        if self.unknown or not self.motion.found:
            return math.inf
        return max(
            self.shift_px / tolerance.shift_for(self.width),
            abs(self.motion.rotation_deg) / tolerance.rotation_deg,
            abs(self.motion.scale - 1) / tolerance.zoom,
        )

    def light_is_off(self, tolerance: Tolerance) -> bool:
        """Whether exposure or white balance differ by more than they do between episodes of one recording."""
        return self.light is not None and bool(_light_words(self.light, tolerance))

    def displaced(self, tolerance: Tolerance) -> list[Change]:
        """Base and objects outside the band, and what is large and was not found again."""
        limit, area = tolerance.shift_for(self.width), LEAST_UNEXPLAINED * self.width * self.height
        return [
            c
            for c in self.changes or ()
            if (math.hypot(c.dx_px, c.dy_px) > limit if c.confidence > 0 else c.area_px >= area)
        ]

    def within(self, tolerance: Tolerance) -> bool:
        """Whether camera, light, base and objects are all in the target band."""
        return (
            self.camera_excess(tolerance) <= 1.0 and not self.light_is_off(tolerance) and not self.displaced(tolerance)
        )


@dataclass(frozen=True)
class Line:
    """One line for a person: what it is about, what to do, and whether it is in the target band (None: unknown)."""

    subject: str
    text: str
    ok: bool | None


def correction(measured: Misalignment, mm_per_px: float | None = None) -> str:
    """What to do with the camera, e.g. ``slide the camera 14 px ≈ 9 mm to the left, turn it 1.1° clockwise``.

    Args:
        measured: Its ``motion`` was found.
        mm_per_px: Millimetres on the table that one pixel covers, for distances in millimetres.

    Returns:
        Empty when every part is below :data:`LEAST_SHOWN_PX` and its kin.
    """
    motion = measured.motion
    slides = [
        f"{_distance(abs(amount), mm_per_px)} {words[amount > 0]}"
        for amount, words in ((motion.dx_px, ("to the left", "to the right")), (motion.dy_px, ("up", "down")))
        if abs(amount) >= LEAST_SHOWN_PX
    ]
    parts = [f"slide the camera {' and '.join(slides)}"] if slides else []
    if abs(motion.rotation_deg) >= LEAST_SHOWN_DEG:
        way = "clockwise" if motion.rotation_deg > 0 else "counter-clockwise"
        parts.append(f"turn {'it' if parts else 'the camera'} {abs(motion.rotation_deg):.1f}° {way}")
    if abs(motion.scale - 1) >= LEAST_SHOWN_ZOOM:
        way = "back" if motion.scale > 1 else "closer"
        parts.append(f"move {'it' if parts else 'the camera'} {abs(motion.scale - 1) * 100:.1f} % {way}")
    return ", ".join(parts)


def lines(measured: Misalignment, tolerance: Tolerance, mm_per_px: float | None = None) -> list[Line]:
    """The camera, its light, and the base and objects it sees, each in a line."""
    name = measured.camera
    if measured.unknown:
        return [Line(name, measured.unknown, None)]
    if not measured.motion.found:
        return [Line(name, "the recorded view is not found in the picture: bring it roughly back by eye", None)]
    told = correction(measured, mm_per_px)
    if measured.camera_excess(tolerance) <= 1.0:
        text = f"in place ({measured.shift_px:.1f} px, {abs(measured.motion.rotation_deg):.1f}°)"
        result = [Line(name, text, True)]
    else:
        result = [Line(name, told or "just outside the target band", False)]
    if measured.light is not None and (light := _light_words(measured.light, tolerance)):
        result.append(Line(name, f"light: {light} than recorded", False))
    for change in measured.displaced(tolerance):
        result.append(Line(name, _change_words(change, mm_per_px), False))
    return result


def pose_line(live: Mapping[str, float], recorded: Mapping[str, float], tolerance: Tolerance) -> Line | None:
    """How far the arm is from the recorded start; None where no joint is known by name in both.

    Args:
        live, recorded: Joint positions by name, in the same units.
    """
    off = {name: live[name] - value for name, value in recorded.items() if name in live}
    if not off:
        return None
    worst = max(off, key=lambda name: abs(off[name]))
    joint, size = worst.removesuffix(".pos"), abs(off[worst])
    if size <= tolerance.pose:
        return Line("arm", f"at the recorded start ({joint} within {size:.1f})", True)
    text = f"{joint} is {size:.1f} from the recorded start (of {tolerance.pose:g} allowed)"
    return Line("arm", text, False)


def _distance(px: float, mm_per_px: float | None) -> str:
    return f"{_number(px)} px" + (f" ≈ {_number(px * mm_per_px)} mm" if mm_per_px else "")


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"


def _light_words(light: Lighting, tolerance: Tolerance) -> str:
    parts = []
    if not 1 - tolerance.light <= light.exposure <= 1 / (1 - tolerance.light):
        parts.append(f"{abs(light.exposure - 1):.0%} {'brighter' if light.exposure > 1 else 'darker'}")
    for ratio, colour in ((light.red, "red"), (light.blue, "blue")):
        if not 1 - LIGHT_BALANCE <= ratio <= 1 / (1 - LIGHT_BALANCE):
            parts.append(f"{abs(ratio - 1):.0%} {'more' if ratio > 1 else 'less'} {colour}")
    return ", ".join(parts)


def _change_words(change: Change, mm_per_px: float | None) -> str:
    where = f"at ({change.x_px:.0f}, {change.y_px:.0f})"
    if change.confidence == 0 and change.kind == "arm":
        return "parts of the arm appear elsewhere at this joint state: a joint's zero may have moved"
    if change.confidence == 0:
        return f"something {where} is gone, new or looks different"
    back = [
        f"{_distance(abs(amount), mm_per_px)} {words[amount > 0]}"
        for amount, words in ((-change.dx_px, ("left", "right")), (-change.dy_px, ("up", "down")))
        if abs(amount) >= LEAST_SHOWN_PX
    ]
    what = "the arm's base" if change.kind == "arm" else f"the object {where}"
    return f"move {what} {' and '.join(back)} in the picture"


def findings(measured: Sequence[Misalignment], tolerance: Tolerance, *, required: bool) -> list[Finding]:
    """MOVED, LIGHTING, BASE_MOVED and OBJECT_MOVED for every camera, as the loop last measured them.

    Args:
        measured: One a camera.
        tolerance: The target band.
        required: Whether what is outside it fails (``--strategy.strict=true``) or is a warning.
    """
    off = Status.FAIL if required else Status.WARN
    result: list[Finding] = []
    for m in measured:
        name = m.camera
        if m.unknown or not m.motion.found:
            why = m.unknown or "the recorded view was not found in the picture"
            result.append(Finding("MOVED", off if required else Status.UNKNOWN, Cause.CAMERAS, name, f"{name}: {why}"))
            continue
        evidence = {
            "dx_px": m.motion.dx_px,
            "dy_px": m.motion.dy_px,
            "shift_px": m.shift_px,
            "rotation_deg": m.motion.rotation_deg,
            "zoom": m.motion.scale,
            "confidence": m.motion.confidence,
            "width_px": m.width,
            "allowed_px": tolerance.shift_for(m.width),
            "allowed_deg": tolerance.rotation_deg,
            "allowed_zoom": tolerance.zoom,
        }
        if m.camera_excess(tolerance) <= 1.0:
            summary = f"{name} is back in place: {m.shift_px:.1f} px, {abs(m.motion.rotation_deg):.2f}°"
            result.append(Finding("MOVED", Status.PASS, Cause.CAMERAS, name, summary, evidence))
        else:
            summary = f"{name} is {m.shift_px:.1f} px, {m.motion.rotation_deg:+.1f}°, zoom ×{m.motion.scale:.3f} off"
            result.append(Finding("MOVED", off, Cause.CAMERAS, name, summary, evidence, _sentence(correction(m))))
        if m.light is not None:
            light = {"exposure_ratio": m.light.exposure, "red_ratio": m.light.red, "blue_ratio": m.light.blue}
            words = _light_words(m.light, tolerance)
            summary = f"{name} is {words} than recorded" if words else f"{name}: light as recorded"
            status, fix = (off, f"Restore the light, or lock {name}'s exposure.") if words else (Status.PASS, "")
            result.append(Finding("LIGHTING", status, Cause.LIGHTING, name, summary, light, fix))
        for kind, code in (("arm", "BASE_MOVED"), ("object", "OBJECT_MOVED")):
            what = "base" if kind == "arm" else "objects"
            if m.changes is None:
                why = f"{name}: {what} not judged (only once the camera stands in place and nothing moves)"
                result.append(Finding(code, Status.UNKNOWN, Cause.WORKSPACE, name, why))
                continue
            mine = [c for c in m.displaced(tolerance) if c.kind == kind]
            if not mine:
                result.append(Finding(code, Status.PASS, Cause.WORKSPACE, name, f"{name}: {what} where they were"))
            for c in mine:
                details = {"x_px": c.x_px, "y_px": c.y_px, "dx_px": c.dx_px, "dy_px": c.dy_px, "area_px": c.area_px}
                words = _sentence(_change_words(c, None))
                zero = kind == "arm" and c.confidence == 0
                cause = Cause.CALIBRATION if zero else Cause.WORKSPACE
                result.append(
                    Finding("JOINT_OFFSET" if zero else code, off, cause, name, f"{name}: {words}", details, words)
                )
    return result


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""
