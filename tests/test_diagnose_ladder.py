"""The ladder says what it did: which rungs ran, and whether the arm moved."""

import pytest

from lerobot_diagnostics.diagnose.ladder import Outcome, Rung, climb, interrupted, ladder_table
from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Cause, Finding, Status


def refuse():
    raise UsageError("there is no terminal to press ENTER on.")


@pytest.mark.parametrize(
    ("run", "note"),
    [(Outcome, "The arm was moved in the last rungs."), (refuse, "Nothing was moved."), (None, "Nothing was moved.")],
)
def test_the_arm_was_moved_only_by_a_rung_that_ran(run, note):
    climbed = climb([Rung("files", "", "", Outcome), Rung("replay", "", "", run, moves=True)], lambda _: None)
    assert ladder_table(climbed).note == note
    assert (climbed[1].status, bool(climbed[1].stopped)) == (Status.UNKNOWN, run is not Outcome)


def stop():
    raise KeyboardInterrupt


@pytest.mark.parametrize("moves", [False, True])
def test_ctrl_c_keeps_what_was_found_and_runs_nothing_more(moves):
    found = Outcome([Finding("LAG", Status.PASS, Cause.MODEL, "a", "in time")])
    ran = []
    rungs = [
        Rung("files", "", "", lambda: found),
        Rung("sight", "", "", stop, moves=moves),
        Rung("clock", "", "", None, "no --policy.path was given"),
        Rung("replay", "", "", lambda: ran.append(1) or Outcome(), moves=True),
    ]
    climbed = climb(rungs, lambda _: None)
    assert not ran and interrupted(climbed).name == "sight"
    table = ladder_table(climbed)
    assert [row[2] for row in table.rows] == [
        "1 passed", "interrupted", "not run: no --policy.path was given", "not run: interrupted",
    ]  # fmt: skip
    assert ("may have moved" in table.note) is moves
    assert interrupted(climb(rungs[:1], lambda _: None)) is None
