"""Which pictures belong together, and how far apart they are."""

from types import SimpleNamespace

import numpy as np
import pytest
from fake_robot import KEYS
from make_dataset import make_dataset, picture, read_picture
from PIL import Image
from vision_scenes import table, warped

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Status
from lerobot_diagnostics.recording import open_episode, open_recording
from lerobot_diagnostics.replay.pictures import (
    RecordedFrames,
    fetch_videos,
    key_moments,
    misalignment,
    pair_cameras,
    sampled,
    triptych,
    write_strips,
)
from lerobot_diagnostics.replay.plan import make_plan


@pytest.fixture
def root(tmp_path):
    def grasp(_episode, length):
        values = np.zeros((length, 6))
        values[:, 5] = np.where((np.arange(length) > 20) & (np.arange(length) < 40), 5.0, 60.0)
        values[:, 1] = np.abs(np.arange(length) - 30.0)
        return values

    cameras = {"front": "h264", "wrist": "h264"}
    return make_dataset(tmp_path / "data", lengths=(60, 60), fps=10, cameras=cameras, actions=grasp, states=grasp)


def test_cameras_pair_by_name_or_by_the_map(root):
    recording = open_recording(root=root)
    assert pair_cameras(["front", "wrist"], recording).findings == []
    pairs, findings = pair_cameras(["front", "left_wrist"], recording)
    assert pairs == {"front": "observation.images.front"}
    assert [(f.code, f.subject, f.status) for f in findings] == [("MISSING_CAMERA", "wrist", Status.WARN)]
    assert '"wrist": "left_wrist"' in findings[0].fix
    pairs, findings = pair_cameras(["front", "left_wrist"], recording, {"wrist": "left_wrist"})
    assert pairs["left_wrist"] == "observation.images.wrist" and findings == []
    with pytest.raises(UsageError, match="--rename_map"):
        pair_cameras(["front"], recording, {"side": "front"})


def test_recorded_frames_go_on_skip_and_start_over(root):
    frames = RecordedFrames(open_episode(root, 1), {"wrist": "observation.images.wrist"})
    assert [read_picture(frames.get("wrist", k)) for k in (0, 1, 1, 9, 4)] == [(0, 1), (1, 1), (1, 1), (9, 1), (4, 1)]


def test_cameras_whose_videos_are_lost_are_left_out(root):
    (root / "videos/observation.images.wrist/chunk-000/file-000.mp4").unlink()
    pairs = {name: f"observation.images.{name}" for name in ("front", "wrist")}
    assert set(RecordedFrames(open_episode(root, 0), pairs).pairs) == {"front"}
    (lost,) = fetch_videos([open_episode(root, 0)], pairs)
    assert (lost.code, lost.subject, lost.status) == ("MISSING_FILES", "wrist", Status.WARN)


def test_videos_of_the_hub_are_fetched_for_paired_cameras_only(root):
    episode = open_episode(root, 0)
    asked = []
    episode.video_path = lambda key: asked.append(key) or root
    assert fetch_videos([episode], {"front": "observation.images.front"}) == []
    assert asked == ["observation.images.front"]


def test_key_moments_are_the_grasp_and_the_lowest_point(root):
    plan = make_plan(open_episode(root, 0), KEYS, speed=1.0)
    moments = key_moments(plan, lambda pose: pose["shoulder_lift.pos"])
    assert [frame for frame, caption in moments.items() if "closes" in caption] == [21]
    assert [frame for frame, caption in moments.items() if "opens" in caption] == [40]
    assert moments[30] == "lowest point" and moments[0] == "start" and moments[59] == "end"
    assert set(moments) <= set(sampled(plan, moments)) and len(sampled(plan, moments)) <= 17


def test_strips_show_live_recorded_and_both(root, tmp_path):
    live, recorded = np.full((48, 64, 3), 200, np.uint8), np.zeros((24, 32, 3), np.uint8)
    sheet = triptych(live, recorded, 0.25)
    assert sheet.shape == (24, 96, 3)
    assert (sheet[0, 0, 0], sheet[0, 40, 0], sheet[0, 80, 0]) == (200, 0, 150)  # a quarter of the recorded one
    frames = RecordedFrames(open_episode(root, 0), {"front": "observation.images.front"})
    kept = {3: {"front": picture(3)}, 5: {}}
    (written,) = write_strips(tmp_path, "episode 0", kept, frames, {3: "start", 5: "nothing kept"}, 0.5)
    with Image.open(tmp_path / written.path) as image:
        assert image.size == (192, 48)
    assert "frame 3, start" in written.caption


def test_misalignment_is_measured_where_pictures_were_kept():
    scene = table(3)
    frames = SimpleNamespace(pairs={"front": "front"}, get=lambda _camera, _frame: scene)
    kept = {0: {"front": scene}, 7: {"front": warped(scene, 6.0, -3.0)}}
    rows = [dict(zip(misalignment(kept, frames).columns, row, strict=True)) for row in misalignment(kept, frames).rows]
    assert rows[0]["shift px"] == pytest.approx(0.0, abs=0.3)
    assert (rows[1]["right px"], rows[1]["down px"]) == pytest.approx((6.0, -3.0), abs=0.5)
