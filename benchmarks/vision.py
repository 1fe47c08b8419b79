"""Measure lerobot_diagnostics.vision on real recordings and print the tables its thresholds rest on.

    LEROBOT_DIAGNOSTICS_DATA=<folder of the data sets> python benchmarks/vision.py [--only swaps,faults,…] [--full]

Every judged episode is left out of the references it is judged by. About seven minutes on one core; --full draws more.
"""

from __future__ import annotations

import argparse
import io
import itertools
import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import av
import cv2
import numpy as np
import pyarrow.parquet as pq
from PIL import Image

from lerobot_diagnostics.findings import Finding, Status
from lerobot_diagnostics.vision import (
    Comparer,
    ReferenceViews,
    Registrar,
    Registration,
    background_of,
    compare_workspace,
)
from lerobot_diagnostics.vision.identity import oriented
from lerobot_diagnostics.vision.registration import _matrix
from lerobot_diagnostics.vision.views import KNOWN_LIKENESS, KNOWN_TOTAL

EVERY = {"bridge_toysink_3cam": 1, "so101_bimanual_cloth": 5, "so101_sim_2cam": 10, "g1_inspire_bottle": 15}
"""Data sets and the frame step."""
BLOCKING = {"SWAPPED", "UNKNOWN_VIEW", "UNDECIDED", "ROTATED", "MIRRORED", "CHANNELS", "DEAD", "MISSING_CAMERA"}


@dataclass(frozen=True)
class Recording:
    name: str
    frames: dict[str, np.ndarray]  # {camera: [N, H, W, 3]}
    episodes: np.ndarray  # [N]

    @property
    def numbers(self) -> list[int]:
        # Episode 0 of the cloth recording has a dead camera: judged apart.
        return [int(e) for e in np.unique(self.episodes) if not (self.name.endswith("cloth") and e == 0)]

    def picked(self, episode: int, count: int) -> list[int]:
        """``count`` frames of an episode from its first on, evenly."""
        index = np.flatnonzero(self.episodes == episode)
        return index[np.linspace(0, len(index) - 1, count, endpoint=False).astype(int)].tolist()

    def references(self, used: list[int], cameras: list[str] | None = None) -> ReferenceViews:
        index = np.flatnonzero(np.isin(self.episodes, used))
        return ReferenceViews.build(
            {c: [self.frames[c][i] for i in index] for c in cameras or self.frames},
            episodes=self.episodes[index].tolist(),
        )


def load(root: Path, name: str) -> Recording:
    """Decode every n-th frame. (To be replaced by lerobot_diagnostics.recording.)"""
    folder = root / name / "v30"
    table = pq.read_table(sorted((folder / "data").rglob("*.parquet"))).to_pandas().sort_values("index")
    keep = table["frame_index"].to_numpy() % EVERY[name] == 0
    frames: dict[str, np.ndarray] = {}
    for column in table.columns:
        if column.startswith("observation.image"):
            pictures = [np.array(Image.open(io.BytesIO(cell["bytes"])).convert("RGB")) for cell in table[column][keep]]
            frames[column.split(".")[-1]] = np.stack(pictures)
    for camera in sorted((folder / "videos").glob("*")) if (folder / "videos").exists() else []:
        with av.open(str(next(camera.rglob("*.mp4")))) as container:
            decoded = (f for k, f in enumerate(container.decode(video=0)) if k < len(keep) and keep[k])
            frames[camera.name.split(".")[-1]] = np.stack([f.to_ndarray(format="rgb24") for f in decoded])
    return Recording(name, frames, table["episode_index"].to_numpy()[keep])


# ---- perturbations

Perturbation = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def moved(picture: np.ndarray, motion: Registration, border: int = cv2.BORDER_REFLECT_101) -> np.ndarray:
    height, width = picture.shape[:2]
    return cv2.warpAffine(
        picture, _matrix(motion, width, height), (width, height), flags=cv2.INTER_CUBIC, borderMode=border
    )


def random_motion(width: int, rng: np.random.Generator) -> Registration:
    """±6 % of the width, ±5°, ±8 %."""
    dx, dy = rng.uniform(-0.06, 0.06, 2) * width
    return Registration(dx, dy, rng.uniform(-5, 5), 1 + rng.uniform(-0.08, 0.08), 1.0, "truth")


