import io

import pytest
from rich.text import Text

from lerobot_diagnostics.findings import Finding, Report, Table, Verdict
from lerobot_diagnostics.report.console import make_console, passed, print_report, verdict_status, verdict_title

JOINTS = ["left_shoulder_pan.pos", "left_shoulder_lift.pos"]
REPORT = Report(
    "lerobot-x",
    Verdict("calibration", "wrist_roll runs backwards", ["SIGN"], ["whether the cameras moved"]),
    [
        Finding("FLAT", "pass", "model", "a", "moves"),
        Finding("FLAT", "pass", "model", "b", "moves"),
        Finding("OVERFIT", "warn", "model", "checkpoint", "held-out error is 2.4 times larger"),
        Finding(
            "SIGN",
            "fail",
            "calibration",
            "wrist_roll",
            "opposite [bold]sign[/bold] −0.94",
            {"range_deg": 62.3},
            "Recalibrate.",
        ),
    ],
    tables=[
        Table(
            "Error",
            ["joint", *(f"measure number {i}" for i in range(6))],
            [[j, 1.25, 0.5, 3.0, 100.0, 7, None] for j in JOINTS],
            note="smaller is better",
        )
    ],
)


def printed(report=REPORT, width=100, encoding="utf-8", files=()):
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, errors="strict", newline="")
    print_report(report, files, make_console(stream, width))
    stream.flush()
    return raw.getvalue().decode(encoding)


def test_verdict_comes_first_then_findings_gravest_first_and_passes_are_counted():
    text = printed()
    order = [
        "wrist_roll runs backwards",
        "whether the cameras moved",
        "FAIL",
        "Recalibrate.",
        "WARN",
        "FLAT ×2",
        "Error",
    ]
    places = [text.index(word) for word in order]
    assert places == sorted(places)
    assert "range 62.3°" in text
    assert "[bold]sign[/bold]" in text  # the report's text is no markup


def test_without_a_terminal_there_are_no_escape_codes():
    assert "\x1b" not in printed()


def test_colour_on_a_terminal_and_none_with_no_color(monkeypatch):
    class Terminal(io.StringIO):
        encoding = "utf-8"

        def isatty(self):
            return True

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured = Terminal()
    print_report(REPORT, (), make_console(coloured, 100))
    assert "\x1b[1;31m" in coloured.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Terminal()
    print_report(REPORT, (), make_console(plain, 100))
    assert "\x1b[1;31m" not in plain.getvalue() and "\x1b[1m" in plain.getvalue()


@pytest.mark.parametrize(("encoding", "minus"), [("ascii", "-"), ("cp1252", "-"), ("cp437", "-"), ("cp932", "－")])
def test_what_a_legacy_encoding_lacks_is_written_in_its_letters(encoding, minus):
    text = printed(encoding=encoding)
    assert f"opposite [bold]sign[/bold] {minus}0.94" in text
    assert "FLAT" in text


@pytest.mark.parametrize("width", [120, 80, 60, 40, 24])
def test_no_line_is_wider_than_the_terminal_and_no_cell_is_lost(width):
    text = printed(width=width)
    assert max(len(line) for line in text.splitlines()) <= width
    for joint in JOINTS:
        assert joint in text
    assert text.count("100") == len(JOINTS)
    assert "SIGN" in text and "wrist_roll" in text


def test_a_path_is_never_broken(tmp_path):
    path = tmp_path / ("long_" * 30) / "report.html"
    assert str(path) in printed(width=40, files=[path])


def test_a_reader_that_went_away_does_not_raise():
    class Closed(io.StringIO):
        def write(self, _text):
            raise BrokenPipeError

    print_report(REPORT, (), make_console(Closed(), 80))


def test_the_console_survives_odd_characters():
    console = make_console(io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="strict"), 80)
    console.print(Text("日本 → \udce9 ✓"))


@pytest.mark.parametrize(
    ("cause", "because", "expected"),
    [
        ("none_found", [], "pass"),
        ("undecided", [], "unknown"),
        ("model", ["OVERFIT"], "warn"),
        ("calibration", ["OVERFIT", "SIGN"], "fail"),
    ],
)
def test_the_verdict_has_the_colour_of_what_it_rests_on(cause, because, expected):
    report = Report("x", Verdict(cause, "words", because), REPORT.findings)
    assert verdict_status(report) == expected


def test_what_was_found_somewhere_is_not_listed_as_looked_for_in_vain():
    findings = [
        Finding("MOVED", "pass", "cameras", "top", "stands where it stood"),
        Finding("MOVED", "warn", "cameras", "front", "has moved"),
        Finding("SWAPPED", "pass", "cameras", "front", "shows its own view"),
    ]
    report = Report("x", Verdict("cameras", "front has moved", ["MOVED"]), findings)
    assert "looked for and not found: SWAPPED\n" in printed(report)
    assert "looked for" not in printed(Report("x", report.verdict, findings[:2]))
    assert passed(report) == [findings[0], findings[2]]  # the page, which names subjects, lists both
    same = [*findings, Finding("MOVED", "pass", "cameras", "front", "stands as in the snapshot")]
    assert passed(Report("x", report.verdict, same)) == [findings[0], findings[2]]


def test_a_table_without_rows_is_its_note_or_nothing():
    report = Report("x", Verdict("none_found", "fine"), tables=[Table("Soak", ["device"], [])])
    assert "Soak" not in printed(report) and "device" not in printed(report)
    noted = Report("x", Verdict("none_found", "fine"), tables=[Table("Cameras", ["index"], [], "There is none.")])
    assert "Cameras: There is none." in printed(noted) and "index" not in printed(noted)


def test_what_was_done_is_the_title_where_nothing_was_judged():
    done = Report("x", Verdict("none_found", "the checkpoint is guarded"), results={"done": "guarded"})
    assert "x: guarded" in printed(done) and "no fault found" not in printed(done)
    assert verdict_title(Report("x", Verdict("cameras", "w"), results={"done": "guarded"})) == "cause: cameras"


def test_the_verdicts_commands_are_shown_without_their_marks():
    text = printed(Report("x", Verdict("none_found", "No fault was found. Next: `lerobot-replay-compare --speed=1`")))
    assert "Next: lerobot-replay-compare --speed=1" in text and "`" not in text
