"""How punctual commands are: lerobot-replay-compare beside stock lerobot-replay in the same run.

    python benchmarks/replay_timing.py --runs 5 --seconds 10

Both replay the same episode at 30 Hz on the servo rig (tests/rig, POSIX only). Ours has two 640×480 network cameras,
writes what the viewer shows to an .rrd file and records an mp4; stock has neither, because lerobot-replay takes no
network cameras and shows nothing. "bare" is ours with the cameras only, "joints" without: what is left is the rig's
own. The runs alternate. How late command k is counts from k / 30 s after the start, the start being where the most
punctual command puts it: when the replaying process writes it to the port, and when the rig's servos have it.
Between the two lies the pseudo-terminal, a worker of the kernel's that waits for a processor, which a USB port does
not need.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from make_dataset import make_dataset  # noqa: E402
from rig import JOINTS, FramePublisher, ServoRig  # noqa: E402
from rig.servos import REST, to_ticks, to_units  # noqa: E402

FPS = 30
ROWS = ("stock", "ours", "bare", "joints")

STAMPED = """
import atexit, json, sys, time
import serial
path, times, write = sys.argv.pop(1), [], serial.Serial.write
def stamped(port, packet):
    if bytes(packet[4:6]) == bytes((0x83, 42)):  # SYNC_WRITE to Goal_Position
        times.append(time.monotonic())
    return write(port, packet)
serial.Serial.write = stamped
atexit.register(lambda: json.dump(times, open(path, "w")))
"""
"""Goes before what replays, stock or ours: keeps when it writes each goal to the port."""


def motion(_episode: int, length: int) -> np.ndarray:
    """``[T, 6]`` a slow wave from the rest pose, on whole encoder ticks."""
    t = np.arange(length) / FPS
    columns = []
    for number, joint in enumerate(JOINTS):
        inwards = 1 if joint in ("shoulder_lift", "gripper") else -1
        values = REST[joint] + inwards * 12 * (1 - np.cos(t * (0.5 + 0.1 * number)))
        columns.append([to_units(joint, round(to_ticks(joint, value))) for value in values])
    return np.array(columns).T


def publish() -> None:
    """Two cameras until standard input closes; prints their configurations."""
    rng = np.random.default_rng(0)
    scene = cv2.GaussianBlur(rng.integers(0, 255, (480, 640, 3)).astype(np.uint8), (0, 0), 5)
    still = {"front": scene, "wrist": scene[::-1]}
    with FramePublisher(lambda _s: still) as publisher:
        print(json.dumps({camera: publisher.config(camera, 480, 640) for camera in still}), flush=True)
        sys.stdin.read()


@contextlib.contextmanager
def publishing() -> Iterator[dict[str, str]]:
    """The cameras in a process of their own: in one with the rig they would delay its servos, whose clock is read."""
    command = [sys.executable, __file__, "--publish"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        yield json.loads(process.stdout.readline())
        process.stdin.close()


def play(name: str, folder: Path, data: Path, run: int) -> tuple[list[np.ndarray], str]:
    """One replay in a process of its own: when its goals were written and when they arrived (nothing if it failed),
    and what it printed."""
    start = dict(zip(JOINTS, motion(0, 1)[0], strict=True))
    with ServoRig(start=start) as rig, publishing() as publisher:
        if not rig.go_first():
            print("The rig's servos wait for a processor like everything else here: ", end="")
        rig.save_calibration(folder)
        arguments = ["--robot.type=so101_follower", "--robot.id=rig", f"--robot.port={rig.port}"]
        arguments += [f"--robot.calibration_dir={folder}", f"--dataset.root={data}", "--dataset.episode=0"]
        if name == "stock":
            code = "from lerobot.scripts.lerobot_replay import main; main()"
            arguments += ["--dataset.repo_id=local/data", "--play_sounds=false"]
        else:
            cameras = (
                "" if name == "joints" else ", ".join(f"{camera}: {publisher[camera]}" for camera in ("front", "wrist"))
            )
            code = "from lerobot_diagnostics.cli.replay_compare import main; sys.exit(main())"
            arguments += [f"--robot.cameras={{{cameras}}}", "--speed=1", "--yes=true", "--return_to_start=false"]
            arguments += [f"--output_dir={folder / f'{name}{run}'}"]
            if name == "ours":
                arguments += ["--save_rrd=true", f"--record={folder / f'{run}.mp4'}"]
        stamps = folder / f"{name}{run}.json"
        command = [sys.executable, "-c", STAMPED + code, str(stamps), *arguments]
        path = os.pathsep.join([str(ROOT), str(ROOT / "discovery"), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}, check=False
        )
        if done.returncode:
            reason = (done.stderr.strip() or done.stdout.strip()).splitlines()
            return [], f"exit code {done.returncode}: {reason[-1] if name == 'stock' else ' '.join(reason[:4])}"
        arrived = np.array([write.time_s for write in rig.bank.writes("Goal_Position")])
        written = np.array(json.loads(stamps.read_text(encoding="utf-8")))
    return [written, arrived], done.stdout


def lateness(times: np.ndarray) -> np.ndarray:
    """``[4]`` ms: how late, median, 99th percentile and worst, and the 99th percentile of a period's error."""
    error = times - np.arange(len(times)) / FPS
    error = (error - error.min()) * 1000
    period = np.abs(np.diff(times) - 1 / FPS) * 1000
    return np.round([*np.percentile(error, [50, 99]), error.max(), np.percentile(period, 99)], 2)


def main() -> None:
    """Print a row a run and the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--only", default=",".join(ROWS), help="comma-separated rows")
    parser.add_argument("--publish", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.publish:
        publish()
        return
    frames = round(arguments.seconds * FPS)
    rows: dict[str, list[list[np.ndarray]]] = {name: [] for name in arguments.only.split(",")}
    if not set(rows) <= set(ROWS):
        parser.error(f"--only takes {', '.join(ROWS)}")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        data = make_dataset(
            folder / "data", lengths=(frames,), fps=FPS, states=motion, cameras={"front": "h264", "wrist": "h264"},
            picture_size=(480, 640), actions=motion,
        )  # fmt: skip
        for run in range(arguments.runs):
            for name in rows:
                times, said = play(name, folder, data, run)
                if not times:  # a machine too busy to answer LeRobot's servo reads in time
                    print(f"{name:6} run {run}: {said}")
                    continue
                rows[name].append([lateness(each[-frames:]) for each in times])
                written, arrived = rows[name][-1]
                rest = "; ".join(line for line in said.splitlines() if "not shown" in line)
                print(f"{name:6} run {run}: written {written}, arrived {arrived} {rest}", flush=True)
    print("late p50/p99/worst, period error p99, in ms")
    for name, values in rows.items():
        for what, each in zip(("written", "arrived"), np.median(values, axis=0) if values else (), strict=False):
            print(f"{name:6} {what}, median of {len(values)} runs:", np.round(each, 2))


if __name__ == "__main__":
    main()
