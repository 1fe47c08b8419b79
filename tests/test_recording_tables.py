import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.recording import open_recording, tables
from lerobot_diagnostics.recording.tables import find_episode, iter_rows, to_array
from tests.make_dataset import make_dataset


def write(path: Path, episodes, row_group_size=None, statistics=True, **columns) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({"episode_index": np.array(episodes), **columns})
    pq.write_table(table, path, row_group_size=row_group_size, write_statistics=statistics)
    return path


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize("row_group_size", [1, 3, 4, 100])
def test_only_the_rows_of_the_episode_come_out(tmp_path, row_group_size, statistics):
    episodes = np.repeat([3, 4, 5, 7], [2, 5, 1, 4])
    path = write(tmp_path / "d.parquet", episodes, row_group_size, statistics, x=np.arange(12), y=np.arange(12))
    rows = {e: [x for t in iter_rows(path, e, ["x"], batch_size=2) for x in t["x"].to_pylist()] for e in range(2, 9)}
    assert rows == {2: [], 3: [0, 1], 4: [2, 3, 4, 5, 6], 5: [7], 6: [], 7: [8, 9, 10, 11], 8: []}


def test_the_row_of_an_episode_is_found_in_its_file_without_statistics_of_it(tmp_path):
    files = [
        write(
            tmp_path / f"{i}.parquet", range(i * 4, i * 4 + 4), 2, length=np.arange(4) + i, **{"stats/a": np.zeros(4)}
        )
        for i in range(5)
    ]
    for episode in range(20):
        assert find_episode(files, episode) == {"episode_index": episode, "length": episode % 4 + episode // 4}
    assert find_episode(files, 20) is None
    assert find_episode([], 0) is None


class CountingFile(io.FileIO):
    """Counts the bytes that were really read."""

    total = 0

    def read(self, size=-1):
        data = super().read(size)
        CountingFile.total += len(data)
        return data

    def readinto(self, buffer):
        count = super().readinto(buffer)
        CountingFile.total += count or 0
        return count


@pytest.fixture
def bytes_read(monkeypatch):
    plain = Path.open

    def opened(path, *args, **kwargs):
        return CountingFile(path) if path.suffix == ".parquet" else plain(path, *args, **kwargs)

    def count(action):
        CountingFile.total = 0
        with monkeypatch.context() as patch:
            patch.setattr(Path, "open", opened)
            action()
        return CountingFile.total

    return count


def big_dataset(root: Path, episodes: int, per_file: int = 250, length: int = 20) -> Path:
    """Parquet and metadata of a data set as LeRobot lays it out: bounded files, an episode a row group."""
    make_dataset(root, lengths=[length], names=None, size=6)
    (root / "data/chunk-000/file-000.parquet").unlink()
    (root / "meta/episodes/chunk-000/file-000.parquet").unlink()
    info = root / "meta/info.json"
    info.write_text(info.read_text().replace('"total_episodes": 1,', f'"total_episodes": {episodes},'))
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(per_file * length * 6, np.float32)), 6)
    for file in range(episodes // per_file):
        mine = np.arange(file * per_file, (file + 1) * per_file)
        rows = np.repeat(mine, length)
        scalars = {key: np.tile(np.arange(length), per_file) for key in ("frame_index", "index")}
        scalars |= {
            "timestamp": (scalars["frame_index"] / 10).astype(np.float32),
            "task_index": np.zeros(len(rows), int),
        }
        scalars |= {"action": vectors, "observation.state": vectors}
        write(root / f"data/chunk-000/file-{file:03d}.parquet", rows, length, **scalars)
        columns = {"length": np.full(per_file, length), "tasks": [["pick the cube"]] * per_file}
        columns |= {"data/chunk_index": np.zeros(per_file, int), "data/file_index": np.full(per_file, file)}
        columns |= {f"stats/action/q{i}": [[0.5] * 6] * per_file for i in range(20)}
        write(root / f"meta/episodes/chunk-000/file-{file:03d}.parquet", mine, 10, **columns)
    return root


def test_one_episode_of_ten_thousand_costs_what_one_of_five_hundred_costs(tmp_path, bytes_read, monkeypatch):
    rows = []
    taken = tables.iter_rows

    def counted(*args, **kwargs):
        for table in taken(*args, **kwargs):
            rows.append(len(table))
            yield table

    monkeypatch.setattr(tables, "iter_rows", counted)
    groups, found = [], tables._row_groups
    monkeypatch.setattr(tables, "_row_groups", lambda *args: groups.append(found(*args)) or groups[-1])

    def open_one(root: Path, index: int) -> None:
        episode = open_recording(root=root).episode(index)
        assert episode.actions.shape == (20, 6)
        assert episode.timestamps[-1] == pytest.approx(1.9)
        assert episode.task == "pick the cube"

    small, big = big_dataset(tmp_path / "small", 500), big_dataset(tmp_path / "big", 10_000)
    for where in (0.0, 0.37, 0.99):
        rows.clear()
        groups.clear()
        of_small = bytes_read(lambda w=where: open_one(small, int(500 * w)))
        of_big = bytes_read(lambda w=where: open_one(big, int(10_000 * w)))
        assert rows == [1, 20] * 2
        assert [len(g) for g in groups] == [1, 1] * 2  # nothing else was decoded
        # 40 files instead of 2: bisection looks at the footers of five more at most, and at no more rows
        footers = [pq.read_metadata(f).serialized_size for f in sorted((big / "meta/episodes").glob("*/*.parquet"))]
        assert 0 < of_big < of_small + 6 * (max(footers) + (1 << 16))
        everything = sum(f.stat().st_size for f in big.rglob("*.parquet"))
        assert of_big < everything / 10


def test_vectors_of_both_list_kinds_and_scalars_become_arrays():
    values = np.arange(6, dtype=np.float32)
    fixed = pa.chunked_array([pa.FixedSizeListArray.from_arrays(pa.array(values), 3)])
    listed = pa.chunked_array([pa.array([[0, 1, 2], [3, 4, 5]], pa.list_(pa.float32()))])
    assert np.array_equal(to_array(fixed, [3]), values.reshape(2, 3))
    assert np.array_equal(to_array(listed, [3]), values.reshape(2, 3))
    assert np.array_equal(to_array(pa.chunked_array([[1, 2]]), [1]), [1, 2])


def test_ragged_and_empty_cells_are_refused():
    with pytest.raises(ValueError, match="3 values"):
        to_array(pa.chunked_array([pa.array([[0.0, 1.0, 2.0], [3.0]])]), [3])
    with pytest.raises(ValueError, match="empty cells"):
        to_array(pa.chunked_array([pa.array([[0.0, None, 2.0]])]), [3])


def test_faulty_files_are_named(tmp_path):
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 no parquet")
    with pytest.raises(UsageError, match=r"bad\.parquet is damaged"):
        list(iter_rows(tmp_path / "bad.parquet", 0))
    with pytest.raises(UsageError, match=r"lacks .*none\.parquet"):
        list(iter_rows(tmp_path / "none.parquet", 0))
    pq.write_table(pa.table({"x": [1]}), tmp_path / "x.parquet")
    with pytest.raises(UsageError, match="no column episode_index"):
        list(iter_rows(tmp_path / "x.parquet", 0))
    with pytest.raises(UsageError, match="lacks the column y"):
        list(iter_rows(write(tmp_path / "y.parquet", [0]), 0, ["y"]))


def test_a_file_damaged_in_the_middle_is_named(tmp_path):
    path = write(tmp_path / "d.parquet", np.repeat(np.arange(50), 40), 40, x=np.random.default_rng(0).random(2000))
    data = bytearray(path.read_bytes())
    data[len(data) // 4 : len(data) // 2] = bytes(len(data) // 2 - len(data) // 4)
    path.write_bytes(data)
    with pytest.raises(UsageError, match=r"d\.parquet is damaged"):
        list(iter_rows(path, 20, ["x"]))
