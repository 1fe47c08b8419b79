"""The strategy's phases against a robot without hardware, in this process."""

import io
import json
import threading
import time
from types import SimpleNamespace

import align_stock
import numpy as np
import pytest
import torch
import vision_scenes as scenes
from fake_robot import KEYS, FakeRobot
from lerobot.rollout.context import HardwareContext, RolloutContext, RuntimeContext
from lerobot.rollout.robot_wrapper import ThreadSafeRobot
from make_dataset import make_dataset
from rich.console import Console
from rig.servos import REST

from lerobot_diagnostics.align.align import AlignStrategy
from lerobot_diagnostics.align.config_align import AlignStrategyConfig, ReferenceConfig
from lerobot_diagnostics.align.misalignment import Tolerance
from lerobot_diagnostics.robot import ScriptedKeys
from lerobot_diagnostics.robot.keys import NoKeys

SCENES = {"front": 1, "top": 2}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    return align_stock.recording(tmp_path_factory.mktemp("align") / "data", SCENES)


class SceneRobot(FakeRobot):
    """Sees the recorded scenes, ``shift`` px to the right."""

    def __init__(self, start=REST, *, shift=0):
        super().__init__(start)
        self.config.type = "so101_follower"  # whose kinematics are known
        self.is_connected = True
        self.live = {
            name: [scenes.warped(scenes.camera(seed, 20.0, 40 + k), shift, 0) for k in range(3)]
            for name, seed in SCENES.items()
        }

    @property
    def observation_features(self):
        return {**dict.fromkeys(KEYS, float), **{name: p[0].shape for name, p in self.live.items()}}

    def get_observation(self):
        pictures = {name: p[self.reads % 3] for name, p in self.live.items()}
        return super().get_observation() | pictures

    def disconnect(self):
        self.is_connected = False


class Engine:
    """Always the same action; counts what LeRobot's base loop does with it."""

    def __init__(self, action):
        self.action, self.started, self.stopped = action, 0, 0

    def reset(self): ...
    def resume(self): ...
    def notify_observation(self, _observation): ...

    def start(self):
        self.started += 1

    def stop(self):
        self.stopped += 1

    def get_action(self, _frame):
        return torch.tensor([self.action[key] for key in KEYS])


NEAR = {f"{joint}.pos": value + 1.0 for joint, value in REST.items()}


class Case:
    """One strategy on one robot."""

    def __init__(
        self, recorded, tmp_path, robot, keys=None, *, action=NEAR, back=False, duration=0.15, sounds=False, **config
    ):
        self.robot, self.engine, self.event = robot, Engine(action), threading.Event()
        self.folder = tmp_path / "out"
        cfg = SimpleNamespace(
            policy=SimpleNamespace(pretrained_path=tmp_path / "policy"),
            robot=SimpleNamespace(type="fake"),
            rename_map={},
            display_data=False,
            play_sounds=sounds,
            return_to_initial_position=back,
            fps=100.0,
            interpolation_multiplier=1,
            use_torch_compile=False,
            duration=duration,
        )
        self.ctx = RolloutContext(
            RuntimeContext(cfg, self.event),
            HardwareContext(ThreadSafeRobot(robot), None, dict(robot.pose)),
            SimpleNamespace(inference=self.engine),
            SimpleNamespace(robot_observation_processor=lambda o: o, robot_action_processor=lambda pair: pair[0]),
            SimpleNamespace(dataset_features={}, ordered_action_keys=list(KEYS)),
        )
        self.out = io.StringIO()
        reference = ReferenceConfig(root=str(recorded))
        settings = AlignStrategyConfig(reference=reference, output_dir=str(self.folder), **config)
        self.keys = keys
        self.strategy = AlignStrategy(settings, keys=lambda: self.keys, console=Console(file=self.out, width=200))

    def run(self):
        """As LeRobot's script does it; the exit code."""
        try:
            self.strategy.setup(self.ctx)
            self.strategy.run(self.ctx)
        except SystemExit as stop:
            return stop.code
        finally:
            self.strategy.teardown(self.ctx)
        return 0

    @property
    def report(self):
        return json.loads((self.folder / "report.json").read_text())


class WhenAligned(ScriptedKeys):
    """Presses a key once ``text`` was printed."""

    def __init__(self, case_out, text="ALIGNED", key="\n"):
        super().__init__([])
        self._out, self._text, self._key = case_out, text, key

    def poll(self):
        return self._key if self._text in self._out() else None


