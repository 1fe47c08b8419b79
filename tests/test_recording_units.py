import numpy as np
import pytest

from lerobot_diagnostics.recording import open_recording
from lerobot_diagnostics.recording.units import Unit, infer_joint_units, infer_units

DEGREE_TICK = 360 / 4095


def ticks(low: int, high: int, length: int = 300) -> np.ndarray:
    """Encoder counts of a joint that swings between ``low`` and ``high``."""
    middle, half = (low + high) / 2, (high - low) / 2
    return np.round(middle + half * np.sin(np.arange(length) / 23))


def degrees(counts, low, high):
    return ((counts - (low + high) / 2) * 360 / 4095).astype(np.float32)


def percent(counts, low, high):
    return ((counts - low) / (high - low) * 200 - 100).astype(np.float32)


@pytest.mark.parametrize(("low", "high"), [(800, 3200), (801, 3200), (1500, 3773)])
def test_degrees_are_told_from_percent_of_the_same_motion(low, high):
    counts = ticks(low + 300, high - 300)
    as_degrees = infer_units(degrees(counts, low, high))
    assert as_degrees.unit is Unit.DEGREES
    assert as_degrees.quantum == pytest.approx(DEGREE_TICK)
    assert as_degrees.range_width_ticks is None  # nothing in degrees tells the range
    as_percent = infer_units(percent(counts, low, high))
    assert as_percent.unit is Unit.RANGE_M100_100
    assert as_percent.range_width_ticks == high - low
    assert as_percent.quantum == pytest.approx(200 / (high - low))
    assert as_percent.confidence > 0.9


def test_a_joint_that_moves_a_little_is_told_too():
    counts = ticks(1900, 1940)
    assert infer_units(degrees(counts, 900, 3100)).unit is Unit.DEGREES
    guess = infer_units(percent(counts, 900, 3100))
    assert (guess.unit, guess.range_width_ticks) == (Unit.RANGE_M100_100, 2200)


def test_only_a_calibration_settles_a_range_whose_percent_step_is_a_degree_step():
    # 200 / 2275 = 360 / 4095: such a ±100 lattice is one of degrees too
    low, high = 900, 3175
    values = percent(ticks(1300, 2800), low, high)
    alone = infer_units(values)
    assert (alone.unit, alone.confidence) == (Unit.DEGREES, 0.9)  # the commoner of the two, and not for certain
    known = infer_units(values, {"range_min": low, "range_max": high})
    assert (known.unit, known.confidence) == (Unit.RANGE_M100_100, 0.9)


def test_a_calibration_fills_in_the_range_that_degrees_do_not_tell():
    guess = infer_units(degrees(ticks(1300, 2800), 800, 3200), {"range_min": 800, "range_max": 3200})
    assert (guess.unit, guess.range_width_ticks) == (Unit.DEGREES, 2400)


def test_degrees_beyond_100_are_degrees_for_certain():
    guess = infer_units(degrees(ticks(500, 3600), 500, 3600))
    assert (guess.unit, guess.confidence) == (Unit.DEGREES, 0.99)


def test_raw_ticks_and_their_look_alikes():
    assert infer_units(ticks(800, 3200)).unit is Unit.TICKS
    assert infer_units(ticks(10, 500)).unit is Unit.UNKNOWN  # pixels
    assert infer_units(ticks(-90, 90)).unit is Unit.UNKNOWN  # degrees, rounded


def test_encoder_radians_and_simulated_radians():
    encoder = infer_units(((ticks(1200, 2900) - 2048) * 2 * np.pi / 4096).astype(np.float32))
    assert (encoder.unit, encoder.confidence) == (Unit.RADIANS, 0.99)
    assert encoder.quantum == pytest.approx(2 * np.pi / 4096)
    simulated = infer_units(1.2 * np.sin(np.arange(300) / 23))
    assert (simulated.unit, simulated.quantum) == (Unit.RADIANS, None)
    assert simulated.confidence < encoder.confidence


@pytest.mark.parametrize("decimals", [0, 1, 2, 3])
def test_rounded_values_are_unknown(decimals):
    values = degrees(ticks(900, 3100), 800, 3200)
    assert infer_units(np.round(values, decimals)).unit is Unit.UNKNOWN


def test_noise_on_the_values_is_unknown():
    values = degrees(ticks(900, 3100), 800, 3200)
    noisy = values + np.random.default_rng(0).normal(0, DEGREE_TICK, len(values))
    assert infer_units(noisy.astype(np.float32)).unit is Unit.UNKNOWN


@pytest.mark.parametrize("values", [[], [1.0] * 50, np.linspace(0, 1e-3, 400), [np.nan] * 40])
def test_a_joint_that_does_not_move_is_unknown(values):
    assert infer_units(np.array(values)).unit is Unit.UNKNOWN


def test_a_few_stray_values_do_not_hide_the_lattice():
    values = percent(ticks(900, 3100), 800, 3200)
    values[[10, 90, 170]] += 0.03
    assert infer_units(values).range_width_ticks == 2400


def test_several_joints_agree_or_are_unknown():
    counts = ticks(1000, 3000)
    both = np.stack([degrees(counts, 900, 3100), degrees(counts, 800, 3201)], axis=1)
    assert infer_units(both).unit is Unit.DEGREES
    mixed = np.stack([degrees(counts, 900, 3100), percent(counts, 800, 3200)], axis=1)
    assert infer_units(mixed).unit is Unit.UNKNOWN


def test_joints_by_name_use_their_calibration_and_leave_the_gripper_out():
    counts = ticks(1000, 3000)
    values = np.stack([percent(counts, 900, 3100), (counts - 900) / 22], axis=1)
    calibration = {"shoulder_pan": {"range_min": 900, "range_max": 3100}}
    guesses = infer_joint_units(values, ["main_shoulder_pan", "gripper.pos"], calibration)
    assert list(guesses) == ["main_shoulder_pan"]
    assert guesses["main_shoulder_pan"].range_width_ticks == 2200


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("so101_record_test_stateonly", Unit.RANGE_M100_100),
        ("so101_bimanual_cloth", Unit.TICKS),
        ("so101_sim_2cam", Unit.RADIANS),
        ("bridge_toysink_3cam", Unit.UNKNOWN),
        ("pusht_image_slice", Unit.UNKNOWN),
    ],
)
def test_real_recordings(recordings, name, unit):
    recording = open_recording(root=recordings / name / "v30", need_videos=False)
    for index in list(recording.episode_indices)[:4]:
        episode = recording.episode(index)
        for values in (episode.states, episode.actions):
            assert infer_units(values).unit is unit, index
