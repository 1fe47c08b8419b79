"""The object is taken away: a policy that looks goes elsewhere, one that repeats a motion does not."""

from collections import deque
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fake_robot import FakeClock, FakeRobot
from make_dataset import JOINTS, make_dataset
from test_diagnose_motion import ladder_with

from lerobot_diagnostics.diagnose import Inputs, motion, removal
from lerobot_diagnostics.diagnose.motion import SPEED, Driver
from lerobot_diagnostics.diagnose.removal import Measured, judge, judge_removal, unusable, ways_apart
from lerobot_diagnostics.diagnose.run import Ladder
from lerobot_diagnostics.findings import Status
from lerobot_diagnostics.openloop.checkpoint import LoadedPolicy
from lerobot_diagnostics.recording import open_recording
from lerobot_diagnostics.replay.desk import Desk
from lerobot_diagnostics.replay.play import Player
from lerobot_diagnostics.robot.arm import Arm
from lerobot_diagnostics.robot.keys import ENTER, ScriptedKeys
from lerobot_diagnostics.robot.move import EASE_HZ

FRONT = "observation.images.front"
REST = np.array([0.0, -90.0, 85.0, 60.0, 0.0, 10.0])
ANGLES = (30.0, 15.0, 0.0, -15.0, -20.0)  # of the pan joint by episode: the first goes farthest from the others
LENGTH, CHUNK = 30, 20


def turning(angle, frames=LENGTH):
    """From rest to a pan angle, the shoulder lowered: [frames, 6]."""
    ramp = np.arange(1, frames + 1)[:, None] / LENGTH
    return (REST + ramp * np.array([angle, 40.0, 0, 0, 0, 0])).astype(np.float32)


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    root = tmp_path_factory.mktemp("removal") / "data"

    def moves(episode, length):
        return turning(ANGLES[episode], length)

    def states(episode, length):
        return np.concatenate([REST[None].astype(np.float32), moves(episode, length)[:-1]])

    make_dataset(root, lengths=(LENGTH,) * 5, cameras={"front": "image"}, actions=moves, states=states)
    return open_recording(root=str(root))


class Robot(FakeRobot):
    """A red object in view, or not."""

    there = True

    def get_observation(self):
        picture = np.full((48, 64, 3), 90, np.uint8)
        if self.there:
            picture[20:30, 20:32] = (220, 30, 30)
        return super().get_observation() | {"front": picture}


class Policy:
    """Turns to ``seen`` where it sees something red, else to ``unseen``; ``noise`` degrees are drawn at every look."""

    def __init__(self, seen, unseen, *, noise=0.0, chunk=CHUNK, steps=1, still=False):
        shape = SimpleNamespace(shape=(6,))
        images = {FRONT: SimpleNamespace(shape=(3, 48, 64))}
        self.config = SimpleNamespace(
            type="fake", chunk_size=chunk, n_action_steps=steps, use_amp=False, image_features=images,
            input_features={"observation.state": shape, **images}, action_feature=shape, temporal_ensemble_coeff=0.01,
        )  # fmt: skip
        self.seen, self.unseen, self.noise, self.still, self.states = seen, unseen, noise, still, []

    def reset(self):
        self._action_queue = deque(maxlen=self.config.n_action_steps)

    def select_action(self, batch):
        if not self._action_queue:
            self.states.append(batch["observation.state"][0].numpy())
            red = bool((batch[FRONT][0, 0] - batch[FRONT][0, 1]).max() > 0.5)
            chunk = turning(self.seen if red else self.unseen, self.config.chunk_size)
            chunk = torch.from_numpy(chunk[:1].repeat(len(chunk), 0) if self.still else chunk)
            chunk[:, 0] += self.noise * torch.randn(())
            self._action_queue.extend(chunk[: self.config.n_action_steps, None])
        return self._action_queue.popleft()


class Processor:
    steps = ()

    def __call__(self, batch):
        return batch

    def reset(self):
        pass


