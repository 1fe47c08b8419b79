"""The simulated arm as a LeRobot robot: every fault shows in its pictures or readings, and only there."""

import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from lerobot.cameras import CameraConfig
from lerobot.robots import RobotConfig, make_robot_from_config

if not find_spec("mujoco"):  # not imported here: the package chooses the renderer first
    pytest.skip("extra sim", allow_module_level=True)

import lerobot_diagnostics.plugin  # noqa: F401
from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.sim.config_so101_sim import (
    JOINTS,
    CameraFault,
    SimCameraConfig,
    SimFaults,
    SO101SimConfig,
)
from lerobot_diagnostics.sim.so101_sim import SO101Sim

SIZE = SimCameraConfig(width=160, height=120)


class Clock:
    """Wall clock and sleep in one."""

    now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def connect(tmp_path, clock: Clock | None = None, **config) -> SO101Sim:
    config = {"cameras": {"front": SIZE, "top": SIZE}, "real_time": False, "calibration_dir": tmp_path} | config
    clock = clock or Clock()
    robot = SO101Sim(SO101SimConfig(**config), clock=clock, sleep=clock.sleep)
    robot.connect()
    return robot


@pytest.fixture(scope="module")
def healthy(tmp_path_factory):
    robot = connect(tmp_path_factory.mktemp("healthy"), cameras=dict.fromkeys(("front", "top", "wrist"), SIZE))
    yield robot.get_observation()
    robot.disconnect()


def observe(tmp_path, faults: SimFaults, **config) -> dict:
    robot = connect(tmp_path, faults=faults, **config)
    observation = robot.get_observation()
    robot.disconnect()
    return observation


def difference(a: np.ndarray, b: np.ndarray) -> float:
    """Mean absolute difference in grey values."""
    return float(np.abs(a.astype(float) - b).mean())


def test_lerobot_makes_it_from_its_config(tmp_path):
    robot = make_robot_from_config(SO101SimConfig(calibration_dir=tmp_path))
    assert isinstance(robot, SO101Sim)
    assert RobotConfig.get_choice_class("so101_sim") is SO101SimConfig
    assert list(robot.action_features) == [f"{joint}.pos" for joint in JOINTS]
    assert robot.observation_features["front"] == (240, 320, 3)
    assert not issubclass(SimCameraConfig, CameraConfig)  # there is nothing to open


def test_a_healthy_arm_repeats_itself_and_sees_everything(tmp_path, healthy):
    again = observe(tmp_path, SimFaults(), cameras=dict.fromkeys(("front", "top", "wrist"), SIZE))
    assert again.keys() == healthy.keys()
    for key, value in healthy.items():
        assert np.array_equal(again[key], value), key
    for camera in ("front", "top", "wrist"):
        red, green, blue = np.moveaxis(healthy[camera].astype(int), -1, 0)
        assert ((red > 2 * green) & (red > 2 * blue)).sum() > 15, f"no cube in {camera}"
        assert ((red > 2 * blue) & (green > 1.5 * blue) & (red > 90)).sum() > 100, f"no arm in {camera}"
        if camera != "wrist":
            assert ((blue > 2 * red) & (blue > 60)).sum() > 100, f"no tray in {camera}"


def test_another_seed_moves_the_cube_only(tmp_path, healthy):
    other = observe(tmp_path, SimFaults(), seed=3)
    changed = np.abs(other["top"].astype(int) - healthy["top"]).sum(-1) > 30
    assert 10 < changed.sum() < 0.02 * changed.size


@pytest.mark.parametrize(
    ("faults", "touched", "untouched"),
    [
        (SimFaults(cameras={"front": CameraFault(move_m=[0.01, 0, 0])}), "front", "top"),
        (SimFaults(cameras={"top": CameraFault(turn_deg=[0, 0, 2])}), "top", "front"),
        (SimFaults(cameras={"front": CameraFault(swap_red_blue=True)}), "front", "top"),
        (SimFaults(cameras={"front": CameraFault(rotate_deg=180)}), "front", "top"),
        (SimFaults(cameras={"front": CameraFault(mirror=True)}), "front", "top"),
        (SimFaults(cameras={"top": CameraFault(crop=0.8)}), "top", "front"),
        (SimFaults(cameras={"top": CameraFault(dead_from_s=0.0)}), "top", "front"),
        (SimFaults(swap=["front", "top"]), "front", None),
        (SimFaults(light_level=0.6), "front", None),
        (SimFaults(light_color=[1.0, 0.9, 0.6]), "top", None),
        (SimFaults(cube_move_m=[0.03, 0.0]), "top", None),
        (SimFaults(tray_move_m=[0.0, 0.02]), "top", None),
        (SimFaults(base_move_m=[0.02, 0.0]), "top", None),
        (SimFaults(base_turn_deg=6.0), "top", None),
    ],
)
def test_faults_of_cameras_light_and_workspace_show_in_the_pictures(tmp_path, healthy, faults, touched, untouched):
    seen = observe(tmp_path, faults)
    changed = np.abs(seen[touched].astype(int) - healthy[touched]).max(-1) > 20
    assert changed.sum() > 20
    if untouched:
        assert np.array_equal(seen[untouched], healthy[untouched])
    assert {k: v for k, v in seen.items() if k.endswith(".pos")} == {
        k: v for k, v in healthy.items() if k.endswith(".pos")
    }


def test_swapped_cameras_deliver_each_others_picture(tmp_path, healthy):
    seen = observe(tmp_path, SimFaults(swap=["front", "top"]))
    assert np.array_equal(seen["front"], healthy["top"])
    assert np.array_equal(seen["top"], healthy["front"])


