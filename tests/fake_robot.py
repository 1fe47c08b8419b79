"""A robot without hardware: six joints, one camera if asked, a clock that only moves when told to."""

from types import SimpleNamespace

import numpy as np

JOINTS = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper")
KEYS = tuple(f"{joint}.pos" for joint in JOINTS)


class FakeClock:
    """Call it for the time; ``sleep`` makes it pass."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += max(seconds, 1e-5)


class FakeRobot:
    """Goes where it is told at once, unless ``follow`` says how far of the way; ``fails`` are raised one a read."""

    name = "fake"

    def __init__(self, start=None, *, velocities=(), pictures=None, follow=1.0, clock=None):
        self.pose = dict.fromkeys(KEYS, 0.0) | {f"{k}.pos": v for k, v in (start or {}).items()}
        self.velocities = dict.fromkeys(velocities, 0.0)
        self.action_features = dict.fromkeys([*KEYS, *velocities], float)
        self.pictures, self.follow = pictures or {}, follow
        self.fails, self.send_fails, self.sent, self.reads = [], [], [], 0
        self.config = SimpleNamespace(type="fake")
        self.clock = clock

    def get_observation(self):
        self.reads += 1
        if self.fails and (error := self.fails.pop(0)) is not None:
            raise error
        frames = {name: np.full((24, 32, 3), value, np.uint8) for name, value in self.pictures.items()}
        return {**self.pose, **self.velocities, **frames}

    def send_action(self, action):
        if self.send_fails and (error := self.send_fails.pop(0)) is not None:
            raise error
        self.sent.append((self.clock() if self.clock else 0.0, dict(action)))
        for key in self.pose:
            follow = self.follow[key] if isinstance(self.follow, dict) else self.follow
            self.pose[key] += follow * (action[key] - self.pose[key])
        self.velocities = {key: action[key] for key in self.velocities}
        return dict(action)