def ask(policy, recording, folder, *, takes_away=True, robot=None, stop=None):
    """The rung's outcome, what was said, and the robot; ``stop`` is the number of the prompt at which Ctrl-C comes."""
    robot = robot or Robot(dict(zip((j.removesuffix(".pos") for j in JOINTS), REST + 5, strict=True)))
    robot.config.type = "so101_follower"
    clock, said, asked = FakeClock(), [], []

    def keys():
        for number in range(3):
            asked.append(len(robot.sent))
            robot.there = not (takes_away and number == 2)
            yield ENTER

    def stopped():
        return stop is not None and len(said) >= stop

    loaded = LoadedPolicy(None, policy, Processor(), Processor(), {}, "cpu")
    desk = Desk(ScriptedKeys(keys()), stopped=stopped, say=said.append, sleep=clock.sleep)
    driver = Driver(Player(Arm(robot, clock=clock), stopped=stopped, clock=clock, sleep=clock.sleep), desk)
    outcome = judge_removal(driver, loaded, recording, range(5), {FRONT: "front"}, folder)
    return SimpleNamespace(outcome=outcome, finding=outcome.findings[0], said=said, robot=robot, asked=asked)


def test_a_policy_that_repeats_a_motion_fails_with_the_distances(recording, tmp_path):
    told = ask(Policy(30.0, 30.0), recording, tmp_path)
    assert (told.finding.code, told.finding.status, told.finding.cause) == ("IGNORES_IMAGES", "fail", "model")
    assert "still goes to the same place, 0.0 mm apart" in told.finding.summary
    assert told.finding.evidence["apart_mm"] == pytest.approx(0.0, abs=1e-3)
    assert told.finding.evidence["predicted_s"] == 2.0  # the whole chunk, not the one action that is executed


def test_a_policy_that_looks_passes_with_the_distances(recording, tmp_path):
    told = ask(Policy(30.0, 0.0), recording, tmp_path)
    assert told.finding.status is Status.PASS
    # 20° of pan at the reach of the last pose: 20 of 30 frames, lift −63.3, elbow 85, wrist 60
    a, b, c = np.deg2rad([-190 / 3, 65 / 3, 245 / 3])
    reach = 0.0304 + 0.028 * np.cos(a) + 0.11257 * np.sin(a) + 0.1349 * np.cos(b) + 0.0052 * np.sin(b)
    reach += 0.15923 * np.cos(c) + 0.01198 * np.sin(c)
    expected = 2000 * np.hypot(reach, 0.0008) * np.sin(np.deg2rad(10))
    assert told.finding.evidence["apart_mm"] == pytest.approx(expected, rel=1e-3)
    (table,) = told.outcome.tables
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["shoulder_pan.pos"] == pytest.approx([19.0, -20.0, 2.0], abs=0.01)
    assert rows["shoulder_lift.pos"][1] == pytest.approx(0.0)


def test_noise_that_the_policy_draws_is_the_same_with_and_without(recording, tmp_path):
    assert ask(Policy(30.0, 30.0, noise=8.0), recording, tmp_path).finding.status is Status.FAIL
    assert ask(Policy(30.0, 0.0, noise=8.0), recording, tmp_path).finding.status is Status.PASS


def test_the_arm_stands_at_the_recorded_start_and_nothing_predicted_is_sent(recording, tmp_path):
    policy = Policy(30.0, 30.0)
    told = ask(policy, recording, tmp_path)
    sent = np.array([[action[joint] for joint in JOINTS] for _, action in told.robot.sent])
    assert np.abs(np.diff(sent, axis=0)).max() <= SPEED / EASE_HZ + 1e-9
    assert (np.abs(sent - REST) <= 5 + 1e-6).all()  # from 5 away to the start and back
    assert told.asked[0] == 0 < told.asked[1] == told.asked[2]  # still while hands are in there
    assert policy.states == [pytest.approx(REST, abs=1e-4)] * 8
    assert [told.robot.pose[joint] for joint in JOINTS] == pytest.approx(REST + 5)
    assert "Nothing that the policy predicts is sent" in told.said[0]
    assert "episode 0" in told.said[1]  # whose motion differs most from the others'
    (picture,) = told.outcome.pictures
    assert picture.path in told.said[1]
    assert (tmp_path / picture.path).stat().st_size > 100