def case_with_key(recorded, tmp_path, robot, text="ALIGNED", key="\n", **more):
    case = Case(recorded, tmp_path, robot, **more)
    case.keys = WhenAligned(case.out.getvalue, text, key)
    return case


def test_aligned_then_enter_hands_over(recorded, tmp_path):
    case = case_with_key(recorded, tmp_path, SceneRobot(), save_rrd=True)
    assert case.run() == 0
    policy_actions = [action for _, action in case.robot.sent if action == pytest.approx(NEAR)]
    assert len(policy_actions) > 3
    assert (case.engine.started, case.engine.stopped) == (1, 1)
    assert not case.robot.is_connected
    names = {path.name for path in case.folder.iterdir()}
    assert names == {"report.json", "report.html", "align_start.png", "align_end.png", "align.rrd"}
    assert case.report["results"]["ending"] == "confirmed" and case.report["results"]["aligned"]
    assert case.report["verdict"]["cause"] == "none_found"


def test_a_moved_camera_is_refused_when_strict_and_let_through_when_not(recorded, tmp_path):
    moved = {"robot": SceneRobot(shift=12), "text": "slide the camera"}
    case = case_with_key(recorded, tmp_path / "a", **moved, strict=True)
    assert case.run() == 1
    assert case.robot.sent == [] and case.engine.started == 0
    assert "slide the camera 12 px to the right" in case.out.getvalue()
    fails = [f for f in case.report["findings"] if f["status"] == "fail"]
    assert {f["code"] for f in fails} == {"MOVED"}
    lenient = case_with_key(recorded, tmp_path / "b", SceneRobot(shift=12), text="slide the camera")
    assert lenient.run() == 0
    assert lenient.engine.started == 1
    assert {f["status"] for f in lenient.report["findings"] if f["code"] == "MOVED"} == {"warn"}


def test_a_first_action_far_away_is_not_sent(recorded, tmp_path):
    far = NEAR | {"elbow_flex.pos": REST["elbow_flex"] - 60}
    case = case_with_key(recorded, tmp_path, SceneRobot(), action=far, back=True)
    assert case.run() == 1
    assert case.robot.sent == []  # nor the return to the start
    assert case.engine.stopped == 1
    assert "elbow_flex.pos 60 at once" in case.out.getvalue()
    assert case.report["verdict"]["because"] == ["START_JUMP"]


def test_then_none_ends_without_the_policy(recorded, tmp_path):
    case = case_with_key(recorded, tmp_path, SceneRobot(), then="none")
    assert case.run() == 0
    assert case.robot.sent == [] and case.engine.started == 0


