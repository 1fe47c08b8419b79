"""Which recorded data set: the flags that all commands share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class RecordedData:
    """A recorded data set."""

    # Data set on the Hub or in the local cache, e.g. user/my_data.
    repo_id: str | None = None
    # Local folder of the data set.
    root: str | None = None
    # Branch, tag or commit on the Hub.
    revision: str | None = None
    # Convert a v2.1 data set on a copy, with LeRobot's converter.
    convert: bool = False
