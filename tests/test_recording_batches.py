import threading

import numpy as np
import pytest

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.recording import frame_batches, open_recording
from tests.make_dataset import make_dataset, read_picture

FRONT, WRIST = "observation.images.front", "observation.images.wrist"


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    root = tmp_path_factory.mktemp("data") / "set"
    return open_recording(root=make_dataset(root, lengths=(12, 7, 9), cameras={"front": "h264", "wrist": "image"}))


@pytest.fixture
def requests(recording):
    return [(recording.episode(e), wanted) for e, wanted in ((0, [0, 5, 11]), (1, [2]), (2, [0, 4, 8]))]


def workers() -> set[str]:
    return {t.name for t in threading.enumerate() if "frame_batches" in t.name or "ThreadPool" in t.name}


@pytest.mark.parametrize("batch_size", [1, 2, 3, 100])
def test_batches_hold_every_moment_once_in_order_across_episodes(requests, batch_size):
    batches = list(frame_batches(requests, [FRONT, WRIST], batch_size=batch_size))
    assert [len(b.indices) for b in batches[:-1]] == [batch_size] * (len(batches) - 1)
    moments = [(e.index, int(i)) for b in batches for e, i in zip(b.episodes, b.indices, strict=True)]
    assert moments == [(0, 0), (0, 5), (0, 11), (1, 2), (2, 0), (2, 4), (2, 8)]
    for number, camera in enumerate((FRONT, WRIST)):
        pictures = np.concatenate([b.images[camera] for b in batches])
        assert pictures.dtype == np.uint8
        assert [read_picture(p) for p in pictures] == [(i, number) for _, i in moments]


def test_without_cameras_the_moments_come_alone(requests):
    (batch,) = frame_batches(requests, [], batch_size=10)
    assert batch.images == {}
    assert batch.indices.tolist() == [0, 5, 11, 2, 0, 4, 8]


def test_nothing_asked_yields_nothing(recording):
    assert list(frame_batches([], [FRONT], batch_size=4)) == []
    assert list(frame_batches([(recording.episode(0), [])], [FRONT], batch_size=4)) == []


def test_decoding_runs_ahead_only_as_far_as_allowed(recording):
    drawn, waiting = [], threading.Event()

    def requests():
        for i in range(50):
            drawn.append(i)
            if len(drawn) == 4:
                waiting.set()
            yield recording.episode(0), [i % 12]

    batches = frame_batches(requests(), [FRONT], batch_size=1, prefetch=2)
    next(batches)
    assert waiting.wait(10)  # it decodes while the caller holds the first batch
    batches.close()
    # with the caller, two waiting, one in the hands of the thread
    assert len(drawn) == 4


def test_closing_early_ends_the_threads(requests):
    batches = frame_batches(requests, [FRONT, WRIST], batch_size=1, prefetch=1)
    next(batches)
    assert workers()
    batches.close()
    assert not workers()


def test_a_fault_surfaces_where_its_batch_would_have_come(tmp_path):
    root = make_dataset(tmp_path / "set", lengths=(4, 4), cameras={"front": "h264"}, episodes_per_file=1)
    recording = open_recording(root=root)
    episodes = [recording.episode(0), recording.episode(1)]
    (root / f"videos/{FRONT}/chunk-000/file-001.mp4").write_bytes(b"broken")
    batches = frame_batches([(e, range(4)) for e in episodes], [FRONT], batch_size=4)
    assert [read_picture(p)[0] for p in next(batches).images[FRONT]] == [0, 1, 2, 3]
    with pytest.raises(UsageError, match=r"file-001\.mp4 is damaged"):
        next(batches)
    assert not workers()
