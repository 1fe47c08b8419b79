"""How far may the cube be from where it was recorded before an open-loop replay misses it?

    python examples/replay_tolerance.py --output_dir=outputs/replay_tolerance

One pick is recorded; then the cube is shifted in eight directions and the same commands are replayed, against a plan
made afresh for the shifted cube. Prints successes with 95 % Wilson intervals by distance and draws the tolerance by
direction as a polar plot. A minute and a half on one core.

Measured: replay 7, 5, 3, 1, 1, 1, 1 of 8 at 0.5 to 3.5 cm, 0 of 8 from 4; re-planned 80 of 80; 3.5 cm towards the
moving jaw, under 0.5 cm towards the fixed one. Published for another scene: 8 of 8 at 0.5 cm, 7 at 1, 4 at 1.5, 3 at 2,
1 at 2.5 to 4, 0 from 4.5; 4 cm and 0.5 cm. The shape is the same, shifted by
how the hand comes down: this expert leaves 1 mm between cube and fixed jaw. With 4 mm the two become 3 cm and 0.5 cm
(tried); opening the jaws to 75 instead of 55 changes neither.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import binomtest

from lerobot_diagnostics.sim.config_so101_sim import JOINTS
from lerobot_diagnostics.sim.expert import Kinematics, plan
from lerobot_diagnostics.sim.scene import CUBE_XY_M
from lerobot_diagnostics.sim.world import World

FPS = 30
DISTANCES_CM = np.arange(0.5, 5.01, 0.5)
DIRECTIONS_DEG = np.arange(0, 360, 45)
"""About the vertical, counter-clockwise from the direction in which the moving jaw stands off the cube."""


def succeeds(world: World, cube_xy: np.ndarray, commands: np.ndarray) -> bool:
    """Replay ``commands`` [T, 6] with the cube at ``cube_xy``: is it lifted and in the tray at the end?"""
    world.reset((float(cube_xy[0]), float(cube_xy[1])))
    for j, command in enumerate(commands):
        world.command(dict(zip(JOINTS, command, strict=True)))
        world.advance_to((j + 1) / FPS)
    world.advance_to(len(commands) / FPS + 0.5)
    return world.truth().success


def moving_jaw_direction(world: World, commands: np.ndarray) -> float:
    """Direction of the moving jaw from the cube when the jaws close, radians about the vertical."""
    lowest = min(commands, key=lambda command: Kinematics(world).tool(np.deg2rad(command[:5]))[0][2])
    closing = Kinematics(world).tool(np.deg2rad(lowest[:5]))[1][:, 0]  # from the fixed jaw to the moving one
    return float(np.arctan2(closing[1], closing[0]))


def main() -> None:
    """Run the experiment, print the table, write ``tolerance.json`` and ``tolerance.png``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output_dir", type=Path, default=Path("outputs/replay_tolerance"))
    folder = parser.parse_args().output_dir
    folder.mkdir(parents=True, exist_ok=True)

    world = World()
    tray = world.truth().tray_m.tolist()
    recorded = plan(world, CUBE_XY_M, tray, FPS)
    jaw = moving_jaw_direction(world, recorded)
    control = succeeds(world, np.array(CUBE_XY_M), recorded)
    replayed = np.zeros((len(DISTANCES_CM), len(DIRECTIONS_DEG)), bool)
    planned = np.zeros_like(replayed)
    for i, distance in enumerate(DISTANCES_CM):
        for j, direction in enumerate(np.deg2rad(DIRECTIONS_DEG) + jaw):
            cube = CUBE_XY_M + distance / 100 * np.array([np.cos(direction), np.sin(direction)])
            replayed[i, j] = succeeds(world, cube, recorded)
            planned[i, j] = succeeds(world, cube, plan(world, cube.tolist(), tray, FPS))

    print(f"no shift: replay {'succeeds' if control else 'FAILS'}")
    print("shift cm   replay                    re-planned")
    for distance, replay_row, plan_row in zip(DISTANCES_CM, replayed, planned, strict=True):
        print(f"{distance:8.1f}   {wilson(replay_row):24}  {wilson(plan_row)}")
    print(f"all        {wilson(replayed.ravel()):24}  {wilson(planned.ravel())}")
    tolerance = np.array([longest_run(column) for column in replayed.T])
    for direction, reach in zip(DIRECTIONS_DEG, tolerance, strict=True):
        print(f"{direction:4d}° from the moving jaw's side: every replay succeeds up to {reach:.1f} cm")
    result = {
        "distances_cm": DISTANCES_CM.tolist(),
        "directions_deg": DIRECTIONS_DEG.tolist(),
        "replayed": replayed.tolist(),
        "replanned": planned.tolist(),
        "tolerance_cm": tolerance.tolist(),
    }
    (folder / "tolerance.json").write_text(json.dumps(result, indent=1))
    draw(tolerance, folder / "tolerance.png")
    print(f"wrote {folder / 'tolerance.json'} and {folder / 'tolerance.png'}")


def wilson(outcomes: np.ndarray) -> str:
    """Successes of trials with their 95 % Wilson interval."""
    interval = binomtest(int(outcomes.sum()), len(outcomes)).proportion_ci(method="wilson")
    return f"{outcomes.sum()}/{len(outcomes)} ({interval.low:.0%}–{interval.high:.0%})"


def longest_run(column: np.ndarray) -> float:
    """Largest shift in cm up to which all succeed."""
    misses = np.flatnonzero(~column)
    passed = misses[0] if len(misses) else len(column)
    return float(DISTANCES_CM[passed - 1]) if passed else 0.0


def draw(tolerance: np.ndarray, path: Path) -> None:
    """Tolerance by direction as a polar plot, the moving jaw at the top."""
    figure, axes = plt.subplots(subplot_kw={"projection": "polar"}, figsize=(5, 5))
    axes.set_theta_zero_location("N")
    around = np.deg2rad(np.append(DIRECTIONS_DEG, DIRECTIONS_DEG[0]))
    axes.plot(around, np.append(tolerance, tolerance[0]), marker="o")
    axes.fill(around, np.append(tolerance, tolerance[0]), alpha=0.2)
    axes.set_title("Replay tolerance in cm (0°: moving jaw's side, 180°: fixed jaw's)")
    figure.savefig(path, dpi=120, bbox_inches="tight")
    plt.close(figure)


if __name__ == "__main__":
    main()
