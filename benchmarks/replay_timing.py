"""How punctual commands are on the wire: lerobot-replay-compare beside stock lerobot-replay in the same run.

    python benchmarks/replay_timing.py --runs 5 --seconds 10

Both replay the same episode at 30 Hz on the servo rig (tests/rig, POSIX only). Ours has two 640×480 network cameras,
writes what the viewer shows to an .rrd file and records an mp4; stock has neither, because lerobot-replay takes no
network cameras and shows nothing. "bare" is ours with the cameras only, "joints" without: what is left is the rig's
own. The runs alternate. How late command k is counts from k / 30 s after the start, the start being where the most
punctual command puts it: on the wire, as the rig's servos see it, and as handed to the robot, which stock does not
tell.
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


def play(name: str, folder: Path, data: Path, run: int) -> tuple[np.ndarray | None, str]:
    """One replay in a process of its own: when its goals arrived (None if it failed), and what it printed."""
    start = dict(zip(JOINTS, motion(0, 1)[0], strict=True))
    with ServoRig(start=start) as rig, publishing() as publisher:
        rig.save_calibration(folder)
        arguments = ["--robot.type=so101_follower", "--robot.id=rig", f"--robot.port={rig.port}"]
        arguments += [f"--robot.calibration_dir={folder}", f"--dataset.root={data}", "--dataset.episode=0"]
        if name == "stock":
            code = "from lerobot.scripts.lerobot_replay import main; main()"
            command = [sys.executable, "-c", code, *arguments, "--dataset.repo_id=local/data", "--play_sounds=false"]
        else:
            cameras = (
                "" if name == "joints" else ", ".join(f"{camera}: {publisher[camera]}" for camera in ("front", "wrist"))
            )
            command = [sys.executable, "-m", "lerobot_diagnostics.cli.replay_compare", *arguments]
            command += [f"--robot.cameras={{{cameras}}}", "--speed=1", "--yes=true", "--return_to_start=false"]
            command += [f"--output_dir={folder / f'{name}{run}'}"]
            if name == "ours":
                command += ["--save_rrd=true", f"--record={folder / f'{run}.mp4'}"]
        path = os.pathsep.join([str(ROOT), str(ROOT / "discovery"), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}, check=False
        )
        if done.returncode:
            reason = (done.stderr.strip() or done.stdout.strip()).splitlines()
            return None, f"exit code {done.returncode}: {reason[-1] if name == 'stock' else ' '.join(reason[:4])}"
        times = np.array([write.time_s for write in rig.bank.writes("Goal_Position")])
    said = done.stdout
    if name != "stock":
        report = json.loads((folder / f"{name}{run}" / "report.json").read_text(encoding="utf-8"))
        late = next(f["evidence"] for f in report["findings"] if "late_p99_ms" in f["evidence"])
        said += f"\nhanded over p99 {late['late_p99_ms']:.2f} worst {late['late_worst_ms']:.2f}"
    return times, said


def main() -> None:
    """Print a row a run and the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--publish", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.publish:
        publish()
        return
    frames = round(arguments.seconds * FPS)
    rows: dict[str, list[tuple[float, ...]]] = {"stock": [], "ours": [], "bare": [], "joints": []}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        data = make_dataset(
            folder / "data", lengths=(frames,), fps=FPS, states=motion, cameras={"front": "h264", "wrist": "h264"},
            picture_size=(480, 640), actions=motion,
        )  # fmt: skip
        for run in range(arguments.runs):
            for name in rows:
                times, said = play(name, folder, data, run)
                if times is None:  # a machine too busy to answer LeRobot's servo reads in time
                    print(f"{name:6} run {run}: {said}")
                    continue
                times = times[-frames:]
                error = times - np.arange(frames) / FPS
                error = (error - error.min()) * 1000
                gap = np.abs(np.diff(times) - 1 / FPS) * 1000
                rows[name].append((*np.percentile(error, [50, 99]), error.max(), *np.percentile(gap, [99])))
                rest = "; ".join(line for line in said.splitlines() if "not shown" in line or "handed over" in line)
                print(
                    f"{name:6} run {run}: on the wire late p50/p99/worst, period error p99, ms",
                    np.round(rows[name][-1], 2),
                    rest,
                    flush=True,
                )
    for name, values in rows.items():
        print(
            f"{name:6} median of {len(values)} runs:",
            np.round(np.median(values, axis=0), 2) if values else "none finished",
        )


if __name__ == "__main__":
    main()
