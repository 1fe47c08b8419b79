"""Faults drawn at random in the simulated setup, judged blind by the whole ladder: who is blamed, who is left alone?

    python benchmarks/fault_injection.py --only healthy,swapped --draws 3
    python benchmarks/fault_injection.py --draws 10 --healthy 150 --part 1/2 --output 1.jsonl &   # an hour on two cores
    python benchmarks/fault_injection.py --draws 10 --healthy 150 --part 2/2 --output 2.jsonl     # (train first)
    python benchmarks/fault_injection.py --tables 1.jsonl 2.jsonl

Demonstrations are recorded and a policy is trained on them once (kept in ``--work``). A draw is that setup with one
thing changed, or with nothing changed but what changes from day to day: where the cube lies within its usual places,
and the light by up to 12 %. ``lerobot-diagnose`` judges it with what a user has, the arm moving for calibration by
sight, and is never told what was changed. Printed: the confusion table of causes, and every miss with what decided it.
"""

from __future__ import annotations

import argparse
import functools
import json
import logging
import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import pyarrow.parquet as pq
import torch
from lerobot.datasets.lerobot_dataset import LeRobotDataset

import lerobot_diagnostics.plugin  # noqa: F401  (registers the arm and the policy)
from lerobot_diagnostics.diagnose import Inputs
from lerobot_diagnostics.diagnose.ladder import Outcome, Rung, climb
from lerobot_diagnostics.diagnose.run import Ladder, summarize
from lerobot_diagnostics.findings import Report
from lerobot_diagnostics.sight import compare
from lerobot_diagnostics.sim.config_so101_sim import JOINTS, CameraFault, SimCameraConfig, SimFaults, SO101SimConfig
from lerobot_diagnostics.sim.record import record
from lerobot_diagnostics.sim.so101_sim import SO101Sim
from lerobot_diagnostics.sim.train import train

REPO_ID = "local/fault_injection"
FPS = 10
DEMONSTRATIONS, TRAINED = 14, 10
CAMERAS = ("front", "top")
LIVE_FPS = 5
"""Rate of the live cameras: rendering is most of the work, and the arm stands still where pictures count."""
LIGHT = 0.12
"""Change of light that is no fault: episodes of one real recording differ by up to 13 % (see vision.lighting)."""


@dataclass(frozen=True)
class Draw:
    """One setup: what was changed (``kind``), the causes that are right, and how to make it."""

    kind: str
    causes: frozenset[str]
    faults: SimFaults
    seed: int
    policy: Callable[[Path, Path], None] | None = None
    data: Callable[[Path, Path], None] | None = None

    @property
    def told(self) -> str:
        """For the table of misses."""
        default = SimFaults()
        changed = {k: v for k, v in vars(self.faults).items() if v != getattr(default, k)}
        return f"{self.kind} {changed}"


def signed(rng: np.random.Generator, low: float, high: float, count: int | None = None) -> Any:
    """Sizes between ``low`` and ``high`` of either sign."""
    return rng.choice((-1.0, 1.0), count) * rng.uniform(low, high, count)


def away(rng: np.random.Generator, low: float, high: float) -> list[float]:
    """A displacement on the table in any direction."""
    angle, size = rng.uniform(0, 2 * np.pi), rng.uniform(low, high)
    return [float(size * np.cos(angle)), float(size * np.sin(angle))]


def cast(rng: np.random.Generator) -> list[float]:
    """A warm or a cold light."""
    weak = float(rng.uniform(0.7, 1.0))
    return [1.0, 0.5 + weak / 2, weak] if rng.random() < 0.5 else [weak, 0.5 + weak / 2, 1.0]


def one_camera(rng: np.random.Generator, **fault: Any) -> dict[str, CameraFault]:
    return {str(rng.choice(CAMERAS)): CameraFault(**fault)}


