"""How often the camera guard refuses right pictures, and lets wrong ones pass, on real recordings; and what it costs.

    LEROBOT_DIAGNOSTICS_DATA=<folder of the data sets> python benchmarks/guard.py

Every episode is played through the step as a rollout would, at one check a second (stated by its own clock), with
reference views of the *other* episodes only. Then its first frames are given wrong on purpose. Three minutes on one
core. Costs are processor time of the calling thread, so that other programs do not count.
"""

from __future__ import annotations

import argparse
import logging
import os
import statistics
import time
from collections import Counter
from pathlib import Path

import cv2
import numpy as np
import torch

from lerobot_diagnostics.camera_names import camera_key
from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.guard.references import build_references, match_cameras
from lerobot_diagnostics.guard.step import CameraGuardError, CameraSwapGuard
from lerobot_diagnostics.recording import Recording, open_recording
from lerobot_diagnostics.vision import ReferenceViews

DATA_SETS = ("bridge_toysink_3cam", "so101_bimanual_cloth", "so101_sim_2cam", "g1_inspire_bottle", "pusht_image_slice")
EVERY_S = 1.0
BLACK = {("so101_bimanual_cloth", 0)}
"""One camera is black throughout this episode: refusing it is right."""

Pictures = dict[str, np.ndarray]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def guard(references: ReferenceViews, clock: Clock) -> CameraSwapGuard:
    step = CameraSwapGuard(every_s=EVERY_S, clock=clock)
    step.load_state_dict({key: torch.from_numpy(np.array(a)) for key, a in references.arrays().items()})
    return step


def transition(pictures: Pictures, state: np.ndarray) -> dict:
    """As the sync engine of lerobot-rollout gives it to the preprocessor."""
    observation = {
        camera_key(name): (torch.from_numpy(picture).float() / 255).permute(2, 0, 1).contiguous()[None]
        for name, picture in pictures.items()
    }
    return {"observation": {**observation, "observation.state": torch.from_numpy(np.array(state))[None]}}


def refused(step: CameraSwapGuard, given: dict) -> str:
    """The codes that block, empty when nothing does."""
    try:
        step(given)
    except CameraGuardError as error:
        return "+".join(sorted({f.code for f in error.findings}))
    return ""


def faults(pictures: Pictures, stranger: np.ndarray) -> dict[str, Pictures]:
    names = list(pictures)
    first = pictures[names[0]]
    wrong = {
        "DEAD": {**pictures, names[0]: np.zeros_like(first)},
        "CHANNELS": {**pictures, names[0]: np.ascontiguousarray(first[..., ::-1])},
        "ROTATED": {**pictures, names[0]: np.ascontiguousarray(np.rot90(first, 2))},
        "MIRRORED": {**pictures, names[0]: np.ascontiguousarray(first[:, ::-1])},
        "UNKNOWN_VIEW": {**pictures, names[0]: cv2.resize(stranger, first.shape[1::-1])},
    }
    if len(names) > 1:
        wrong["SWAPPED"] = dict(zip(names, [pictures[n] for n in (*names[1:], names[0])], strict=True))
    return wrong


def play(name: str, recording: Recording, stranger: np.ndarray) -> dict:
    """All episodes of one data set."""
    cameras = match_cameras(recording.cameras, {})
    told: Counter[str] = Counter()
    stops: list[str] = []
    passed: Counter[str] = Counter()
    tried: Counter[str] = Counter()
    checks = 0
    for number in recording.episode_indices:
        others = [e for e in recording.episode_indices if e != number]
        clock = Clock()
        step = guard(build_references(recording, cameras, others), clock)
        episode = recording.episode(number)
        index = np.arange(0, len(episode), max(1, round(EVERY_S * recording.fps)))
        frames = {camera: list(episode.frames(key, index)) for camera, key in cameras.items()}
        for k, at in enumerate(index):
            clock.now = float(at) / recording.fps
            pictures = {camera: shown[k] for camera, shown in frames.items()}
            codes = refused(step, transition(pictures, episode.states[at]))
            checks += 1
            if codes:
                stops.append(f"episode {number} at {clock.now:.0f} s: {codes}")
                break
        told.update(code for code, _camera in step._told)
        if (name, number) in BLACK:
            continue
        for code, wrong in faults({camera: shown[0] for camera, shown in frames.items()}, stranger).items():
            step.reset()
            tried[code] += 1
            passed[code] += not refused(step, transition(wrong, episode.states[0]))
    return {
        "episodes": len(recording.episode_indices),
        "checks": checks,
        "stops": stops,
        "warnings": told,
        "passed": passed,
        "tried": tried,
    }


def cost(recording: Recording, threads: int) -> list[tuple[str, float, float]]:
    """(what, median ms a camera frame, 95th percentile) with two cameras at 640×480, as float tensors."""
    torch.set_num_threads(threads)
    cv2.setNumThreads(threads)
    cameras = match_cameras(recording.cameras, {})
    clock = Clock()
    frames: dict[str, list[np.ndarray]] = {camera: [] for camera in cameras}
    owners: list[int] = []
    for number in recording.episode_indices:
        episode = recording.episode(number)
        index = np.linspace(0, len(episode), 16, endpoint=False).astype(int)
        for camera, key in cameras.items():
            frames[camera] += [cv2.resize(picture, (640, 480)) for picture in episode.frames(key, index)]
        owners += [number] * len(index)
    step = guard(ReferenceViews.build(frames, episodes=owners), clock)
    state = np.zeros(6, np.float32)
    given = [transition({c: f[k] for c, f in frames.items()}, state) for k in range(len(owners))]

    def timed(before: float, reset: bool) -> list[float]:
        spent = []
        for one in given:
            if reset:
                step.reset()
            clock.now += before
            start = time.thread_time()
            step(one)
            spent.append((time.thread_time() - start) * 1000 / len(cameras))
        return spent

    rows = [("first observation", timed(10.0, True)), ("check in a run", timed(10.0, False))]
    step.every_s = 1e9
    step(given[0])
    rows.append(("not due", timed(0.0, False)))
    return [(what, statistics.median(spent), float(np.percentile(spent, 95))) for what, spent in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="comma-separated data sets")
    chosen = parser.parse_args().only
    logging.disable(logging.WARNING)
    root = Path(os.environ["LEROBOT_DIAGNOSTICS_DATA"])
    names = chosen.split(",") if chosen else DATA_SETS
    sets = {name: open_recording(root=root / name / "v30") for name in DATA_SETS}
    first = {name: next(iter(r.episode(r.total_episodes - 1).frames(r.cameras[0], [0]))) for name, r in sets.items()}
    for name in names:
        stranger = first[next(other for other in DATA_SETS if other != name)]
        try:
            result = play(name, sets[name], stranger)
        except UsageError as error:
            print(f"{name}: {error}")
            continue
        print(f"\n{name}: {result['episodes']} episodes, {result['checks']} checks")
        print(f"  stopped: {len(result['stops'])}", *result["stops"], sep="\n    ")
        print("  warned of:", ", ".join(f"{c} in {n}" for c, n in result["warnings"].items()) or "nothing")
        passes = ", ".join(f"{c} {result['passed'][c]} of {n}" for c, n in result["tried"].items())
        print(f"  wrong pictures that passed: {passes}")
    if "so101_sim_2cam" in names:
        print("\ncost, two cameras at 640x480 on one thread   median   95th percentile   (ms a camera frame)")
        for what, median, high in cost(sets["so101_sim_2cam"], 1):
            print(f"  {what:42s} {median:7.3f} {high:17.3f}")


if __name__ == "__main__":
    main()