def test_what_does_not_tell_is_unknown(recording, tmp_path):
    def unknown(policy, **how):
        found = ask(policy, recording, tmp_path, **how)
        assert found.finding.status is Status.UNKNOWN
        return found

    assert "pictures did not change (front)" in unknown(Policy(30.0, 30.0), takes_away=False).finding.summary
    assert "one action at a time" in unknown(Policy(30.0, 30.0, chunk=1)).finding.summary
    assert "too little to tell where it leads" in unknown(Policy(30.0, 30.0, still=True)).finding.summary
    assert "too little to be sure" in unknown(Policy(30.0, 25.0)).finding.summary
    short = unknown(Policy(30.0, 30.0, chunk=2))
    assert "differ by only" in short.finding.summary
    assert not short.robot.sent  # nothing moves for what cannot tell anyway


def test_the_policys_own_settings_come_back(recording, tmp_path):
    policy = Policy(30.0, 30.0)
    ask(policy, recording, tmp_path)
    assert (policy.config.n_action_steps, policy.config.temporal_ensemble_coeff) == (1, 0.01)
    assert policy._action_queue.maxlen == 1


@pytest.mark.parametrize("stop", [1, 2, 3])
def test_ctrl_c_at_any_prompt_ends_it(stop, recording, tmp_path):
    told = ask(Policy(30.0, 30.0), recording, tmp_path, stop=stop)
    assert told.finding.status is Status.UNKNOWN
    assert len(told.said) == stop
    assert bool(told.robot.sent) == (stop > 1)


def test_a_joint_that_does_not_follow_ends_it(recording, tmp_path):
    robot = Robot({"shoulder_pan": 40.0, "shoulder_lift": -90.0, "elbow_flex": 85.0, "wrist_flex": 60.0}, follow=0.0)
    told = ask(Policy(30.0, 30.0), recording, tmp_path, robot=robot)
    assert (told.finding.code, told.finding.status, told.finding.cause) == ("OVERLOAD", "fail", "motors")


def test_an_arm_that_does_not_come_back_is_named_beside_what_was_measured(recording, tmp_path):
    class Stuck(Robot):
        def send_action(self, action):
            self.follow = 0.0 if not self.there else 1.0
            return super().send_action(action)

    away = REST + np.array([30.0, 0, 0, 0, 0, 0])
    robot = Stuck(dict(zip((j.removesuffix(".pos") for j in JOINTS), away, strict=True)))
    told = ask(Policy(30.0, 0.0), recording, tmp_path, robot=robot)
    assert [f.code for f in told.outcome.findings] == ["IGNORES_IMAGES", "OVERLOAD"]
    assert told.finding.status is Status.PASS


def test_a_camera_that_shows_another_view_or_none_is_settled_first(recording, tmp_path):
    loaded = LoadedPolicy(None, Policy(30.0, 30.0), Processor(), Processor(), {}, "cpu")
    outcome = judge_removal(None, loaded, recording, range(5), {}, tmp_path)
    assert "front does not show its recorded view" in outcome.findings[0].summary


def test_ways_are_compared_whatever_their_pace():
    straight = np.stack([np.arange(10.0), np.zeros(10), np.zeros(10)], axis=-1)[:, None]
    later = np.concatenate([straight[:1].repeat(5, 0), straight])[:10]
    aside = straight + np.array([0.0, 3.0, 4.0])
    assert ways_apart(straight, later) == 0
    assert ways_apart(straight, aside) == pytest.approx(5.0)


@pytest.mark.parametrize(
    ("found", "status"),
    [
        ({"apart": 1.0, "noise": 0.5}, "fail"),
        ({"apart": 60.0, "noise": 2.0}, "pass"),
        ({"apart": 60.0, "noise": 40.0}, "unknown"),  # its own noise may do that
        ({"apart": 1.0, "noise": 30.0}, "unknown"),  # and hide a difference
        ({"apart": 15.0, "noise": 0.5}, "unknown"),
        ({"apart": 1.0, "noise": 0.5, "moves": 60.0}, "unknown"),
        ({"apart": float("nan"), "noise": 0.5}, "unknown"),
    ],
)
def test_same_place_elsewhere_and_what_lies_between(found, status):
    usual = {"moves": 150.0, "recorded_moves": 140.0, "differ": 85.0, "near": 10, "seconds": 3.0}
    finding = judge(Measured(**(usual | found)), "mm")
    assert finding.status == status
    if status == "fail":
        assert "1.0 mm apart within 3.0 s (its own noise 0.5 mm" in finding.summary
        assert "differ by 85 mm" in finding.summary