# kind: (right causes, faults of a draw)
KINDS: Mapping[str, tuple[str, Callable[[np.random.Generator], SimFaults]]] = {
    "camera moved": (
        "cameras",
        lambda r: SimFaults(
            cameras=one_camera(r, move_m=signed(r, 0.01, 0.03, 3).tolist(), turn_deg=signed(r, 0.7, 3.0, 3).tolist())
        ),
    ),
    "swapped": ("cameras", lambda _r: SimFaults(swap=list(CAMERAS))),
    "channels": ("cameras", lambda r: SimFaults(cameras=one_camera(r, swap_red_blue=True))),
    "dead camera": ("cameras", lambda r: SimFaults(cameras=one_camera(r, dead_from_s=0.0))),
    # Dimmer or of another colour: OpenGL clamps a brighter light before it meets the texture, so that it hardly shows.
    "light": ("lighting", lambda r: SimFaults(light_level=float(r.uniform(0.4, 0.7)), light_color=cast(r))),
    "object moved": ("workspace", lambda r: SimFaults(tray_move_m=away(r, 0.02, 0.05))),
    "base moved": (
        "workspace",
        lambda r: SimFaults(base_move_m=away(r, 0.01, 0.03), base_turn_deg=float(signed(r, 1.0, 5.0))),
    ),
    **{
        f"zero of {joint}": (
            "calibration",
            lambda r, joint=joint: SimFaults(joint_zero_deg={joint: float(signed(r, 3.0, 6.0))}),
        )
        for joint in JOINTS
    },
    "slow loop": ("clock", lambda r: SimFaults(slow_s=float(r.uniform(0.15, 0.4)))),
    "bus errors": ("motors", lambda r: SimFaults(fail_every=int(r.integers(4, 20)))),
    "units": ("units", lambda _r: SimFaults()),
    "names": ("units config data", lambda _r: SimFaults()),
    "statistics key": ("model config", lambda _r: SimFaults()),
    "permuted joints": ("model config", lambda _r: SimFaults()),
    "untrained policy": ("model", lambda _r: SimFaults()),
    "healthy": ("none_found", lambda _r: SimFaults()),
}


def draws(rng: np.random.Generator, kinds: Sequence[str], each: int, healthy: int) -> Iterator[Draw]:
    for kind in kinds:
        causes, faults = KINDS[kind]
        for _ in range(healthy if kind == "healthy" else each):
            drawn = faults(rng)
            if drawn.light_level == 1.0:
                drawn.light_level = float(rng.uniform(1 - LIGHT, 1 + LIGHT))
            drawn.noise_deg = 0.05
            seed = int(rng.integers(1000, 1_000_000))
            yield Draw(kind, frozenset(causes.split()), drawn, seed, **alterations(kind, seed))


def alterations(kind: str, seed: int) -> dict[str, Callable[[Path, Path], None]]:
    """What is changed in a copy of the files."""
    rng = np.random.default_rng(seed)
    if kind == "units":
        return {"data": lambda data, _policy: rewrite(data, columns=to_percent)}
    if kind == "names":
        joint = int(rng.integers(len(JOINTS)))
        return {"data": lambda data, _policy: rename(data, joint)}
    if kind == "permuted joints":
        a, b = rng.choice(5, 2, replace=False)
        order = list(range(6))
        order[a], order[b] = order[b], order[a]
        return {"policy": lambda _data, policy: permute(policy, order)}
    if kind == "statistics key":
        return {"policy": lambda _data, policy: drop_statistics(policy)}
    if kind == "untrained policy":
        return {"policy": lambda data, policy: untrain(data, policy, seed)}
    return {}


def to_percent(values: np.ndarray) -> np.ndarray:
    """Degrees as the ±100 of a joint whose range is 2,000 to 2,600 ticks wide, on the encoder's own grid."""
    widths = np.array([2400, 2100, 2200, 2050, 2600])
    result = values.copy()
    ticks = np.round(values[:, :5] * 4095 / 360)
    result[:, :5] = ticks * 200 / widths
    return result


def rewrite(data: Path, columns: Callable[[np.ndarray], np.ndarray]) -> None:
    import pyarrow as pa

    for path in sorted((data / "data").rglob("*.parquet")):
        table = pq.read_table(path)
        for name in ("action", "observation.state"):
            values = columns(np.stack(table.column(name).to_numpy()).astype(np.float64)).astype(np.float32)
            field = table.schema.field(name)
            table = table.set_column(table.schema.get_field_index(name), field, pa.array(list(values), field.type))
        pq.write_table(table, path)


def rename(data: Path, joint: int) -> None:
    path = data / "meta" / "info.json"
    info = json.loads(path.read_text())
    for key in ("action", "observation.state"):
        info["features"][key]["names"][joint] = "joint_x.pos"
    path.write_text(json.dumps(info))