def test_exact_picture_faults(tmp_path, healthy):
    assert np.array_equal(
        observe(tmp_path, SimFaults(cameras={"front": CameraFault(swap_red_blue=True)}))["front"],
        healthy["front"][..., ::-1],
    )
    assert np.array_equal(
        observe(tmp_path, SimFaults(cameras={"front": CameraFault(rotate_deg=90)}))["front"], np.rot90(healthy["front"])
    )
    served = observe(tmp_path, SimFaults(cameras={"front": CameraFault(width=320, height=240)}))["front"]
    assert served.shape == (240, 320, 3)
    assert not observe(tmp_path, SimFaults(cameras={"front": CameraFault(dead_from_s=0.0)}))["front"].any()


def test_a_frozen_camera_repeats_itself_while_the_arm_moves(tmp_path):
    robot = connect(tmp_path, faults=SimFaults(cameras={"front": CameraFault(frozen_from_s=0.2)}))
    pictures = []
    for step in range(15):
        pictures.append(robot.get_observation())
        robot.send_action({"shoulder_pan.pos": 4.0 * step})
    robot.disconnect()
    assert difference(pictures[2]["front"], pictures[4]["front"]) > 0
    assert np.array_equal(pictures[8]["front"], pictures[14]["front"])
    assert difference(pictures[8]["top"], pictures[14]["top"]) > 0.5


def test_a_failing_camera_raises_as_lerobots_do(tmp_path):
    robot = connect(tmp_path, faults=SimFaults(cameras={"top": CameraFault(fails_from_s=0.1)}))
    robot.get_observation()
    for _ in range(4):
        robot.send_action({})
    with pytest.raises(TimeoutError, match="top"):
        robot.get_observation()
    robot.disconnect()


def test_noise_on_the_readings(tmp_path):
    robot = connect(tmp_path, cameras={}, faults=SimFaults(noise_deg=0.5))
    readings = np.array([[robot.get_observation()[f"{joint}.pos"] for joint in JOINTS] for _ in range(300)])
    robot.disconnect()
    assert readings[:, :5].std(0) == pytest.approx(np.full(5, 0.5), rel=0.2)


def test_late_readings_trail_by_their_age(tmp_path):
    def track(faults: SimFaults) -> np.ndarray:
        robot = connect(tmp_path, cameras={}, faults=faults)
        angles = []
        for step in range(30):
            angles.append(robot.get_observation()["shoulder_pan.pos"])
            robot.send_action({"shoulder_pan.pos": 1.0 * step})
        robot.disconnect()
        return np.array(angles)

    prompt, late = track(SimFaults()), track(SimFaults(late_s=0.1))  # three frames at 30 fps
    assert late[10:] == pytest.approx(prompt[7:-3])


def test_failing_reads_are_connection_errors_every_nth_time(tmp_path):
    robot = connect(tmp_path, cameras={}, faults=SimFaults(fail_every=3))
    failed = []
    for _ in range(6):
        try:
            robot.get_observation()
            failed.append(False)
        except ConnectionError:
            failed.append(True)
    robot.disconnect()
    assert failed == [False, False, True] * 2


def test_a_slow_loop_takes_its_time(tmp_path):
    clock = Clock()
    robot = connect(tmp_path, clock, cameras={}, faults=SimFaults(slow_s=0.08))
    for _ in range(5):
        robot.get_observation()
    robot.disconnect()
    assert clock.now == pytest.approx(0.4)


def test_in_real_time_the_arm_moves_with_the_wall_clock(tmp_path):
    clock = Clock()
    robot = connect(tmp_path, clock, cameras={}, real_time=True)
    robot.send_action({"shoulder_pan.pos": 20.0})
    assert robot.get_observation()["shoulder_pan.pos"] == 0.0
    clock.now += 0.4
    assert robot.get_observation()["shoulder_pan.pos"] == pytest.approx(20.0, abs=0.5)
    robot.disconnect()


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"cameras": {"side": SIZE}}, "--robot.cameras names side"),
        ({"faults": SimFaults(joint_zero_deg={"elbow": 3.0})}, "joint_zero_deg names elbow"),
        ({"faults": SimFaults(swap=["front"])}, "swap takes two"),
    ],
)
def test_wrong_names_are_refused_with_the_flag(tmp_path, config, named):
    with pytest.raises(UsageError, match=named):
        SO101Sim(SO101SimConfig(calibration_dir=tmp_path, **config))


@pytest.mark.parametrize(
    ("first", "policies", "limit_s"),
    [  # measured: 0.01, 0.05, 0.14 s; the last registers the align strategy too, in a command that takes 3 s to start
        ("lerobot.scripts.lerobot_calibrate", False, 0.2),
        ("lerobot.scripts.lerobot_teleoperate", True, 0.2),
        ("lerobot.rollout", True, 0.5),
    ],
)
def test_discovery_is_cheap_and_imports_nothing_heavy(first, policies, limit_s):
    code = f"""
import sys, time, {first}
before, start = set(sys.modules), time.process_time()  # of this process alone: others may be busy
import lerobot_robot_diagnostics
spent, new = time.process_time() - start, set(sys.modules) - before
assert not new & {{"mujoco", "rerun", "lerobot.rollout", "torch", "trimesh"}}, new
assert ("lerobot_diagnostics.sim.configuration_sim_policy" in new) is {policies}
print(spent)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout.split()[-1]) < limit_s