def test_it_starts_by_itself_without_a_keyboard(recorded, tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("PATH", "")  # no speech program
    unattended = {"auto_start": True, "then": "none", "sounds": True, "duration": 4.0}  # the countdown takes longer
    case = Case(recorded, tmp_path, SceneRobot(), NoKeys(), **unattended)
    assert case.run() == 0
    assert "starting in 5 s" in case.out.getvalue() and "starting in 1 s" in case.out.getvalue()
    assert case.report["results"]["ending"] == "counted down"
    assert case.report["timings"]["align_s"] > 5.0
    assert case.robot.sent == []
    assert caplog.text.count("Text-to-speech") <= 1
    assert case.out.getvalue().count("report: ") == 1


def test_without_a_keyboard_it_gives_up_after_the_duration_and_says_what_is_open(recorded, tmp_path):
    case = Case(recorded, tmp_path, SceneRobot(shift=12), NoKeys(), auto_start=True, duration=3.0)
    assert case.run() == 1
    said = case.out.getvalue()
    assert "waiting until this is in place: front, top" in said
    tail = said[said.index("report: ") :]
    assert "open: front: slide the camera 12 px to the right" in tail and "open: top: " in tail
    assert "not started: not in place within --duration=3 seconds" in tail
    assert case.robot.sent == [] and case.engine.started == 0
    assert case.report["results"]["ending"] == "time was up"
    assert {f["status"] for f in case.report["findings"] if f["code"] == "MOVED"} == {"fail"}


def test_with_a_keyboard_the_duration_is_the_rollouts_alone(recorded, tmp_path):
    case = case_with_key(recorded, tmp_path, SceneRobot(shift=12), text="slide the camera", duration=0.01)
    assert case.run() == 0
    assert case.report["results"]["ending"] == "confirmed"


def test_q_starts_nothing(recorded, tmp_path):
    case = case_with_key(recorded, tmp_path, SceneRobot(), key="q", then="none")
    assert case.run() == 1  # so that nothing behind && starts
    assert case.robot.sent == []


def test_enter_pressed_too_early_starts_nothing(recorded, tmp_path):
    early = ScriptedKeys(["\n", "\n", None, None, None, "q"])  # typed while the recording was read
    case = Case(recorded, tmp_path, SceneRobot(), early)
    assert case.run() == 1
    assert case.engine.started == 0 and case.robot.sent == []


def test_swapped_cameras_are_refused_before_the_loop(recorded, tmp_path):
    robot = SceneRobot()
    robot.live = {"front": robot.live["top"], "top": robot.live["front"]}
    case = Case(recorded, tmp_path, robot, ScriptedKeys([]))
    assert case.run() == 1
    assert "front shows what top showed" in case.out.getvalue()
    assert case.report["verdict"]["because"][0] == "SWAPPED"


AWAY = {**REST, "elbow_flex": REST["elbow_flex"] - 20}


def test_go_to_start_shows_asks_and_moves(recorded, tmp_path):
    case = Case(recorded, tmp_path, SceneRobot(AWAY), go_to_start=True, start_speed=60.0, then="none", back=True)
    pressed = []

    class Both(ScriptedKeys):
        def poll(self):
            text = case.out.getvalue()
            if "ENTER: move the arm" in text and not pressed:
                assert case.robot.sent == []
                pressed.append("move")
                return "\n"
            return "\n" if "ALIGNED" in text else None

    case.keys = Both([])
    assert case.run() == 0
    assert "Going to the recorded start" in case.out.getvalue()
    eased = [action["elbow_flex.pos"] for _, action in case.robot.sent][:20]
    assert np.max(np.abs(np.diff([AWAY["elbow_flex"], *eased]))) <= 60 / 30 + 1e-6
    # something was sent, so LeRobot's teardown brings the arm back to where it was found
    assert case.robot.pose["elbow_flex.pos"] == pytest.approx(AWAY["elbow_flex"])


def test_go_to_start_not_confirmed_moves_nothing(recorded, tmp_path):
    case = case_with_key(recorded, tmp_path, SceneRobot(AWAY), "ENTER: move the arm", "x", go_to_start=True)
    assert case.run() == 1
    assert case.robot.sent == []


def test_an_arm_elsewhere_is_said_and_not_called_aligned(recorded, tmp_path):
    case = case_with_key(recorded, tmp_path, SceneRobot(AWAY), text="elbow_flex is 20.0", strict=True)
    assert case.run() == 1
    jump = next(f for f in case.report["findings"] if f["code"] == "START_JUMP")
    assert jump["status"] == "fail" and "go_to_start" in jump["fix"]


@pytest.mark.parametrize(
    ("text", "more"),
    [
        ("", {}),  # while the recording is read
        ("against episode", {}),
        ("ENTER: move the arm", {"go_to_start": True}),
        ("about", {"go_to_start": True, "yes": True, "start_speed": 5.0}),  # while the arm moves
    ],
    ids=["preparing", "aligning", "asking", "moving"],
)
def test_a_stop_ends_every_phase_within_200_ms(recorded, tmp_path, text, more):
    case = Case(recorded, tmp_path, SceneRobot(AWAY), ScriptedKeys([]), **more)
    case.strategy.setup(case.ctx)
    stopped_at = []

    def interrupt():
        while text not in case.out.getvalue():
            time.sleep(0.005)
        time.sleep(0.3 if more.get("yes") else 0.1)
        stopped_at.append(time.perf_counter())
        case.event.set()

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(SystemExit) as stop:
        case.strategy.run(case.ctx)
    assert time.perf_counter() - stopped_at[0] < 0.2
    assert stop.value.code == 130
    assert bool(case.robot.sent) == bool(more.get("yes"))
    case.strategy.teardown(case.ctx)
    assert case.engine.started == 0 and not case.robot.is_connected
    assert case.out.getvalue().count(f"report: {case.folder}\n") == 1
    assert (case.folder / "report.json").is_file()


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"keys": None}, "no terminal to press ENTER in. Pass --strategy.auto_start=true"),
        ({"view_width_mm": {"side": 300.0}}, "--strategy.view_width_mm names the camera side. There are: front, top."),
        (
            {"cameras": {"cam0": "front", "cam1": "top"}},
            "was recorded with cameras front, top; the robot has cam0, cam1",
        ),
        ({"shape": (180, 320)}, "front delivers 320x180, recorded was 320x240: another shape."),
    ],
)
def test_what_does_not_fit_the_robot_is_one_line(recorded, tmp_path, capsys, change, line):
    robot = SceneRobot()
    if names := change.pop("cameras", None):
        robot.live = {new: robot.live[old] for new, old in names.items()}
    if shape := change.pop("shape", None):
        robot.live = {name: [p[: shape[0]] for p in pictures] for name, pictures in robot.live.items()}
    keys = NoKeys() if "keys" in change else ScriptedKeys([])
    change.pop("keys", None)
    case = Case(recorded, tmp_path, robot, keys, **change)
    assert case.run() == 2
    said = capsys.readouterr().err.strip()
    assert line in said and len(said.splitlines()) == 1
    assert robot.sent == [] and not robot.is_connected


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        (
            {"reference": {"episode": 9}},
            "has no episode 9; it has 0-1. Choose among these, e.g. --strategy.reference.episode=1.",
        ),
        ({"reference": {"root": "/nowhere"}}, "--strategy.reference.root=/nowhere is no folder."),
        ({"then": "sentry"}, "--strategy.then=sentry is not known. Known: base, none."),
        ({"tolerance": Tolerance(shift_px=0)}, "--strategy.tolerance.shift_px must be positive."),
    ],
)
def test_bad_settings_are_refused_before_anything_connects(recorded, capsys, settings, line):
    reference = ReferenceConfig(**{"root": str(recorded), **settings.pop("reference", {})})
    with pytest.raises(SystemExit) as stop:
        AlignStrategyConfig(reference=reference, **settings)
    assert stop.value.code == 2
    said = capsys.readouterr().err.strip()
    assert line in said and len(said.splitlines()) == 1


