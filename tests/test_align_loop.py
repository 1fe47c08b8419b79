"""The live loop with scripted readings, keys and time; the measuring inline instead of in a thread."""

from dataclasses import dataclass, field

import numpy as np
import pytest
import vision_scenes as scenes

from lerobot_diagnostics.align.loop import ENTER, Ending, Settings, align
from lerobot_diagnostics.align.measure import Meter
from lerobot_diagnostics.align.misalignment import Tolerance
from lerobot_diagnostics.align.reference import Reference

FPS = 30


@dataclass
class Reading:
    pictures: dict
    joints: dict = field(default_factory=lambda: {"elbow_flex.pos": 1.0})


class Starts:
    """Two episodes: the scene as it is, and the scene 10 px to the left."""

    def __init__(self):
        self.loaded = []

    def load(self, episode):
        self.loaded.append(episode)
        return Reference(episode, {"front": scenes.warped(SCENE, -10 * episode, 0)}, {"elbow_flex.pos": 0.0})

    def step(self, episode, by):
        return (episode + by) % 2


class Inline:
    """Measures at once what it is offered."""

    def __init__(self):
        self.meter, self.reference, self.measured, self.now = Meter(Tolerance(), steady={"front": True}), None, {}, 0.0

    def use(self, load):
        self.reference, self.measured = load(), {}
        self.meter.use(self.reference)

    def offer(self, pictures, *, still, at_pose):
        self.now += 1 / FPS
        for name, picture in pictures.items():
            self.measured[name] = self.meter.measure(name, picture, now=self.now, still=still, at_pose=at_pose)

    def latest(self):
        return self.reference, dict(self.measured)


SCENE = scenes.table(1)


def run(readings, keys=(), *, settings=None, starts=None):
    """Run the loop over readings, a tick each; then it is stopped. Keys are pressed after their tick."""
    readings = list(readings)
    keys = dict(keys)
    shown, spoken = [], []
    state = {"tick": -1}

    class Display:
        def update(self, one):
            shown.append(one)

    def wait(tick):
        state["tick"] = tick
        state["asked"] = False
        return tick < len(readings)

    def poll():
        first, state["asked"] = not state["asked"], True
        return keys.get(state["tick"]) if first else None

    outcome = align(
        lambda: readings[state["tick"]],
        starts or Starts(),
        0,
        Inline(),
        settings=settings or Settings(),
        displays=[Display()],
        poll=poll,
        wait=wait,
        clock=lambda: state["tick"] / FPS,
        say=spoken.append,
    )
    return outcome, shown, spoken


def still(count, picture=SCENE):
    return [Reading({"front": picture}) for _ in range(count)]


def texts(one):
    return {line.subject: line.text for line in one.lines}


def test_the_limit_ends_what_is_not_in_place_and_lets_a_countdown_end():
    moved = still(5 * FPS, scenes.warped(SCENE, 9, 0))
    outcome, _, _ = run(moved, settings=Settings(auto_start=True, limit_s=1.0))
    assert outcome.ending is Ending.TIMED_OUT and 1.0 <= outcome.duration_s < 1.1
    assert run(moved)[0].ending is Ending.STOPPED
    counting = Settings(auto_start=True, countdown_s=2.0, limit_s=1.0)
    assert run(still(5 * FPS), settings=counting)[0].ending is Ending.COUNTED_DOWN
    waving = [Reading({"front": SCENE if k % 10 < 5 else scenes.warped(SCENE, 2, 0)}) for k in range(5 * FPS)]
    outcome, _, _ = run(waving, settings=counting)
    assert outcome.ending is Ending.TIMED_OUT and outcome.duration_s < 3.1


def test_enter_goes_on_and_says_whether_it_is_aligned():
    outcome, shown, _ = run(still(5), {3: ENTER})
    assert (outcome.ending, outcome.aligned) == (Ending.CONFIRMED, True)
    assert len(shown) == 4
    assert texts(shown[0])["front"] == "measuring"
    assert "in place" in texts(shown[-1])["front"]
    off, _, _ = run(still(5, scenes.warped(SCENE, 9, 0)), {3: ENTER})
    assert (off.ending, off.aligned) == (Ending.CONFIRMED, False)
    assert off.first.measured["front"].motion.dx_px == pytest.approx(9, abs=0.5)


def test_q_quits_and_a_stop_stops():
    assert run(still(5), {2: "q"})[0].ending is Ending.QUIT
    assert run(still(5))[0].ending is Ending.STOPPED
    assert run([])[0].last is None


def test_n_and_p_change_the_reference_and_what_is_measured():
    starts = Starts()
    outcome, shown, _ = run(still(12), {3: "n", 8: "p"}, starts=starts)
    assert starts.loaded == [0, 1, 0]
    assert shown[7].reference.episode == 1
    assert shown[7].measured["front"].motion.dx_px == pytest.approx(10, abs=0.5)
    assert not shown[7].aligned
    assert shown[-1].reference.episode == 0 and shown[-1].aligned
    assert outcome.first.reference.episode == 0  # the first picture of a session stays the first


def test_auto_start_counts_down_aloud_and_starts():
    outcome, _, spoken = run(still(200), settings=Settings(auto_start=True))
    assert (outcome.ending, outcome.aligned) == (Ending.COUNTED_DOWN, True)
    assert spoken == ["5", "4", "3", "2", "1", "go"]
    # one tick to measure, up to 0.25 s until still is known, 5 s
    assert 5.0 <= outcome.duration_s <= 5.5


def test_motion_in_view_starts_the_countdown_over():
    hand = SCENE.copy()
    hand[100:140, 30:60] = (220, 170, 140)
    readings = still(100) + [Reading({"front": hand}), Reading({"front": hand})] * 4 + still(200)
    outcome, _, spoken = run(readings, settings=Settings(auto_start=True))
    assert outcome.ending is Ending.COUNTED_DOWN
    assert spoken[:4] == ["5", "4", "3", "2"] and spoken.count("5") == 2 and spoken[-1] == "go"
    assert outcome.duration_s >= 100 / FPS + 5.0


@pytest.mark.parametrize(
    "readings",
    [
        still(60, scenes.warped(SCENE, 6, 0)),
        [Reading({"front": SCENE}, {"elbow_flex.pos": 30.0}) for _ in range(60)],
        still(60, np.full_like(SCENE, 90)),
        still(60, scenes.relit(SCENE, 0.6)),
    ],
    ids=["camera moved", "arm elsewhere", "nothing to see", "dark"],
)
def test_auto_start_never_starts_out_of_the_band(readings):
    settings = Settings(auto_start=True, countdown_s=1.0)
    assert run(still(60), settings=settings)[0].ending is Ending.COUNTED_DOWN  # in 2 s it could have
    outcome, _, spoken = run(readings, settings=settings)
    assert (outcome.ending, outcome.aligned, spoken) == (Ending.STOPPED, False, [])


def test_warmer_and_colder_reach_the_words():
    closing = [Reading({"front": scenes.warped(SCENE, 20 - 0.4 * k, 0)}) for k in range(40)]
    _, shown, _ = run(closing)
    assert texts(shown[-1])["front"].endswith("(warmer)")
    _, shown, _ = run(closing[::-1])
    assert texts(shown[-1])["front"].endswith("(colder)")


def test_a_failed_read_is_survived():
    readings = [*still(3), None, None, *still(3)]
    outcome, shown, _ = run(readings, {7: ENTER})
    assert outcome.ending is Ending.CONFIRMED and outcome.aligned
    assert len(shown) == 6 and outcome.ticks == 8