def permute(policy: Path, order: Sequence[int]) -> None:
    """Exchange two joints of what comes out: the statistics that unnormalise go with them, as in a wrong order."""
    from lerobot.configs import PreTrainedConfig
    from lerobot.policies.factory import get_policy_class

    config = PreTrainedConfig.from_pretrained(policy)
    model = get_policy_class(config.type).from_pretrained(policy)
    last = [m for m in model.modules() if isinstance(m, torch.nn.Linear)][-1]
    rows = torch.arange(last.out_features).reshape(-1, len(order))[:, list(order)].reshape(-1)
    with torch.no_grad():
        last.weight.copy_(last.weight[rows])
        last.bias.copy_(last.bias[rows])
    model.save_pretrained(policy)
    from safetensors.torch import load_file, save_file

    for path in policy.glob("policy_postprocessor_step_*.safetensors"):
        tensors = load_file(path)
        for key, value in tensors.items():
            if key.startswith("action.") and value.shape[-1:] == (len(order),):
                tensors[key] = value[..., list(order)].contiguous()
        save_file(tensors, path)


def drop_statistics(policy: Path) -> None:
    """The action's statistics under another key, in both processors: LeRobot then leaves actions normalised."""
    from safetensors.torch import load_file, save_file

    for path in policy.glob("policy_*processor_step_*.safetensors"):
        tensors = load_file(path)
        save_file({k.replace("action.", "actions."): v for k, v in tensors.items()}, path)


def untrain(data: Path, policy: Path, seed: int) -> None:
    shutil.rmtree(policy)
    train(LeRobotDataset(REPO_ID, root=data), list(range(TRAINED)), policy, steps=2, seed=seed)


class Clock:
    """Time that passes only where something waits, so that ten seconds of reading take no ten seconds."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += max(seconds, 0.0)


def make_setup(work: Path) -> tuple[Path, Path]:
    """Demonstrations and a policy trained on them, made once."""
    data, policy = work / "dataset", work / "policy"
    if not (work / "done").exists():
        config = SO101SimConfig(cameras={name: SimCameraConfig() for name in CAMERAS}, faults=SimFaults(noise_deg=0.05))
        record(data, REPO_ID, config, seeds=range(DEMONSTRATIONS), fps=FPS)
        train(LeRobotDataset(REPO_ID, root=data), list(range(TRAINED)), policy)
        (work / "done").touch()
    return data, policy


class Judge:
    """``lerobot-diagnose`` on a draw's files and arm, the replay left out: there a person says whether it landed."""

    def __init__(self, data: Path, policy: Path, scratch: Path) -> None:
        self.data, self.policy, self.scratch = data, policy, scratch
        self.model: dict[str, Outcome] = {}

    def __call__(self, draw: Draw) -> Report:
        data, policy = self.data, self.policy
        if draw.data is not None:
            data = shutil.copytree(data, self.scratch / f"data_{draw.seed}")
        if draw.policy is not None:
            policy = shutil.copytree(policy, self.scratch / f"policy_{draw.seed}")
        for alter in (draw.data, draw.policy):
            if alter is not None:
                alter(data, policy)
        clock = Clock()
        config = SO101SimConfig(
            cameras={name: SimCameraConfig(fps=LIVE_FPS) for name in CAMERAS},
            seed=draw.seed,
            faults=draw.faults,
            real_time=True,
        )
        robot = SO101Sim(config, clock=clock, sleep=clock.sleep)
        inputs = Inputs(
            policy_path=str(policy), repo_id=REPO_ID, root=str(data), device="cpu", robot=robot, replay=True, yes=True
        )
        out = self.scratch / f"report_{draw.seed}"
        out.mkdir()
        ladder = Ladder(inputs, out, {}, clock, clock.sleep, 3.0)
        altered = draw.data is not None or draw.policy is not None

        def rungs() -> Iterator[Rung]:
            for rung in ladder.rungs():
                if rung.name == "replay":
                    continue
                if rung.name == "open loop" and not altered and rung.run is not None:
                    rung = replace(rung, run=functools.partial(self._once, rung.run))
                yield rung

        with redirect_stdout(StringIO()):
            report = summarize(climb(rungs(), lambda _line: None), inputs, {})
        for path in (out, self.scratch / f"data_{draw.seed}", self.scratch / f"policy_{draw.seed}"):
            shutil.rmtree(path, ignore_errors=True)
        return report

    def _once(self, run: Callable[[], Outcome]) -> Outcome:
        """Open loop on files that are the same in every draw gives the same: predicted once."""
        if "same" not in self.model:
            self.model["same"] = run()
        return self.model["same"]


def remember_cameras() -> None:
    """Solving a camera from the same recording gives the same: solved once a process."""
    solve = compare._solve
    known: dict[Any, Any] = {}

    def remembered(arm: Any, before: Any, cameras: Sequence[str]) -> Any:
        key = (before.readings.tobytes(), tuple(cameras))
        if key not in known:
            known[key] = solve(arm, before, cameras)
        return known[key]

    compare._solve = remembered