def shifted(picture: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    dx, dy = 0.06 * picture.shape[1] * rng.choice([-1, 1], 2)
    return moved(picture, Registration(dx, dy, 0.0, 1.0, 1.0, "truth"), cv2.BORDER_REPLICATE)


def relit(picture: np.ndarray, gains: np.ndarray) -> np.ndarray:
    return np.clip(picture * gains, 0, 255).astype(np.uint8)


def jpeg(picture: np.ndarray, quality: int) -> np.ndarray:
    return cv2.imdecode(cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, quality])[1], cv2.IMREAD_COLOR)


def noisy(picture: np.ndarray, sigma: float, rng: np.random.Generator) -> np.ndarray:
    return np.clip(picture + rng.normal(0, sigma, picture.shape), 0, 255).astype(np.uint8)


def everything(picture: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    changed = moved(picture, random_motion(picture.shape[1], rng), cv2.BORDER_REPLICATE)
    changed = relit(changed, rng.uniform(0.5, 1.6) * rng.uniform(0.85, 1.18, 3))
    return jpeg(noisy(changed, 6, rng), 40)


PERTURBATIONS: dict[str, Perturbation] = {
    "none": lambda p, _: p,
    "brightness x0.5": lambda p, _: relit(p, np.full(3, 0.5)),
    "brightness x1.6": lambda p, _: relit(p, np.full(3, 1.6)),
    "white balance": lambda p, r: relit(
        p, np.array([1.25, 1.0, 0.8]) if r.random() < 0.5 else np.array([0.8, 1.0, 1.25])
    ),
    "blur": lambda p, _: cv2.GaussianBlur(p, (0, 0), p.shape[1] / 100),
    "noise": lambda p, r: noisy(p, 12, r),
    "JPEG 30": lambda p, _: jpeg(p, 30),
    "shift 6 %": shifted,
    "zoom 8 %": lambda p, r: moved(p, Registration(0, 0, 0, r.choice([0.92, 1.08]), 1, ""), cv2.BORDER_REPLICATE),
    "rotation 5°": lambda p, r: moved(p, Registration(0, 0, r.choice([-5, 5]), 1, 1, ""), cv2.BORDER_REPLICATE),
    "all together": everything,
}

FAULTS: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
    "channel swap": ("CHANNELS", lambda p: np.ascontiguousarray(p[..., ::-1])),
    "turned 90°": ("ROTATED", lambda p: oriented(p, 1)),
    "turned 180°": ("ROTATED", lambda p: oriented(p, 2)),
    "turned 270°": ("ROTATED", lambda p: oriented(p, 3)),
    "mirrored": ("MIRRORED", lambda p: oriented(p, 4)),
    "black": ("DEAD", lambda p: np.zeros_like(p)),
    "black, noisy": ("DEAD", lambda p: noisy(np.zeros_like(p), 3, np.random.default_rng(0))),
    "double size": ("RESOLUTION", lambda p: cv2.resize(p, None, fx=2, fy=2)),
    "16:9 crop": ("RESOLUTION", lambda p: np.ascontiguousarray(p[p.shape[0] // 8 : p.shape[0] - p.shape[0] // 8])),
}


def raised(findings: list[Finding], camera: str | None = None) -> set[str]:
    """Codes that block: failed, or UNDECIDED."""
    return {
        f.code
        for f in findings
        if f.code in BLOCKING and (f.status is Status.FAIL or f.code == "UNDECIDED") and camera in (None, f.subject)
    }


def outcome(findings: list[Finding], shown: dict[str, str]) -> str:
    """How a verdict relates to what each camera truly shows ({camera: recorded camera})."""
    swapped = {f.subject: f.evidence["shows"] for f in findings if f.code == "SWAPPED" and f.status is Status.FAIL}
    if any(shown[c] != named for c, named in swapped.items()):
        return "false SWAPPED"
    displaced = {c for c, truth in shown.items() if c != truth}
    codes = raised(findings)
    if not displaced:
        return "passed" if not codes else "blocked: " + "+".join(sorted(codes))
    if set(swapped) == displaced and codes == {"SWAPPED"}:
        return "named"
    missed = [c for c in displaced if not raised(findings, c)]
    if len(missed) == len(displaced) or not codes:
        return "MISSED"
    return "stopped: " + "+".join(sorted(codes))


def table(title: str, rows: dict[str, Counter[str]]) -> None:
    print(f"\n{title}")
    for label, counts in rows.items():
        total = sum(counts.values())
        print(f"  {label:34s} {total:5d}  " + "  ".join(f"{k} {v} ({v / total:.1%})" for k, v in counts.most_common()))


PREPARED: dict[tuple[str, int], Comparer] = {}


def leave_one_out(recording: Recording, numbers: list[int]) -> Iterator[tuple[int, Comparer]]:
    for episode in numbers:
        key = (recording.name, episode)
        if key not in PREPARED:
            PREPARED[key] = Comparer(recording.references([e for e in recording.numbers if e != episode]))
        yield episode, PREPARED[key]


def swaps(recordings: dict[str, Recording], full: bool) -> None:
    for name in ("bridge_toysink_3cam", "so101_bimanual_cloth", "so101_sim_2cam"):
        recording = recordings[name]
        cameras = list(recording.frames)
        healthy: dict[str, Counter[str]] = defaultdict(Counter)
        swapped: dict[str, Counter[str]] = defaultdict(Counter)
        for episode, comparer in leave_one_out(recording, recording.numbers):
            for label, perturb in PERTURBATIONS.items():
                rng = np.random.default_rng(episode)
                for k in recording.picked(episode, 3 if full or label in ("none", "all together") else 1):
                    live = {c: perturb(recording.frames[c][k], rng) for c in cameras}
                    for order in itertools.permutations(cameras):
                        shown = dict(zip(cameras, order, strict=True))
                        findings = comparer.compare({c: live[s] for c, s in shown.items()}, geometry=False)
                        (healthy if shown == dict(zip(cameras, cameras, strict=True)) else swapped)[label][
                            outcome(findings, shown)
                        ] += 1
        table(f"{name}: right order, single frames", healthy)
        table(f"{name}: every exchange, single frames", swapped)


def pairs(recordings: dict[str, Recording]) -> None:
    """Two cameras from two data sets on one robot; and a camera of another data set in place of the only one."""
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    views = [(n, c) for n, r in recordings.items() for c in r.frames]
    parts: dict[tuple[str, str], tuple[ReferenceViews, list[np.ndarray]]] = {}
    for name, camera in views:
        recording = recordings[name]
        last = recording.numbers[-1]
        references = recording.references(recording.numbers[:-1], [camera])
        parts[name, camera] = (references, [recording.frames[camera][k] for k in recording.picked(last, 3)])
    comparers = {}
    for a, b in itertools.combinations(views, 2):
        if a[0] == b[0]:
            continue
        cameras = {"a": parts[a][0].cameras[a[1]], "b": parts[b][0].cameras[b[1]]}
        comparer = Comparer(ReferenceViews(cameras))
        for label in ("none", "all together"):
            rng = np.random.default_rng(0)
            for x, y in zip(parts[a][1], parts[b][1], strict=True):
                x, y = PERTURBATIONS[label](x, rng), PERTURBATIONS[label](y, rng)
                rows[f"right order, {label}"][
                    outcome(comparer.compare({"a": x, "b": y}, geometry=False), {"a": "a", "b": "b"})
                ] += 1
                rows[f"exchanged, {label}"][
                    outcome(comparer.compare({"a": y, "b": x}, geometry=False), {"a": "b", "b": "a"})
                ] += 1
    for view in views:
        comparers[view] = Comparer(parts[view][0])
        for other in views:
            for picture in parts[other][1]:
                codes = raised(comparers[view].compare({view[1]: picture}, geometry=False))
                kind = (
                    "own view"
                    if other == view
                    else "other data set"
                    if other[0] != view[0]
                    else "other camera, same set"
                )
                rows[f"one camera, {kind}"]["passed" if not codes else "+".join(sorted(codes))] += 1
    table("pairs across data sets", rows)


def moved_between_tasks(recordings: dict[str, Recording]) -> None:
    """Bridge, one whole task held out: image_1 and image_2 then stand where no reference shows them."""
    recording = recordings["bridge_toysink_3cam"]
    cameras = list(recording.frames)
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    for task in (range(5), range(5, 13), range(13, 19), range(19, 25)):
        comparer = Comparer(recording.references([e for e in recording.numbers if e not in task]))
        for episode in task:
            for k in recording.picked(episode, 3):
                for order in itertools.permutations(cameras):
                    shown = dict(zip(cameras, order, strict=True))
                    findings = comparer.compare({c: recording.frames[s][k] for c, s in shown.items()}, geometry=False)
                    label = (
                        "right order, cameras moved far" if list(order) == cameras else "exchanged, cameras moved far"
                    )
                    rows[label][outcome(findings, shown)] += 1
    table("bridge, one task held out", rows)


def faults(recordings: dict[str, Recording]) -> None:
    for name, recording in recordings.items():
        rows: dict[str, Counter[str]] = defaultdict(Counter)
        cameras = list(recording.frames)
        for episode, comparer in leave_one_out(
            recording, recording.numbers[::3] if len(recording.numbers) > 8 else recording.numbers
        ):
            for k in recording.picked(episode, 2):
                live = {c: recording.frames[c][k] for c in cameras}
                for camera in cameras:
                    for label, (code, spoil) in FAULTS.items():
                        findings = comparer.compare(
                            {**live, camera: spoil(live[camera])}, geometry=code == "RESOLUTION"
                        )
                        seen = {
                            f.code for f in findings if f.subject == camera and f.status in (Status.FAIL, Status.WARN)
                        }
                        seen |= {
                            f"{f.code}?"
                            for f in findings
                            if f.subject == camera and f.status is Status.UNKNOWN and f.code != "MOVED"
                        }
                        seen -= {"LIGHTING", "FRAMING"}
                        others = raised([f for f in findings if f.subject != camera])
                        verdict = "right" if seen == {code} else "+".join(sorted(seen)) or "NOTHING"
                        rows[f"{label} ({code})"][verdict + (f", others {sorted(others)}" if others else "")] += 1
        table(f"{name}: faults of one camera", rows)
    cloth = recordings["so101_bimanual_cloth"]
    comparer = Comparer(cloth.references(cloth.numbers))
    first = {c: v[0] for c, v in cloth.frames.items()}
    print(
        "  cloth episode 0:",
        [
            (f.code, f.subject, str(f.status))
            for f in comparer.compare(first)
            if f.status in (Status.FAIL, Status.UNKNOWN)
        ],
    )


def healthy(recordings: dict[str, Recording]) -> None:
    """Everything compare() says of untouched held-out episodes: one frame, the first; and how steady cameras
    measure."""
    for name, recording in recordings.items():
        counts: Counter[str] = Counter()
        shift = []
        for episode, comparer in leave_one_out(recording, recording.numbers):
            for k in recording.picked(episode, 2):
                for f in comparer.compare({c: v[k] for c, v in recording.frames.items()}):
                    if f.status is not Status.PASS:
                        counts[f"{f.code} {f.status}"] += 1
                    if "shift_px" in f.evidence:
                        shift.append(100 * f.evidence["shift_px"] / f.evidence["width_px"])
        pictures = 2 * len(recording.numbers) * len(recording.frames)
        where = (
            "" if not shift else f"shift % of width median {np.median(shift):.2f} p95 {np.percentile(shift, 95):.2f}"
        )
        print(f"\n{name}: {pictures} untouched pictures; steady {comparer.steady} {where}\n   ", dict(counts))
        for f in comparer.self_test():
            print("    self-test:", f.status, f.summary)


def scores(recordings: dict[str, Recording]) -> None:
    """The distributions that the thresholds of views.py rest on, every picture scored without its own episode."""

    def show(label: str, values: list[float]) -> None:
        marks = np.percentile(values, [0, 1, 5, 50, 95, 99, 100])
        print(f"  {label:58s} n {len(values):5d}  " + " ".join(f"{v:6.2f}" for v in marks))

    print(f"\nscores {'':60s} {'':6s}    min    1 %    5 %   50 %   95 %   99 %    max")
    strangers: dict[str, list[float]] = defaultdict(list)
    both = 0
    for name, recording in recordings.items():
        cameras = list(recording.frames)
        values: dict[str, list[float]] = defaultdict(list)
        for episode, comparer in leave_one_out(recording, recording.numbers):
            rng = np.random.default_rng(3)
            for k, label in itertools.product(recording.picked(episode, 6), ("none", "all together")):
                live = {c: PERTURBATIONS[label](recording.frames[c][k], rng) for c in cameras}
                total = {c: comparer.identifier.scores(live[c]) for c in cameras}
                for i, c in enumerate(cameras):
                    values[f"{label}: likeness"].append(float(total[c].likeness[0, i]))
                    values[f"{label}: total"].append(float(total[c].total[0, i]))
                    upright = total[c].total[0].max()
                    values[f"{label}: best other orientation − upright"].append(
                        float(total[c].total[1:].max() - upright)
                    )
                    values[f"{label}: channel order"].append(comparer.channels[c].score(live[c]))
                    for j in range(i + 1, len(cameras)):
                        a, b = total[c].total[0], total[cameras[j]].total[0]
                        values[f"{label}: pair margin"].append(float(a[i] - a[j] + b[j] - b[i]))
                    if label == "none":
                        light = comparer.lighting(c, live[c])
                        values["none: |exposure change|"].append(float(np.expm1(abs(np.log(light.exposure)))))
                        balance = max(abs(np.log(light.red)), abs(np.log(light.blue)))
                        values["none: |white balance change|"].append(float(np.expm1(balance)))
            if episode in recording.numbers[:: max(1, len(recording.numbers) // 4)]:
                for other in recordings.values():
                    if other.name == name:
                        continue
                    for frames in other.frames.values():
                        for picture in frames[len(frames) // 2 :: len(frames) // 20]:
                            one = comparer.identifier.scores(picture)
                            strangers["likeness"].append(float(one.likeness[0].max()))
                            strangers["total"].append(float(one.total[0].max()))
                            known = (one.likeness[0] >= KNOWN_LIKENESS) & (one.total[0] >= KNOWN_TOTAL)
                            both += int(known.sum())
        for label, numbers in sorted(values.items()):
            show(f"{name}, {label}", numbers)
    for label, numbers in strangers.items():
        show(f"pictures of other data sets: {label}", numbers)
    print(f"  of these taken for a known view: {both}")


def inner(picture: np.ndarray, share: float = 0.14) -> np.ndarray:
    """Without the border that a warp has to invent."""
    height, width = picture.shape[:2]
    y, x = int(height * share), int(width * share)
    return np.ascontiguousarray(picture[y : height - y, x : width - x])


def corner_error(answer: Registration, truth: Registration, width: int, height: int) -> float:
    a, b = _matrix(answer, width, height), _matrix(truth, width, height)
    at = np.array([[x * width, y * height, 1] for x in (0.25, 0.5, 0.75) for y in (0.25, 0.5, 0.75)])
    return float(np.linalg.norm(at @ (a - b).T, axis=1).max())


REGISTER_CASES = [
    ("so101_sim_2cam", "camera1", "other frame"),
    ("so101_sim_2cam", "camera2", "same frame"),
    ("so101_bimanual_cloth", "cam0", "same frame"),
    ("so101_bimanual_cloth", "cam1", "same frame"),
    ("g1_inspire_bottle", "cam_high", "same frame"),
    ("bridge_toysink_3cam", "image_0", "other frame"),
    ("bridge_toysink_3cam", "image_1", "other frame"),
    ("bridge_toysink_3cam", "image_2", "other frame"),
]


def registration(recordings: dict[str, Recording], full: bool) -> None:
    print("\nregister: known warps (±6 %, ±5°, ±8 %) under another light and noise; largest error of a 3×3 grid, px")
    print(
        f"  {'':52s} {'n':>4s} {'no fit':>6s} {'median':>7s} {'95 %':>6s} {'max':>6s} {'deg':>6s} {'>3 px':>5s} "
        f"{'conf 5 %':>8s}"
    )
    for name, camera, kind in REGISTER_CASES:
        recording = recordings[name]
        frames = recording.frames[camera]
        usable = np.flatnonzero(np.isin(recording.episodes, recording.numbers))
        for path in ("exact", "fast"):
            rng = np.random.default_rng(7)
            errors, turns, confidences, none = [], [], [], 0
            count = 200 if full else 60
            for _ in range(count):
                i = int(rng.choice(usable))
                j = (
                    i
                    if kind == "same frame"
                    else int(rng.choice(usable[recording.episodes[usable] == recording.episodes[i]]))
                )
                truth = random_motion(frames.shape[2], rng)
                live, reference = moved(frames[j], truth), frames[i]
                if frames.shape[2] > 64:
                    live, reference = inner(live), inner(reference)
                live = noisy(relit(live, rng.uniform(0.5, 1.6) * rng.uniform(0.85, 1.18, 3)), 3, rng)
                answer = getattr(Registrar(reference), path)(live)
                if not answer.found:
                    none += 1
                    continue
                errors.append(corner_error(answer, truth, reference.shape[1], reference.shape[0]))
                turns.append(abs(answer.rotation_deg - truth.rotation_deg))
                confidences.append(answer.confidence)
            print(
                f"  {f'{name} {camera}, {kind}, {path}':52s} {count:4d} {none:6d} {np.median(errors):7.3f} "
                f"{np.percentile(errors, 95):6.2f} {max(errors):6.2f} {np.median(turns):6.3f} "
                f"{sum(e > 3 for e in errors):5d} {np.percentile(confidences, 5):8.2f}"
            )
    views = [(n, c) for n, r in recordings.items() for c in r.frames]
    rng = np.random.default_rng(11)
    found = {"exact": 0, "fast": 0}
    count = 400 if full else 120
    for _ in range(count):
        a, b = (views[k] for k in rng.choice(len(views), 2, replace=False))
        x, y = (
            cv2.resize(recordings[n].frames[c][int(rng.integers(len(recordings[n].frames[c])))], (224, 224))
            for n, c in (a, b)
        )
        for path in found:
            found[path] += getattr(Registrar(y), path)(x).found
    print(
        f"  unrelated pictures (other camera or data set), {count}: answered exact {found['exact']}, fast "
        f"{found['fast']}"
    )


def simulated(full: bool) -> None:
    """Moved camera, base, tray and cube in the simulator, one at a time, by random amounts; needs the extra ``sim``."""
    try:
        import copy

        from lerobot_diagnostics.sim.config_so101_sim import CameraFault, SimFaults
        from lerobot_diagnostics.sim.scene import CUBE_XY_M, build
        from lerobot_diagnostics.sim.world import World
    except ImportError as error:
        print(f"\nsim: skipped ({error})")
        return
    size = (640, 480)
    rng = np.random.default_rng(3)
    model = build()

    def start(faults: SimFaults, cube: tuple[float, float]) -> World:
        world = World(faults, copy.copy(model))
        world.reset(cube)
        world.advance_to(0.3)
        return world

    def near(xy: tuple[float, float], spread: float) -> tuple[float, float]:
        return (xy[0] + rng.uniform(-spread, spread), xy[1] + rng.uniform(-spread, spread))

    cameras = ("top", "front")
    sweep: dict[str, list[np.ndarray]] = {c: [] for c in cameras}
    at_pose: dict[str, list[np.ndarray]] = {c: [] for c in cameras}
    for _ in range(4):
        world = start(SimFaults(), near(CUBE_XY_M, 0.001))
        for c in cameras:
            at_pose[c].append(world.render(c, *size))
        for k in range(5):
            pan, lift, flex = rng.uniform((-50, -60, 0), (50, 0, 60))
            goal = {"shoulder_pan": pan, "shoulder_lift": lift, "elbow_flex": flex}
            world.command(goal)
            world.advance_to(1.0 + k)
            for c in cameras:
                sweep[c].append(world.render(c, *size))
        world.close()
    backgrounds = {c: background_of(sweep[c]) for c in cameras}
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    errors: dict[str, list[float]] = defaultdict(list)
    asked = {"nothing": set(), "camera": {"MOVED"}, "base": {"BASE_MOVED"}}
    asked |= {"tray": {"OBJECT_MOVED"}, "cube": {"OBJECT_MOVED"}}
    focal = size[1] / 2 / np.tan(np.deg2rad(45 / 2))

    def pixel(world: World, camera: str, point: np.ndarray) -> np.ndarray:
        pose = world.truth().cameras[camera]
        x, y, z = pose.rotation.T @ (point - pose.position_m)
        return np.array([focal * x / -z, focal * -y / -z])

    healthy_world = start(SimFaults(), CUBE_XY_M)
    for kind in asked:
        for _ in range(30 if full else 6):
            step = rng.uniform(0.01, 0.03) * np.array([np.cos(a := rng.uniform(0, 2 * np.pi)), np.sin(a)])
            turn = (rng.choice([-1, 1], 3) * rng.uniform(0.7, 3.0, 3)).tolist()
            faults = {
                "nothing": SimFaults(),
                "camera": SimFaults(cameras={c: CameraFault(turn_deg=turn) for c in cameras}),
                "base": SimFaults(base_move_m=step.tolist()),
                "tray": SimFaults(tray_move_m=step.tolist()),
                "cube": SimFaults(cube_move_m=step.tolist()),
            }[kind]
            world = start(faults, CUBE_XY_M)
            live = {c: noisy(world.render(c, *size), 2, rng) for c in cameras}
            findings = compare_workspace(live, {c: at_pose[c] for c in cameras}, backgrounds)
            for c in cameras:
                mine = [f for f in findings if f.subject == c and f.status is Status.WARN]
                codes = {f.code for f in mine}
                rows[f"{kind}, {c}"]["right" if codes == asked[kind] else "+".join(sorted(codes)) or "nothing"] += 1
                point = {"base": "base_m", "tray": "tray_m", "cube": "cube_m"}.get(kind)
                for f in mine:
                    if codes != asked[kind] or f.evidence.get("dx_px") is None:
                        continue
                    got = np.array([f.evidence["dx_px"], f.evidence["dy_px"]])
                    if point:
                        a, b = (getattr(w.truth(), point) for w in (healthy_world, world))
                        errors[f"{kind}, {c}"].append(
                            float(np.linalg.norm(got - (pixel(world, c, b) - pixel(world, c, a))))
                        )
                    elif kind == "camera":
                        errors[f"{kind}, {c}, roll deg"].append(abs(f.evidence["rotation_deg"] - turn[2]))
                        # a point far along the old axis, seen by the turned camera
                        old = healthy_world.truth().cameras[c]
                        far = old.position_m - old.rotation[:, 2]
                        errors[f"{kind}, {c}"].append(float(np.linalg.norm(got - pixel(world, c, far))))
            world.close()
    table("sim, 640x480: one thing moved by 1–3 cm, or a camera turned by 0.7–3° about each axis", rows)
    for label, values in errors.items():
        middle, high = np.nanpercentile(values, [50, 95])
        print(f"  error of the size, {label:24s} median {middle:.2f} 95 % {high:.2f} (n {len(values)})")


def cost(recordings: dict[str, Recording]) -> None:
    frames = recordings["g1_inspire_bottle"].frames["cam_high"]
    episodes = recordings["g1_inspire_bottle"].episodes
    references = ReferenceViews.build({"cam_high": list(frames)}, episodes=episodes.tolist())
    stored = sum(a.nbytes for a in references.arrays().values())
    began = time.perf_counter()
    comparer = Comparer(references)
    built = time.perf_counter() - began
    live = moved(frames[40], replace(random_motion(640, np.random.default_rng(0))))
    comparer.compare({"cam_high": live})
    registrar = Registrar(frames[40])
    registrar.fast(live)

    def ms(call: Callable[[], object], count: int) -> float:
        taken = []
        for _ in range(count):
            start = time.perf_counter()
            call()
            taken.append(1e3 * (time.perf_counter() - start))
        return float(np.median(taken))

    print(f"\ncost at 640x480: stored {stored / 1e6:.2f} MB a camera, prepared in {built:.2f} s")
    print(
        f"  identity, light, channels: {ms(lambda: comparer.compare({'cam_high': live}, geometry=False), 30):.1f} ms a "
        "camera frame"
    )
    print(f"  the same and geometry:     {ms(lambda: comparer.compare({'cam_high': live}), 30):.1f} ms")
    print(f"  register fast, cold:       {ms(lambda: registrar.fast(live), 30):.1f} ms")
    last = registrar.fast(live)
    print(f"  register fast, tracking:   {ms(lambda: registrar.fast(live, last), 30):.1f} ms")
    print(f"  register exact:            {ms(lambda: registrar.exact(live), 5):.0f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="healthy,scores,swaps,pairs,tasks,faults,register,sim,cost")
    parser.add_argument("--full", action="store_true")
    arguments = parser.parse_args()
    cv2.setNumThreads(1)
    root = Path(os.environ["LEROBOT_DIAGNOSTICS_DATA"])
    recordings = {name: load(root, name) for name in EVERY}
    sections = {
        "healthy": lambda: healthy(recordings),
        "scores": lambda: scores(recordings),
        "swaps": lambda: swaps(recordings, arguments.full),
        "pairs": lambda: pairs(recordings),
        "tasks": lambda: moved_between_tasks(recordings),
        "faults": lambda: faults(recordings),
        "register": lambda: registration(recordings, arguments.full),
        "sim": lambda: simulated(arguments.full),
        "cost": lambda: cost(recordings),
    }
    for name in arguments.only.split(","):
        began = time.perf_counter()
        sections[name]()
        print(f"  [{name}: {time.perf_counter() - began:.0f} s]", flush=True)


if __name__ == "__main__":
    main()