def test_a_used_output_dir_is_refused_before_anything_connects(recorded, tmp_path, capsys):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(SystemExit) as stop:
        AlignStrategyConfig(reference=ReferenceConfig(root=str(recorded)), output_dir=str(tmp_path))
    assert stop.value.code == 2
    said = capsys.readouterr().err.strip()
    assert said.endswith("nothing was overwritten. Give a new folder as --strategy.output_dir.")
    AlignStrategyConfig(reference=ReferenceConfig(root=str(recorded)), output_dir=str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()


def test_a_reference_whose_videos_are_gone(tmp_path, capsys):
    root = make_dataset(tmp_path / "data", cameras={"front": "h264"})
    for video in root.rglob("*.mp4"):
        video.unlink()
    with pytest.raises(SystemExit):
        AlignStrategyConfig(reference=ReferenceConfig(root=str(root), episode=1))
    said = capsys.readouterr().err.strip()
    assert f"--strategy.reference.root={root} lacks videos/observation.images.front/" in said
    assert said.endswith("Restore the file, or choose other episodes with --strategy.reference.episode.")
    assert len(said.splitlines()) == 1


def test_stock_rollout_says_it_in_one_line_before_it_loads_or_connects_anything(
    recorded, tmp_path, capsys, monkeypatch
):
    from lerobot.scripts import lerobot_rollout
    from rig import stock

    policy = stock.checkpoint(tmp_path / "policy", dict.fromkeys(SCENES, (240, 320)), REST)
    train = {"dataset": {"repo_id": "local/scenes", "root": str(recorded)}}
    (policy / "train_config.json").write_text(json.dumps(train))  # where the reference comes from by default
    flags = [f"--policy.path={policy}", "--robot.type=so101_follower", "--robot.port=/dev/none"]
    monkeypatch.setattr(
        "sys.argv", ["lerobot-rollout", *flags, "--strategy.type=align", "--strategy.reference.episode=7"]
    )
    with pytest.raises(SystemExit) as stop:
        lerobot_rollout.rollout()
    assert stop.value.code == 2
    said = capsys.readouterr().err.strip()
    assert f"--strategy.reference.root={recorded} has no episode 7; it has 0-1." in said
    assert len(said.splitlines()) == 1
