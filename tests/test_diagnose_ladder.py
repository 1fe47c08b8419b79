"""The ladder says what it did: which rungs ran, and whether the arm moved."""

import pytest

from lerobot_diagnostics.diagnose.ladder import Outcome, Rung, climb, ladder_table
from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Status


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
