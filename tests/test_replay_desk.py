"""What is asked, and how answers are read."""

from lerobot_diagnostics.findings import Table
from lerobot_diagnostics.replay.desk import Desk
from lerobot_diagnostics.replay.judge import Outcome
from lerobot_diagnostics.robot import ScriptedKeys


def desk(keys, **settings):
    said = []
    quiet = {"stopped": lambda: False, "say": said.append, "echo": lambda _t: None, "sleep": lambda _s: None}
    return Desk(ScriptedKeys(keys), **quiet | settings), said


def test_enter_goes_on_and_what_is_looked_at_is_shown_meanwhile():
    shown = []
    table = Table("t", ["a"], [[1]])
    asked, said = desk([None, "x", "\n"], show=shown.append)
    assert asked.confirm("press ENTER", lambda: table)
    assert said == ["press ENTER"] and shown == [table] * 3 + [None]


def test_a_stop_ends_the_wait_and_yes_needs_none():
    stops = iter([False, False, True])
    asked, _ = desk([], stopped=lambda: next(stops))
    assert not asked.confirm("press ENTER")
    looked = []
    asked, said = desk([], yes=True)
    assert asked.confirm("press ENTER", lambda: looked.append(1)) and said == [] and looked == [1]


def test_with_yes_what_is_looked_at_is_still_shown():
    shown, table = [], Table("t", ["a"], [[1]])
    asked, _ = desk([], yes=True, show=shown.append)
    assert asked.confirm("press ENTER", lambda: table) and shown == [table]


def test_the_outcome_is_asked_unless_it_is_known():
    assert desk("y\n")[0].outcome() == Outcome(True)
    assert desk("\n")[0].outcome() == Outcome(None)
    assert desk("n\n20 left\n")[0].outcome() == Outcome(False, (0.0, 20.0))
    asked, said = desk("n\n20 up\n\n")
    assert asked.outcome() == Outcome(False) and "no miss" in said[0]
    assert desk("", outcome=Outcome(True))[0].outcome() == Outcome(True)
