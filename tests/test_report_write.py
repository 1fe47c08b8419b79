import json
import re
from datetime import datetime
from pathlib import Path

import pytest

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Report, Verdict
from lerobot_diagnostics.report.write import atomic_file, file_name, output_dir, prepare_output_dir, write_report

REPORT = Report("lerobot-x", Verdict("none_found", "nothing is wrong"), inputs={"path": "caf\udce9"})


def clock():
    return datetime(2026, 3, 4, 5, 6, 7)


def test_default_folder_is_dated_and_a_second_run_in_the_same_second_gets_its_own(tmp_path):
    first = prepare_output_dir(None, "lerobot-open-loop-eval", now=clock, root=tmp_path)
    second = prepare_output_dir(None, "lerobot-open-loop-eval", now=clock, root=tmp_path)
    assert first == tmp_path / "2026-03-04" / "05-06-07_open-loop-eval"
    assert second == tmp_path / "2026-03-04" / "05-06-07_open-loop-eval_2"
    assert first.is_dir() and second.is_dir()


def test_a_new_or_an_empty_folder_is_taken_and_left_empty(tmp_path):
    assert prepare_output_dir(str(tmp_path / "a" / "b"), "x") == tmp_path / "a" / "b"
    assert list((tmp_path / "a" / "b").iterdir()) == []
    assert prepare_output_dir(tmp_path / "a" / "b", "x") == tmp_path / "a" / "b"


def test_a_folder_nothing_was_written_into_is_gone_with_those_made_for_it(tmp_path):
    (tmp_path / "mine").mkdir()
    with pytest.raises(KeyboardInterrupt), output_dir(tmp_path / "mine" / "new" / "out", "x") as folder:
        assert folder.is_dir()
        raise KeyboardInterrupt
    assert list(tmp_path.rglob("*")) == [tmp_path / "mine"]
    with output_dir(tmp_path / "mine", "x"):  # empty, and the user's own
        pass
    assert (tmp_path / "mine").is_dir()


def test_a_folder_something_was_written_into_stays_whatever_happened(tmp_path):
    with pytest.raises(UsageError), output_dir(tmp_path / "new" / "out", "x") as folder:
        (folder / "a.png").write_text("x")
        raise UsageError("the arm does not answer.")
    assert [p.name for p in (tmp_path / "new" / "out").iterdir()] == ["a.png"]


def test_a_folder_that_is_refused_is_not_touched(tmp_path):
    (tmp_path / "mine.txt").write_text("precious")
    with pytest.raises(UsageError, match="not empty"), output_dir(tmp_path, "x"):
        raise AssertionError("entered")
    assert (tmp_path / "mine.txt").read_text() == "precious"


def test_a_folder_with_something_in_it_is_refused_and_untouched(tmp_path):
    (tmp_path / "mine.txt").write_text("precious")
    with pytest.raises(UsageError, match=r"not empty.*--output_dir"):
        prepare_output_dir(tmp_path, "x")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("mine.txt", "precious")]


@pytest.mark.parametrize("below", ["", "deeper/still"])
def test_a_file_in_the_way_is_named(tmp_path, below):
    (tmp_path / "taken").write_text("precious")
    with pytest.raises(UsageError, match=r"taken.*--output_dir"):
        prepare_output_dir(tmp_path / "taken" / below, "x")
    assert (tmp_path / "taken").read_text() == "precious"


def test_an_unwritable_place_is_a_usage_error(tmp_path, monkeypatch):
    def refuse(*_args, **_kwargs):
        raise PermissionError(13, "Permission denied", str(tmp_path / "out"))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(
        UsageError, match=r"cannot write to .*out: Permission denied\. Give another folder as --output_dir"
    ):
        prepare_output_dir(tmp_path / "out", "x")


def test_a_failing_writer_leaves_the_old_file_and_no_temporary_one(tmp_path):
    target = tmp_path / "a.png"
    target.write_text("old")
    with pytest.raises(RuntimeError), atomic_file(target) as temporary:
        temporary.write_text("half")
        raise RuntimeError("stopped")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a.png", "old")]


def test_the_temporary_name_keeps_the_suffix_and_becomes_the_file(tmp_path):
    with atomic_file(tmp_path / "new" / "a.png") as temporary:
        temporary.write_text("whole")
        assert temporary.suffix == ".png" and not (tmp_path / "new" / "a.png").exists()
    assert [(p.name, p.read_text()) for p in (tmp_path / "new").iterdir()] == [("a.png", "whole")]


def test_a_full_disk_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match=r"No space left on device.*--output_dir"), atomic_file(tmp_path / "a.json"):
        raise OSError(28, "No space left on device")
    assert list(tmp_path.iterdir()) == []


def test_the_report_is_written_as_strict_json_and_a_page(tmp_path):
    files = write_report(REPORT, tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {"report.json", "report.html"}
    data = json.loads(files.json.read_text(encoding="utf-8"))
    assert Report.from_dict(data).to_dict() == REPORT.to_dict()  # the undecodable byte of the path survives
    assert "nothing is wrong" in files.html.read_text(encoding="utf-8")


def test_file_names_are_portable():
    name = file_name("episode 3", "observation.images/top", "a:b*?")
    assert name == "episode-3_observation.images-top_a-b"
    assert re.fullmatch(r"[\w.-]+", name)
