import av
import numpy as np
import pytest

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.recording import video
from lerobot_diagnostics.recording.video import Packets, Run, decode, frame_offsets, plan
from tests.make_dataset import concatenate, picture, read_picture, write_mp4

FPS = 10


def packets(keyframes, pts=None, count=12):
    pts = np.arange(count) if pts is None else np.array(pts)
    return Packets(pts, np.arange(len(pts)), np.isin(np.arange(len(pts)), keyframes), 0.1)


def test_plan_seeks_over_what_nobody_needs():
    assert plan(packets([0, 2, 4, 6, 8, 10]), [1, 7, 10]) == [Run(0, 1, [1]), Run(6, 7, [7]), Run(10, 10, [10])]


def test_plan_goes_on_in_one_group_and_into_the_next():
    assert plan(packets([0, 6]), [1, 4]) == [Run(0, 4, [1, 4])]
    assert plan(packets([0, 6]), [5, 7]) == [Run(0, 7, [5, 7])]
    assert plan(packets([0, 6]), [4, 7]) == [Run(0, 4, [4]), Run(6, 7, [7])]


def test_plan_decodes_a_repeated_frame_once():
    assert plan(packets([0, 6]), [3, 3]) == [Run(0, 3, [3])]


def test_plan_starts_a_frame_shown_before_its_keyframe_one_group_earlier():
    # open GOP: packet 5 comes behind keyframe 4 in decoding order and is shown before it
    order = packets([0, 4], pts=[0, 1, 2, 3, 5, 4, 6])
    assert plan(order, [5]) == [Run(0, 5, [5])]


def test_plan_refuses_a_stream_that_starts_without_a_keyframe():
    with pytest.raises(ValueError, match="no keyframe"):
        plan(packets([6]), [2])


def test_nearest_takes_the_closer_neighbour_and_says_how_far():
    positions, offsets = packets([0], pts=[0, 2, 1, 3]).nearest([0.0, 0.11, 0.24, 9.0])
    assert positions.tolist() == [0, 2, 1, 3]
    assert offsets == pytest.approx([0, -0.01, -0.04, -8.7])


@pytest.fixture(scope="module", params=["h264", "av1", "mpeg4", "long", "reordered"])
def mp4(request, tmp_path_factory):
    """60 frames in two parts of 37 and 23 put in one file."""
    codec, gop, b_frames = {"long": ("h264", 250, 0), "reordered": ("h264", 250, 3)}.get(
        request.param, (request.param, 2, 0)
    )
    folder = tmp_path_factory.mktemp(request.param)
    parts = [folder / "a.mp4", folder / "b.mp4"]
    for part, frames in zip(parts, (range(37), range(37, 60)), strict=True):
        write_mp4(part, [picture(i) for i in frames], FPS, codec, gop, b_frames)
    concatenate(parts, folder / "both.mp4")
    return request.param, folder / "both.mp4"


@pytest.mark.parametrize("indices", [range(60), [0], [59], [36, 37], [1, 20, 21, 40, 58], [5, 5, 6]])
def test_the_right_frames_come_out(mp4, indices):
    frames = list(decode(mp4[1], [i / FPS for i in indices]))
    assert [read_picture(frame)[0] for frame in frames] == list(indices)
    assert frames[0].shape == (48, 64, 3)
    assert frames[0].dtype == np.uint8


def test_pixels_are_those_of_a_plain_pass_over_the_file(mp4):
    with av.open(str(mp4[1])) as container:
        plain = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    for i in (0, 11, 36, 37, 50, 59):
        (frame,) = decode(mp4[1], [i / FPS])
        assert np.array_equal(frame, plain[i])


def test_the_reordered_file_is_reordered(mp4):
    with av.open(str(mp4[1])) as container:
        moved = any(p.pts != p.dts for p in container.demux(video=0) if p.pts is not None)
    assert moved == (mp4[0] == "reordered")


def test_one_frame_in_twenty_of_a_two_frame_gop_decodes_two_each(tmp_path, monkeypatch):
    path = tmp_path / "v.mp4"
    write_mp4(path, [picture(i) for i in range(200)], FPS, gop=2)
    runs = []
    monkeypatch.setattr(video, "plan", lambda *args: runs.extend(plan(*args)) or list(runs))
    frames = list(decode(path, [i / FPS for i in range(1, 200, 20)]))
    assert [read_picture(frame)[0] for frame in frames] == list(range(1, 200, 20))
    assert [run.last - run.first + 1 for run in runs] == [2] * 10


def test_frames_are_yielded_one_by_one(mp4):
    frames = decode(mp4[1], [i / FPS for i in range(60)])
    assert read_picture(next(frames))[0] == 0
    frames.close()  # the file is closed, nothing more is decoded


def test_a_time_between_frames_is_refused_with_its_size(mp4):
    with pytest.raises(UsageError, match=r"no frame at 0\.5400 s \(the nearest is 0\.0400 s off; 1 of 2 frames\)"):
        list(decode(mp4[1], [0.2, 0.54]))
    assert read_picture(*decode(mp4[1], [0.54], tolerance_s=0.05))[0] == 5
    assert read_picture(*decode(mp4[1], [0.56], tolerance_s=0.05))[0] == 6


def test_a_time_behind_the_end_is_refused(mp4):
    with pytest.raises(UsageError, match="no frame at 6"):
        list(decode(mp4[1], [6.0]))


def test_offsets_tell_a_shifted_clock_without_decoding(mp4):
    times = np.arange(60) / FPS
    assert np.abs(frame_offsets(mp4[1], times)).max() < 1e-4
    assert frame_offsets(mp4[1], times + 0.03) == pytest.approx(-0.03, abs=1e-4)
    assert frame_offsets(mp4[1], [8.0]) == pytest.approx([-2.1], abs=1e-4)  # the last frame is shown at 5.9 s


def test_a_file_that_is_no_video_is_named(tmp_path):
    path = tmp_path / "v.mp4"
    path.write_bytes(b"no mp4" * 100)
    with pytest.raises(UsageError, match=r"v\.mp4 is damaged"):
        list(decode(path, [0.0]))
    with pytest.raises(UsageError, match=r"lacks the video .*w\.mp4"):
        list(decode(tmp_path / "w.mp4", [0.0]))


def test_a_cut_off_file_is_named(tmp_path):
    write_mp4(tmp_path / "v.mp4", [picture(i) for i in range(40)], FPS)
    whole = (tmp_path / "v.mp4").read_bytes()
    (tmp_path / "cut.mp4").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UsageError, match=r"cut\.mp4"):
        list(decode(tmp_path / "cut.mp4", [i / FPS for i in range(40)]))


def test_nothing_asked_opens_nothing(tmp_path):
    assert list(decode(tmp_path / "none.mp4", [])) == []
