"""``--rename_map``: LeRobot leaves a key that does not exist unused and says nothing."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from lerobot_diagnostics.camera_names import IMAGES
from lerobot_diagnostics.errors import UsageError

if TYPE_CHECKING:
    from lerobot_diagnostics.recording.dataset import Recording


def check_rename_map(
    rename_map: Mapping[str, str] | None, recording: Recording | None, others: Iterable[str] = ()
) -> None:
    """Refuse a map with a key that nothing has.

    Args:
        rename_map: ``--rename_map``; None where none was given.
        recording: The data set, whose observations may be renamed; None where there is none.
        others: The robot's observation keys, and whatever else may be renamed.

    Raises:
        UsageError: On the first such key, with the nearest that exists.
    """
    known = [key for key in (recording.features if recording else ()) if key.startswith("observation.")]
    known = list(dict.fromkeys([*known, *others]))
    for key in rename_map or {}:
        if key not in known:
            near = [IMAGES + key] if IMAGES + key in known else difflib.get_close_matches(key, known, n=1)
            if near:
                raise UsageError(f"--rename_map: there is no key {key}; did you mean {near[0]}?")
            raise UsageError(f"--rename_map: there is no key {key}.", f"There are: {', '.join(known) or 'none'}.")
