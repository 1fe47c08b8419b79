import pytest

from lerobot_diagnostics.report.format import (
    evidence_items,
    fix_parts,
    format_columns,
    format_value,
    headline,
    hundredths,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (14.24, "14.2"),
        (-0.9412, "−0.941"),
        (1234.5, "1234"),
        (3e-6, "3.00e-06"),
        (float("nan"), "–"),
        (None, "–"),
        (float("-inf"), "−∞"),
        (True, "yes"),
        (7, "7"),
        ([1, 2.5], "1, 2.50"),
    ],
)
def test_values_read_with_three_significant_digits(value, text):
    assert format_value(value) == text


def test_a_column_has_one_number_of_decimals_and_only_numbers_are_right_aligned():
    cells, numeric = format_columns([["pan", 1.5, 5], ["lift", 22.25, None], ["roll", None, 12]], 3)
    assert cells == [["pan", "1.5", "5"], ["lift", "22.2", "–"], ["roll", "–", "12"]]
    assert numeric == [False, True, True]


def test_what_was_rounded_to_hundredths_gets_no_further_digits():
    column = [[hundredths(value)] for value in (-3.98e-7, -0.0105, 0.0225, float("nan"))]
    assert format_columns(column, 1)[0] == [["0.00"], ["−0.01"], ["0.02"], ["–"]]
    assert format_columns([[-0.0105], [0.0225]], 1)[0] == [["−0.0105"], ["0.0225"]]


def test_noise_beside_figures_is_zero_and_a_small_column_is_not():
    column = [[40.0], [2.26e-06], [-3e-7], [12.5]]
    assert format_columns(column, 1)[0] == [["40.00"], ["0.00"], ["0.00"], ["12.50"]]
    assert format_columns([[2.26e-06], [3e-7]], 1)[0] == [["2.26e-06"], ["3.00e-07"]]


def test_a_unit_that_is_not_known_is_not_said():
    assert evidence_items({"rmse": 0.5, "unit": ""}) == [("rmse", "0.500")]
    assert evidence_items({"rmse": 0.5, "unit": "rad"})[1] == ("unit", "rad")


@pytest.mark.parametrize(
    ("summary", "parts"),
    [
        ("One thing.", ("One thing.", "")),
        ("step 2: off by 1.5°. Error: 3 %. Next: `x`", ("step 2: off by 1.5°.", "Error: 3 %. Next: `x`")),
        ("elbow (see 1. below) is off", ("elbow (see 1. below) is off", "")),
    ],
)
def test_a_verdict_is_its_first_sentence_and_the_rest(summary, parts):
    assert headline(summary) == parts


def test_a_short_row_is_padded():
    assert format_columns([["pan"]], 2)[0] == [["pan", ""]]


def test_evidence_takes_the_unit_from_the_key():
    items = evidence_items({"shift_px": 14.2, "rotation_deg": 1.1, "reference_episode": 0, "note_s": "late", "s": 2})
    assert items == [
        ("shift", "14.2 px"),
        ("rotation", "1.10°"),
        ("reference episode", "0"),
        ("note", "late"),
        ("s", "2"),
    ]


@pytest.mark.parametrize(
    ("fix", "commands"),
    [
        ("Run `lerobot-calibrate --robot.id=a` again.", ["lerobot-calibrate --robot.id=a"]),
        ("Recalibrate: lerobot-calibrate --robot.id=a", ["lerobot-calibrate --robot.id=a"]),
        ("Recalibrate: lerobot-calibrate --robot.id=a.", ["lerobot-calibrate --robot.id=a"]),
        ("lerobot-diagnose --dataset.root=.", ["lerobot-diagnose --dataset.root=."]),
        ("Allow it:\nsudo usermod -aG dialout $USER\nThen log in again.", ["sudo usermod -aG dialout $USER"]),
        ("lerobot-diagnose says more.", []),
        ("lerobot-diagnose\nthen python -m x", ["lerobot-diagnose"]),
        ("Push the camera 3 mm to the left, then use lerobot-diagnose.", []),
    ],
)
def test_commands_are_told_from_words_and_no_text_is_lost(fix, commands):
    parts = fix_parts(fix)
    assert [text for is_command, text in parts if is_command] == commands
    assert "".join(text for _, text in parts) == fix.replace("`", "")
