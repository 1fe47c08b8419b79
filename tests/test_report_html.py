import base64
import io
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image

from lerobot_diagnostics.findings import Finding, Picture, Report, Table, Verdict
from lerobot_diagnostics.report.html import render_html

EVIL = '<script>alert("x")</script>'


class Page(HTMLParser):
    """Checks that tags close in order, and keeps what a browser would fetch or run."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.words = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in {"meta", "img", "br", "link"}:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in {"script", "style"}:
            self.words.append(data)

    def all(self, name):
        return [attrs for tag, attrs in self.tags if tag == name]


def noise(path, size, seed=0):
    Image.fromarray(np.random.default_rng(seed).integers(0, 255, (size, size, 3), dtype=np.uint8)).save(path)


def report(**fields):
    given = {
        "findings": [
            Finding("FLAT", "pass", "model", "pan", "moves"),
            Finding(
                "SIGN",
                "fail",
                "calibration",
                EVIL,
                f"runs backwards {EVIL}",
                {"range_deg": 62.3, EVIL: EVIL},
                f"Run `lerobot-calibrate {EVIL}`",
            ),
        ],
        "inputs": {EVIL: EVIL},
        "versions": {"lerobot": "0.6.1"},
        "timings": {"load_s": 3.21},
        "tables": [Table(EVIL, ["joint", EVIL], [[EVIL, 2.5]], note=EVIL)],
    }
    return Report(
        "lerobot-x", Verdict("calibration", f"summary {EVIL}", ["SIGN", "LAG"], [EVIL]), **{**given, **fields}
    )


def test_all_user_text_is_escaped(tmp_path):
    noise(tmp_path / "a.png", 8)
    text = render_html(report(pictures=[Picture("a.png", EVIL, EVIL), Picture(EVIL, EVIL)]), tmp_path)
    page = Page(text)
    assert len(page.all("script")) == 1  # the page's own
    assert EVIL in "".join(page.words)
    assert "alert(" not in text.split("<script>")[1]


def test_a_flag_stays_in_one_piece_and_is_still_escaped(tmp_path):
    finding = Finding("FLAT", "fail", "model", "x", "Pass --robot.use_degrees=true & <b> to lerobot-diagnose.")
    page = render_html(Report("lerobot-diagnose", Verdict("data", "It is."), [finding]), tmp_path)
    assert '<span class="flag">--robot.use_degrees</span>=true &amp; &lt;b&gt; to <span class="flag">lerobot-' in page


def test_the_order_is_verdict_findings_tables_pictures_run(tmp_path):
    noise(tmp_path / "a.png", 8)
    words = "".join(Page(render_html(report(pictures=[Picture("a.png", "caption", "Curves")]), tmp_path)).words)
    order = ["summary ", "runs backwards", "62.3°", "1 check passed", "2.50", "caption", "0.6.1", "3.21 s"]
    places = [words.rindex(word) for word in order]
    assert places == sorted(places)


def test_nothing_is_fetched(tmp_path):
    noise(tmp_path / "a.png", 8)
    (tmp_path / "b.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    text = render_html(report(pictures=[Picture("a.png", "a"), Picture("b.svg", "b")]), tmp_path)
    page = Page(text)
    sources = [attrs["src"] for attrs in page.all("img") if "src" in attrs]
    assert [s.split(";")[0] for s in sources] == ["data:image/png", "data:image/svg+xml"]
    assert all(attrs["href"].startswith("#") for attrs in page.all("a"))
    assert not page.all("link") and "url(" not in text and "@import" not in text
    assert any("default-src 'none'" in attrs.get("content", "") for attrs in page.all("meta"))


def test_every_anchor_has_a_target(tmp_path):
    page = Page(render_html(report(), tmp_path))
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    targets = {attrs["href"][1:] for attrs in page.all("a")}
    assert targets <= set(ids) and "SIGN" in targets and "LAG" not in targets


def test_the_command_to_run_can_be_copied_alone(tmp_path):
    text = render_html(
        report(findings=[Finding("LAG", "warn", "clock", "a", "late", fix="Do: lerobot-x --a=1")]), tmp_path
    )
    assert re.findall(r'<div class="run"><code>(.*?)</code><button', text) == ["lerobot-x --a=1"]
    plain = render_html(report(findings=[Finding("LAG", "warn", "clock", "a", "late", fix="Look at it.")]), tmp_path)
    assert '<div class="run">' not in plain


@pytest.mark.parametrize("limit", [400_000, 120_000])
def test_pictures_shrink_until_the_page_fits(tmp_path, limit):
    for i in range(3):
        noise(tmp_path / f"{i}.png", 512, i)  # 786 kB each
    pictures = [Picture(f"{i}.png", f"caption {i}") for i in range(3)]
    text = render_html(report(pictures=pictures), tmp_path, limit_bytes=limit)
    assert len(text.encode()) <= limit
    sources = [attrs["src"] for attrs in Page(text).all("img") if "src" in attrs]
    assert len(sources) == 3 and all(s.startswith("data:image/jpeg") for s in sources)
    assert all((tmp_path / f"{i}.png").stat().st_size > 700_000 for i in range(3))  # the files stay as they were


def test_pictures_that_fit_are_kept_bit_for_bit(tmp_path):
    noise(tmp_path / "a.png", 64)
    source = Page(render_html(report(pictures=[Picture("a.png", "a")]), tmp_path)).all("img")[0]["src"]
    assert base64.b64decode(source.split(",")[1]) == (tmp_path / "a.png").read_bytes()


def test_what_cannot_be_embedded_is_named_not_fatal(tmp_path):
    noise(tmp_path / "big.png", 512)
    (tmp_path / "clip.mp4").write_bytes(b"x")
    pictures = [Picture("gone.png", "one"), Picture("clip.mp4", "two"), Picture("big.png", "three")]
    limit = len(render_html(report(), tmp_path).encode()) + 2000  # less than big.png needs even at its smallest
    text = render_html(report(pictures=pictures), tmp_path, limit_bytes=limit)
    words = "".join(Page(text).words)
    for expected in (
        "gone.png",
        "No such file",
        "clip.mp4",
        "a .mp4 is not shown here",
        "left out to keep the page small",
    ):
        assert expected in words
    assert len(text.encode()) <= limit


def test_transparent_pictures_become_white_not_black_when_shrunk(tmp_path):
    rgba = np.random.default_rng(0).integers(0, 255, (300, 300, 4), dtype=np.uint8)
    rgba[:150, :, 3] = 0
    Image.fromarray(rgba).save(tmp_path / "a.png")
    text = render_html(report(pictures=[Picture("a.png", "a")]), tmp_path, limit_bytes=80_000)
    source = Page(text).all("img")[0]["src"]
    image = np.asarray(Image.open(io.BytesIO(base64.b64decode(source.split(",")[1]))))
    assert image[: len(image) // 4].mean() > 250


def test_an_empty_report_is_a_page(tmp_path):
    page = Page(render_html(Report("lerobot-x", Verdict("undecided", "nothing was checked")), tmp_path))
    assert "nothing was checked" in "".join(page.words)
    assert not page.all("table") and not page.all("article")


def test_a_table_of_statuses_stands_under_the_verdict_with_its_pills(tmp_path):
    ladder = Table("The ladder", ["rung", "status"], [["files", "pass"], ["devices", "unknown"]])
    text = render_html(report(tables=[ladder]), tmp_path)
    assert text.index("The ladder") < text.index('id="findings"')
    assert '<span class="pill unknown">unknown</span>' in text
    assert 'id="tables"' not in text  # nothing else to list there
    Page(text)


def test_the_headline_is_the_verdict_and_the_advice_stands_below_it(tmp_path):
    verdict = Verdict("cameras", "front has moved. Independent of it: LAG. Next: `lerobot-rollout --a=1`")
    text = render_html(Report("lerobot-x", verdict), tmp_path)
    assert "<h1>front has moved.</h1>" in text
    assert re.findall(r'<div class="run"><code>(.*?)</code><button', text) == ["lerobot-rollout --a=1"]
    assert '<div class="more">' not in render_html(Report("lerobot-x", Verdict("undecided", "nothing. yet")), tmp_path)
    Page(text)


def test_a_fault_found_in_a_subject_is_not_also_listed_as_passed(tmp_path):
    findings = [
        Finding("MOVED", "warn", "cameras", "front", "has moved"),
        Finding("MOVED", "pass", "cameras", "front", "stands as then"),
        Finding("MOVED", "pass", "cameras", "top", "stands where it stood"),
    ]
    words = "".join(Page(render_html(report(findings=findings), tmp_path)).words)
    assert "1 check passed" in words and "1 pass" in words
    assert "stands where it stood" in words and "stands as then" not in words


def test_a_table_without_rows_is_not_drawn(tmp_path):
    tables = [Table("Soak", ["device"], []), Table("Cameras", ["index"], [], "There is none.")]
    page = Page(render_html(report(tables=tables), tmp_path))
    assert not page.all("table")
    assert "There is none." in "".join(page.words) and "Soak" not in "".join(page.words)


def test_a_long_cell_is_shown_whole(tmp_path):
    names = ", ".join(f"joint_{i}.pos" for i in range(8))
    text = render_html(report(tables=[Table("Features", ["feature", "data set"], [["action", names]])]), tmp_path)
    assert f'<td class="long">{names}</td>' in text and "<td>action</td>" in text
    assert "text-overflow" not in text
