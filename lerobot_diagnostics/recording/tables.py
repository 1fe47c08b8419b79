"""Reading only the rows of one episode out of a data set's parquet files.

Cost grows with the size of one file at most (LeRobot starts a new one every 100 MB), not with the data set: files and
row groups are found by bisection over the statistics of ``episode_index``, the columns are projected, and rows stream.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lerobot_diagnostics.errors import UsageError

KEY = "episode_index"


@contextmanager
def open_parquet(path: Path) -> Iterator[Any]:
    """A ``pyarrow.parquet.ParquetFile`` that reads on demand.

    Raises:
        UsageError: If the file is missing or is no parquet file, also while it is being read.
    """
    try:
        # buffer_size and pre_buffer=False stream a column chunk instead of loading the whole of it
        with path.open("rb") as source, pq.ParquetFile(source, buffer_size=1 << 16, pre_buffer=False) as file:
            yield file
    except FileNotFoundError:
        raise UsageError(f"The data set lacks {path}.", "Restore the file, or check --dataset.root.") from None
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UsageError(f"{path} is damaged: {reason}", "Restore the file, or check --dataset.root.") from error


def _limits(file: Any, group: int, column: int) -> tuple[int, int] | None:
    """Smallest and largest ``episode_index`` of a row group, None where the writer left no statistics."""
    statistics = file.metadata.row_group(group).column(column).statistics
    if statistics is None or not statistics.has_min_max:
        return None
    return int(statistics.min), int(statistics.max)


def _row_groups(file: Any, episode: int, path: Path) -> list[int]:
    """The row groups that can hold rows of ``episode``."""
    groups = range(file.metadata.num_row_groups)
    names = [file.metadata.schema.column(i).path for i in range(file.metadata.num_columns)]
    if KEY not in names:
        raise UsageError(f"{path} has no column {KEY}.", "It is no LeRobot v3.0 file; check --dataset.root.")
    column = names.index(KEY)
    if not groups or any(_limits(file, group, column) is None for group in (groups[0], groups[-1])):
        return list(groups)

    def last(group: int) -> int:
        limits = _limits(file, group, column)
        return limits[1] if limits else episode

    start = bisect_left(groups, episode, key=last)
    stop = start
    while stop < len(groups) and (limits := _limits(file, stop, column)) is not None and limits[0] <= episode:
        stop += 1
    return list(range(start, stop))


def iter_rows(
    path: Path, episode: int, columns: Sequence[str] | None = None, *, batch_size: int = 1 << 15
) -> Iterator[pa.Table]:
    """Tables of the rows of ``episode`` in one parquet file, in file order, at most ``batch_size`` rows each.

    Args:
        path: The parquet file, holding one or more episodes in ascending order.
        episode: The episode's index.
        columns: The columns to read, all but ``stats/*`` by default.
        batch_size: How many rows are in memory at once.

    Raises:
        UsageError: If the file is missing or damaged, or lacks a column.
    """
    with open_parquet(path) as file:
        present = file.schema_arrow.names
        if columns is None:
            # The statistics of an episode are most of its row, and nobody asks for them here.
            columns = [name for name in present if not name.startswith("stats/")]
        if missing := [name for name in columns if name not in present]:
            raise UsageError(
                f"{path} lacks the column {', '.join(missing)} that meta/info.json names.", "Check --dataset.root."
            )
        seen = False
        for batch in file.iter_batches(
            batch_size=batch_size,
            row_groups=_row_groups(file, episode, path),
            columns=list(dict.fromkeys([KEY, *columns])),
            use_threads=False,
        ):
            table = pa.table(batch)
            rows = np.flatnonzero(table[KEY].to_numpy() == episode)
            if len(rows):
                seen = True
                yield table.take(rows).select(columns)
            elif seen:
                return  # an episode's rows are contiguous


def find_episode(files: Sequence[Path], episode: int) -> dict[str, Any] | None:
    """The row of ``episode`` in ``meta/episodes``, without ``stats/*``; None if no file has it.

    Args:
        files: The files of ``meta/episodes`` in order.
        episode: The episode's index.
    """

    def last(path: Path) -> int:
        with open_parquet(path) as file:
            groups = file.metadata.num_row_groups
            names = [file.metadata.schema.column(i).path for i in range(file.metadata.num_columns)]
            limits = _limits(file, groups - 1, names.index(KEY)) if groups and KEY in names else None
            return limits[1] if limits else episode

    start = bisect_left(files, episode, key=last) if len(files) > 1 else 0
    for path in files[start : start + 1]:
        for table in iter_rows(path, episode):
            row: dict[str, Any] = table.slice(0, 1).to_pylist()[0]
            return row
    return None


def to_array(column: pa.ChunkedArray, shape: Sequence[int]) -> NDArray[Any]:
    """A numeric column as ``[T, *shape]``, or ``[T]`` where the cells are numbers.

    Raises:
        ValueError: If the cells do not all have the given shape, or one is null.
    """
    rows = len(column)
    values = column.combine_chunks()
    nested = False
    while (
        pa.types.is_list(values.type) or pa.types.is_large_list(values.type) or pa.types.is_fixed_size_list(values.type)
    ):
        nested = True
        values = values.flatten()
    if values.null_count:
        raise ValueError("has empty cells")
    array = values.to_numpy(zero_copy_only=False)
    if not nested:
        return np.array(array)
    if len(array) != rows * int(np.prod(shape)):
        raise ValueError(f"does not have {int(np.prod(shape))} values a row")
    return np.array(array).reshape(rows, *shape)
