"""The clock rung: does the policy keep up with the rate of its data, and for how long does it act without looking?"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from lerobot_diagnostics.diagnose.ladder import Outcome
from lerobot_diagnostics.findings import Cause, Finding, Status, Table
from lerobot_diagnostics.openloop.checkpoint import LoadedPolicy
from lerobot_diagnostics.openloop.evaluate import bind, observe
from lerobot_diagnostics.openloop.predict import Mode, Predictor, plan_execution
from lerobot_diagnostics.recording import Recording

CALLS, WARM, FEWEST = 10, 2, 3
"""Calls timed, after some that are not (the first ones allocate); fewer where they take long."""

ENOUGH_S = 5.0
"""Timed so long, three calls are enough."""

BUDGET = 0.7
"""Share of a frame that a call may take: the rest is for cameras, bus and sending."""


class Latency(NamedTuple):
    """Seconds that one look takes: mean, 95th percentile, worst."""

    mean: float
    p95: float
    worst: float


def measure(call: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> Latency:
    """Time up to :data:`CALLS` calls one by one."""
    for _ in range(WARM):
        call()
    took: list[float] = []
    while len(took) < CALLS and (len(took) < FEWEST or sum(took) < ENOUGH_S):
        started = clock()
        call()
        took.append(clock() - started)
    return Latency(float(np.mean(took)), float(np.percentile(took, 95)), max(took))


def look(loaded: LoadedPolicy, recording: Recording, episode: int) -> tuple[Callable[[], object], int]:
    """What the control loop does at one look (preprocess, predict, postprocess), and how many actions it gives."""
    plan = plan_execution(loaded)
    binding = bind(recording, loaded)
    source = recording.episode(episode)
    frames = plan.window(0)
    pictures = {camera: list(source.frames(camera, frames)) for camera in binding.cameras}
    window = [
        observe([source], [frame], {camera: p[i][None] for camera, p in pictures.items()}, binding)
        for i, frame in enumerate(frames)
    ]
    predictor = Predictor(loaded, plan, seed=0)
    if plan.mode is Mode.CHUNKS:
        return lambda: predictor.chunks(window), plan.horizon
    act = predictor.ensembled if plan.mode is Mode.ENSEMBLE else predictor.stepped
    return lambda: act(window[-1], start=True), 1


def judge_clock(
    latency: Latency,
    horizon: int,
    fps: float,
    *,
    device: str = "",
    rtc: bool = True,
    here: bool = True,
    loop_hz: float | None = None,
) -> Outcome:
    """SLOW_INFERENCE: does a look fit between two frames, or at least within the actions it gives?

    Args:
        latency: Of one look.
        horizon: Actions executed per look.
        fps: Rate of the data, and so of the loop.
        device: Torch device, for the text.
        rtc: Whether the policy can predict while it acts (``--inference.type=rtc``).
        here: Whether the robot is on this computer; elsewhere a slow policy is only a warning.
        loop_hz: Rate at which arm and cameras were read, if they were.
    """
    frame = 1 / fps
    chunk = horizon * frame
    evidence = {
        "mean_ms": 1e3 * latency.mean, "p95_ms": 1e3 * latency.p95, "worst_ms": 1e3 * latency.worst,
        "frame_ms": 1e3 * frame, "actions_per_look": horizon, "chunk_s": chunk,
    }  # fmt: skip
    on = f" on {device}" if device else ""
    said = (
        f"A look takes {1e3 * latency.mean:.0f} ms{on} (p95 {1e3 * latency.p95:.0f}, worst {1e3 * latency.worst:.0f})"
    )
    helps = "--inference.type=rtc predicts while the arm acts; or use a GPU (--policy.device=cuda)."
    if not rtc:
        helps = "Use a GPU (--policy.device=cuda), or a larger --policy.n_action_steps so that it looks less often."
    if latency.mean > chunk:
        summary = f"{said}, longer than the {chunk:.2f} s of motion it gives: the arm stands still most of the time."
        status = Status.FAIL if here else Status.WARN
        found = Finding("SLOW_INFERENCE", status, Cause.CLOCK, "policy", summary, evidence, helps)
    elif latency.p95 > BUDGET * frame:
        pause = latency.mean - BUDGET * frame
        summary = (
            f"{said}, a frame {1e3 * frame:.0f} ms: the arm waits about {1e3 * max(pause, 0):.0f} ms "
            f"every {chunk:.2f} s."
        )
        found = Finding("SLOW_INFERENCE", Status.WARN, Cause.CLOCK, "policy", summary, evidence, helps)
    else:
        summary = f"{said} and fits into a frame of {1e3 * frame:.0f} ms."
        found = Finding("SLOW_INFERENCE", Status.PASS, Cause.CLOCK, "policy", summary, evidence)
    rows: list[Sequence[object]] = [
        ["data and loop rate", f"{fps:g} fps, {1e3 * frame:.0f} ms a frame"],
        ["one look", f"{1e3 * latency.mean:.0f} ms mean, {1e3 * latency.p95:.0f} p95, {1e3 * latency.worst:.0f} worst"],
        ["acts without looking", f"{horizon} actions, {chunk:.2f} s"],
        [
            "keeps up",
            "no" if latency.mean > chunk else "yes" if found.status is Status.PASS else "with a pause at each look",
        ],
    ]
    if loop_hz is not None:
        rows.append(["arm and cameras alone", f"{loop_hz:.1f} Hz"])
    for steps in sorted({1, max(1, horizon // 2), horizon}):
        share = latency.mean / max(steps * frame, latency.mean + (steps - 1) * frame)
        rows.append(
            [f"with n_action_steps={steps}", f"blind for {steps * frame:.2f} s, waiting {share:.0%} of the time"]
        )
    return Outcome([found], [Table("Clock", ["what", "measured"], rows)], results={"latency_s": latency._asdict()})
