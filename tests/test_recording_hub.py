import shutil
from fnmatch import fnmatch
from pathlib import Path

import httpx
import pytest
from huggingface_hub import errors
from lerobot.datasets.dataset_metadata import LeRobotDatasetMetadata
from lerobot.datasets.utils import BackwardCompatibilityError
from lerobot.utils.constants import HF_LEROBOT_HUB_CACHE
from packaging.version import Version

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.recording import hub, open_episode, open_recording
from tests.make_dataset import make_dataset, read_picture

COMMIT = "0123456789abcdef0123456789abcdef01234567"
FRONT, WRIST = "observation.images.front", "observation.images.wrist"


class FakeHub:
    """Stands in for the Hub's client: serves a local data set file by file and writes down what was asked."""

    def __init__(self, source: Path, cache: Path) -> None:
        self.source, self.snapshot = source, cache / "datasets--user--set" / "snapshots" / COMMIT
        self.asked: list[str] = []
        self.error: Exception | None = None

    def serve(self, name: str) -> Path:
        target = self.snapshot / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(self.source / name, target)
        return target

    def get_safe_version(self, repo_id, version):
        if self.error:
            raise self.error
        assert (repo_id, version) == ("user/set", "v3.0")
        return "v3.0"

    def snapshot_download(self, repo_id, *, repo_type, revision, cache_dir, allow_patterns="*"):
        if self.error:
            raise self.error
        assert (repo_id, repo_type, cache_dir) == ("user/set", "dataset", HF_LEROBOT_HUB_CACHE)
        self.asked.append(f"{allow_patterns}@{revision}")
        for path in [path for path in self.source.rglob("*") if path.is_file()]:
            if fnmatch(name := path.relative_to(self.source).as_posix(), allow_patterns):  # as the Hub's client does
                self.serve(name)
        return str(self.snapshot)

    def hf_hub_download(self, repo_id, filename, *, repo_type, revision, cache_dir):
        if self.error:
            raise self.error
        assert (repo_id, repo_type, revision, cache_dir) == ("user/set", "dataset", COMMIT, HF_LEROBOT_HUB_CACHE)
        self.asked.append(filename)
        return str(self.serve(filename))


@pytest.fixture
def fake(tmp_path, monkeypatch):
    source = make_dataset(
        tmp_path / "source", lengths=(5, 6, 7), cameras={"front": "h264", "wrist": "h264"}, episodes_per_file=1
    )
    fake = FakeHub(source, tmp_path / "cache")
    for name in ("get_safe_version", "snapshot_download", "hf_hub_download"):
        monkeypatch.setattr(hub, name, getattr(fake, name))
    monkeypatch.setattr("lerobot_diagnostics.recording.dataset.HF_LEROBOT_HOME", tmp_path / "home")
    return fake


def test_only_the_files_of_the_opened_episode_are_fetched_and_only_once(fake):
    recording = open_recording("user/set")
    assert fake.asked == ["meta/*@v3.0"]
    assert not (fake.snapshot / "data").exists()
    fake.asked.clear()
    episode = recording.episode(1)
    assert sorted(fake.asked) == [
        "data/chunk-000/file-001.parquet",
        f"videos/{FRONT}/chunk-000/file-001.mp4",
        f"videos/{WRIST}/chunk-000/file-001.mp4",
    ]
    assert [read_picture(f) for f in episode.frames(WRIST, [4])] == [(4, 1)]
    recording.episode(1)
    assert len(fake.asked) == 3


def test_joints_only_fetches_no_video_until_its_frames_are_asked_for(fake):
    episode = open_episode("user/set", 2)
    assert episode.actions.shape == (7, 6)
    assert fake.asked == ["meta/*@v3.0", "data/chunk-000/file-002.parquet"]
    assert not episode.has_videos(FRONT)
    assert len(list(episode.frames(FRONT, [0]))) == 1
    assert fake.asked[2:] == [f"videos/{FRONT}/chunk-000/file-002.mp4"]


def test_only_the_needed_cameras_are_fetched(fake):
    open_recording("user/set", need_videos=[FRONT]).episode(0)
    assert fake.asked[1:] == ["data/chunk-000/file-000.parquet", f"videos/{FRONT}/chunk-000/file-000.mp4"]


def test_lerobots_metadata_out_of_its_hub_cache_fetches_the_same_commit(fake, monkeypatch):
    open_recording("user/set")
    monkeypatch.setattr("lerobot_diagnostics.recording.dataset.HF_LEROBOT_HUB_CACHE", fake.snapshot.parents[2])
    fake.asked.clear()
    metadata = LeRobotDatasetMetadata("user/set", root=fake.snapshot)
    assert open_episode(metadata, 1).actions.shape == (6, 6)
    assert fake.asked == ["data/chunk-000/file-001.parquet"]


def test_a_branch_is_asked_for_as_it_is(fake):
    open_recording("user/set", revision="main")
    assert fake.asked == ["meta/*@main"]


@pytest.mark.usefixtures("fake")
def test_offline_the_cache_is_tried(monkeypatch):
    def offline(*_):
        raise httpx.ConnectError("no route")

    monkeypatch.setattr(hub, "get_safe_version", offline)
    assert open_recording("user/set").total_episodes == 3


def response(status: int) -> httpx.Response:
    return httpx.Response(status, request=httpx.Request("GET", "https://example.org"))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (errors.GatedRepoError("gated", response=response(403)), "is gated.*hf auth login"),
        (errors.RepositoryNotFoundError("401", response=response(401)), "no such data set, or it is private"),
        (errors.RevisionNotFoundError("404", response=response(404)), r"no such revision.*--dataset\.revision"),
        (errors.HfHubHTTPError("401", response=response(401)), r"refuses access \(401\)"),
        (errors.HfHubHTTPError("503", response=response(503)), "answered 503"),
        (errors.LocalEntryNotFoundError("offline"), "cannot be reached"),
        (errors.OfflineModeIsEnabled("offline"), "cannot be reached"),
        (httpx.ConnectError("no route"), "cannot be reached"),
        (httpx.ReadTimeout("slow"), "cannot be reached"),
        (errors.HFValidationError("a/b/c"), "is no repository id"),
    ],
)
def test_refusals_are_one_line_in_plain_words(fake, error, words):
    fake.error = error
    with pytest.raises(UsageError, match=words) as caught:
        open_recording("user/set")
    assert str(caught.value).startswith("--dataset.repo_id=user/set")
    assert "\n" not in str(caught.value)


def test_a_file_the_hub_lacks_is_named(fake):
    recording = open_recording("user/set")
    fake.error = errors.RemoteEntryNotFoundError("404 for file-001.parquet", response=response(404))
    with pytest.raises(UsageError, match=r"lacks a file .*file-001\.parquet"):
        recording.episode(1)


def test_no_version_tag_says_which_flag_helps(fake):
    fake.error = RuntimeError("Your dataset must be tagged with a codebase version.")
    with pytest.raises(UsageError, match=r"--dataset\.revision=main"):
        open_recording("user/set")


def test_only_v21_on_the_hub_says_how_to_convert(fake):
    fake.error = BackwardCompatibilityError("user/set", Version("2.1"))
    with pytest.raises(UsageError, match=r"v2\.1 only.*--dataset\.convert=true"):
        open_recording("user/set")