def test_a_robot_of_unknown_geometry_is_measured_by_its_joints_ranges():
    robot = FakeRobot()
    recorded = np.zeros((50, 6))
    recorded[:, 0], recorded[:, 1], recorded[:, 5] = np.linspace(0, 40, 50), np.linspace(-10, 10, 50), 50.0
    ruler = removal.ruler_for(Arm(robot), JOINTS, recorded)
    assert ruler.unit == "% of the joints' range"
    apart = ruler.places(np.array([[4.0, 2.0, 0, 0, 0, 99.0]])) - ruler.places(np.zeros((1, 6)))
    assert removal.farthest(apart[None]) == pytest.approx([10.0])  # a tenth of each range; the gripper does not count


def pictures(blocks, noise=3.0):
    """Four noisy pictures, each with a block of that width."""
    rng = np.random.default_rng(0)
    taken = []
    for width in blocks:
        picture = np.full((120, 160, 3), 110.0)
        picture[50:62, 60 : 60 + width] = (200, 40, 40)
        taken.append(np.clip(picture + rng.normal(0, noise, picture.shape), 0, 255).astype(np.uint8))
    return taken


def test_the_pictures_must_differ_and_stand_still():
    there, gone = pictures([12] * 4), pictures([0] * 4)
    assert unusable({"a": (there, gone)}) is None
    assert unusable({"a": (there, gone), "b": (gone, gone)}) is None  # one camera that sees it is enough
    assert "did not change (a, b)" in unusable({"a": (there, there), "b": (gone, gone)})
    dimmer = [(picture * 0.8).astype(np.uint8) for picture in there]
    assert "did not change" in unusable({"a": (there, dimmer)})
    assert "something moved in a" in unusable({"a": (pictures([12, 12, 40, 40]), gone)})


def test_the_rung_stands_between_sight_and_replay_and_needs_somebody(tmp_path):
    alone = ladder_with(tmp_path)
    alone.refs = ["checkpoint"]
    rungs = {rung.name: rung for rung in alone.rungs()}
    assert list(rungs)[-3:] == ["calibration by sight", "remove the object", "replay"]
    assert rungs["remove the object"].run is None
    assert "--yes=true" in rungs["remove the object"].needs
    attended = ladder_with(tmp_path, yes=False)
    attended.refs = ["checkpoint"]
    assert attended.removal().moves
    assert "--policy.path" in ladder_with(tmp_path, yes=False).removal().needs


@pytest.mark.skipif(not find_spec("mujoco"), reason="needs the extra sim")
def test_on_the_simulated_arm_a_policy_that_looks_is_told_from_the_same_one_blinded(tmp_path, monkeypatch):
    from lerobot_diagnostics.sim.config_so101_sim import SimCameraConfig, SO101SimConfig
    from lerobot_diagnostics.sim.modeling_sim_policy import SimPolicy
    from lerobot_diagnostics.sim.record import record
    from lerobot_diagnostics.sim.so101_sim import SO101Sim
    from lerobot_diagnostics.sim.train import train

    config = SO101SimConfig(cameras={"front": SimCameraConfig(width=96, height=72)}, cube_jitter_m=0.03)
    data, policy = tmp_path / "data", tmp_path / "policy"
    train(
        record(data, "local/sim", config, seeds=range(4), fps=10, use_videos=False), list(range(4)), policy, steps=200
    )

    def judged():
        clock = FakeClock()
        config.real_time = True
        robot = SO101Sim(config, clock=clock, sleep=clock.sleep)

        def keys():
            yield ENTER
            yield ENTER
            robot.world.data.joint("cube").qpos[:2] = 0.5, -1.5
            yield ENTER

        monkeypatch.setattr(motion, "open_keys", lambda: ScriptedKeys(keys()))
        given = Inputs(
            policy_path=str(policy), repo_id="local/sim", root=str(data), device="cpu", robot=robot, replay=True
        )
        ladder = Ladder(given, tmp_path, {}, clock, clock.sleep, 1.0)
        ladder.soaked = SimpleNamespace(pictures={"front": []})
        return ladder.removal().run().findings[0]

    assert judged().status is Status.PASS
    blinded = SimPolicy.from_pretrained(policy)
    blinded.eyes[0][-2].weight.data.zero_()
    blinded.eyes[0][-2].bias.data.zero_()
    blinded.save_pretrained(policy)
    assert judged().status is Status.FAIL