Result = Mapping[str, Any]
"""One draw and its report, as a line of ``--output`` holds them."""


def result_of(draw: Draw, report: Report) -> Result:
    told = {"kind": draw.kind, "told": draw.told, "right": report.verdict.cause in draw.causes}
    return told | {"zeros": dict(draw.faults.joint_zero_deg)} | report.to_dict()


def print_results(results: Sequence[Result]) -> None:
    counts = Counter((result["kind"], result["verdict"]["cause"]) for result in results)
    causes = sorted({cause for _, cause in counts})
    print(f"{'truth':24}" + "".join(f"{cause:>12}" for cause in causes) + f"{'right':>14}")
    for kind in KINDS:
        mine = [result["right"] for result in results if result["kind"] == kind]
        if mine:
            row = "".join(f"{counts[kind, cause] or '.':>12}" for cause in causes)
            print(f"{kind:24}{row}{sum(mine):>8} of {len(mine)}")
    for what, healthy in (("faults with the right cause on top", False), ("healthy called healthy", True)):
        rights = [result["right"] for result in results if (result["kind"] == "healthy") is healthy]
        if rights:
            print(f"{what}: {sum(rights)} of {len(rights)} = {100 * np.mean(rights):.1f} %")
    print_zeros(results)
    print("\nmisses")
    for result in results:
        if not result["right"]:
            print(f"  {result['told']}\n    -> {result['verdict']['cause']}: {result['verdict']['summary'][:220]}")
            for finding in result["findings"]:
                if finding["status"] in ("fail", "warn") or finding["code"] in ("UNDECIDED", "JOINT_OFFSET"):
                    print(
                        f"       {finding['status']} {finding['code']} {finding['subject']}: {finding['summary'][:160]}"
                    )


def print_zeros(results: Sequence[Result]) -> None:
    """How often the joint whose zero had moved was named, and how far its zero was missed."""
    for joint in JOINTS:
        drawn = [result for result in results if list(result["zeros"]) == [joint]]
        named = [
            (finding["evidence"].get("offset_deg", finding["evidence"].get("offset_pct")), result["zeros"][joint])
            for result in drawn
            for finding in result["findings"]
            if (finding["code"], finding["status"], finding["subject"]) == ("JOINT_OFFSET", "fail", joint)
        ]
        missed = np.abs(np.subtract(*np.array(named).T)) if named else np.full(1, np.nan)
        unit = "of 100" if joint == "gripper" else "deg"
        if drawn:
            print(
                f"{joint}: named in {len(named)} of {len(drawn)}, zero missed by {np.median(missed):.2f} (median), "
                f"{missed.max():.2f} (largest) {unit}"
            )


def main() -> None:
    """Draw, judge, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=10, help="of each fault")
    parser.add_argument("--healthy", type=int, default=150)
    parser.add_argument("--only", help="comma-separated kinds: " + ", ".join(KINDS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "fault_injection")
    parser.add_argument("--output", type=Path, help="append every draw and verdict as JSON lines")
    parser.add_argument("--part", default="1/1", help="k/n: every n-th draw, to run several processes side by side")
    parser.add_argument("--tables", type=Path, nargs="+", help="only print what these --output files hold together")
    options = parser.parse_args()
    if options.tables:
        lines = [line for path in options.tables for line in path.read_text(encoding="utf-8").splitlines()]
        print_results([json.loads(line) for line in lines])
        return
    logging.getLogger().setLevel(logging.ERROR)
    torch.set_num_threads(1)
    kinds = options.only.split(",") if options.only else list(KINDS)
    part, parts = map(int, options.part.split("/"))
    data, policy = make_setup(options.work)
    rng = np.random.default_rng(options.seed)
    every = list(draws(rng, kinds, options.draws, options.healthy))
    every = [every[i] for i in rng.permutation(len(every))][part - 1 :: parts]
    remember_cameras()
    results, started = [], time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        judge = Judge(data, policy, Path(scratch))
        for number, draw in enumerate(every, start=1):
            results.append(result := result_of(draw, judge(draw)))
            if options.output:
                with options.output.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(result) + "\n")
            mark = "" if result["right"] else f"  MISS: {result['verdict']['cause']}"
            print(f"{number}/{len(every)} {draw.kind}{mark}  [{time.perf_counter() - started:.0f} s]", flush=True)
    print_results(results)


if __name__ == "__main__":
    main()
