import itertools
from collections.abc import Sequence

import cv2
import numpy as np
import pytest
from vision_scenes import camera, recording, relit, table, warped

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Finding, Status
from lerobot_diagnostics.vision import Comparer, ReferenceViews, compare_views
from lerobot_diagnostics.vision.identity import oriented

SEEDS = {"front": 1, "side": 2, "top": 3}


@pytest.fixture(scope="module")
def comparer() -> Comparer:
    frames, episodes = recording(SEEDS)
    return Comparer(ReferenceViews.build(frames, episodes=episodes))


@pytest.fixture
def live() -> dict[str, np.ndarray]:
    return {name: camera(seed, 12.0, 999 + seed) for name, seed in SEEDS.items()}


def failed(findings: Sequence[Finding], *statuses: Status) -> set[tuple[str, str]]:
    return {
        (f.code, f.subject) for f in findings if f.status in (statuses or (Status.FAIL, Status.WARN, Status.UNKNOWN))
    }


def one(findings: Sequence[Finding], code: str, subject: str) -> Finding:
    (found,) = [f for f in findings if (f.code, f.subject) == (code, subject)]
    return found


def test_healthy_cameras_pass_by_name(comparer: Comparer, live: dict[str, np.ndarray]) -> None:
    findings = comparer.compare(live)
    assert failed(findings) == set()
    for name in SEEDS:
        passed = {f.code for f in findings if f.subject == name and f.status is Status.PASS}
        assert passed == {"DEAD", "RESOLUTION", "SWAPPED", "ROTATED", "CHANNELS", "LIGHTING", "MOVED"}


def test_every_permutation_is_named(comparer: Comparer, live: dict[str, np.ndarray]) -> None:
    for order in itertools.permutations(SEEDS):
        shown = dict(zip(SEEDS, order, strict=True))
        findings = comparer.compare({name: live[view] for name, view in shown.items()}, geometry=False)
        swapped = {f.subject: f.evidence["shows"] for f in findings if f.code == "SWAPPED" and f.status is Status.FAIL}
        assert swapped == {name: view for name, view in shown.items() if name != view}
        for found in findings:
            if found.code == "SWAPPED" and found.status is Status.FAIL:
                view = shown[found.subject]
                both = f"Exchange the devices of {found.subject} and {view} in --robot.cameras, or pass --rename_map='"
                one = f"Give {view} the device that {found.subject} has now, in --robot.cameras."
                assert found.fix.startswith(both) if shown[view] == found.subject else found.fix == one


def test_swap_is_seen_through_light_and_motion(comparer: Comparer, live: dict[str, np.ndarray]) -> None:
    changed = {
        "front": relit(warped(live["side"], 12, -8, 3), 0.6, 0.5, 0.55),
        "side": warped(live["front"], -10, 6, -3),
        "top": live["top"],
    }
    findings = comparer.compare(changed, geometry=False)
    assert failed(findings, Status.FAIL) == {("SWAPPED", "front"), ("SWAPPED", "side")}


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (lambda p: np.ascontiguousarray(p[..., ::-1]), "CHANNELS"),
        (lambda p: oriented(p, 2), "ROTATED"),
        (lambda p: oriented(p, 4), "MIRRORED"),
        (lambda p: np.zeros_like(p), "DEAD"),
        (lambda p: cv2.resize(p, None, fx=2, fy=2), "RESOLUTION"),
        (lambda p: relit(p, 0.6, 0.6, 0.6), "LIGHTING"),
        (lambda p: relit(p, 1.0, 0.8, 0.7), "LIGHTING"),
        (lambda p: warped(p, 9, 0), "MOVED"),
        (lambda p: warped(p, 0, 0, 0, 1.06), "FRAMING"),
    ],
)
def test_one_fault_gives_its_own_code_only(comparer: Comparer, live: dict[str, np.ndarray], spoil, code: str) -> None:  # type: ignore[no-untyped-def]
    findings = comparer.compare({**live, "side": spoil(live["side"])})
    assert failed(findings) == {(code, "side")}


def test_quarter_turn_changes_the_shape_too(comparer: Comparer, live: dict[str, np.ndarray]) -> None:
    findings = comparer.compare({**live, "side": oriented(live["side"], 3)})
    assert failed(findings) == {("ROTATED", "side"), ("RESOLUTION", "side")}
    assert "90° clockwise" in one(findings, "ROTATED", "side").summary


def test_moved_carries_amount_and_direction_back(comparer: Comparer, live: dict[str, np.ndarray]) -> None:
    moved = one(comparer.compare({**live, "top": warped(live["top"], 8, 0, 1.5)}), "MOVED", "top")
    assert moved.evidence["dx_px"] == pytest.approx(8, abs=0.3)
    assert moved.evidence["rotation_deg"] == pytest.approx(1.5, abs=0.1)
    assert "right" in moved.summary
    assert "left by 8 px" in moved.fix


def test_exposure_is_measured(comparer: Comparer, live: dict[str, np.ndarray]) -> None:
    dimmed = one(comparer.compare({**live, "top": relit(live["top"], 0.7, 0.7, 0.7)}), "LIGHTING", "top")
    assert dimmed.evidence["exposure_ratio"] == pytest.approx(0.7, abs=0.03)
    assert dimmed.cause == "lighting"


def test_missing_camera_names_who_shows_its_view(comparer: Comparer, live: dict[str, np.ndarray]) -> None:
    renamed = {"front": live["front"], "side": live["side"], "cam_2": live["top"]}
    finding = one(comparer.compare(renamed), "MISSING_CAMERA", "top")
    assert finding.status is Status.FAIL
    assert "cam_2" in finding.summary
    assert "cam_2" in finding.fix
    del renamed["cam_2"]
    assert "no live camera" in one(comparer.compare(renamed), "MISSING_CAMERA", "top").summary


def test_extra_camera_is_ignored(comparer: Comparer, live: dict[str, np.ndarray]) -> None:
    assert failed(comparer.compare({**live, "extra": table(77)})) == set()


def test_stranger_in_a_slot_is_unknown(comparer: Comparer, live: dict[str, np.ndarray]) -> None:
    findings = comparer.compare({**live, "side": table(50)})
    assert failed(findings, Status.FAIL) == {("UNKNOWN_VIEW", "side")}


def test_frozen_needs_something_else_to_move(comparer: Comparer, live: dict[str, np.ndarray]) -> None:
    still = {name: [p, p, p] for name, p in live.items()}
    changing = {name: [camera(SEEDS[name], 12.0 + k, k) for k in range(3)] for name in SEEDS}
    assert failed(comparer.compare({**changing, "side": still["side"]}), Status.FAIL) == {("FROZEN", "side")}
    assert {f.status for f in comparer.compare(still) if f.code == "FROZEN"} == {Status.UNKNOWN}
    assert failed(comparer.compare(still, moving=True), Status.FAIL) == {("FROZEN", n) for n in SEEDS}
    assert {f.status for f in comparer.compare(changing) if f.code == "FROZEN"} == {Status.PASS}


def test_a_black_camera_is_dead_not_frozen(comparer: Comparer) -> None:
    changing = {name: [camera(SEEDS[name], 12.0 + k, k) for k in range(3)] for name in SEEDS}
    changing["top"] = [np.zeros_like(p) for p in changing["top"]]
    assert failed(comparer.compare(changing), Status.FAIL) == {("DEAD", "top")}


def test_twins_are_undecided_never_passed_or_swapped() -> None:
    frames, episodes = recording({"left": 4})
    other, _ = recording({"right": 4})
    rng = np.random.default_rng(5)
    jitter = lambda p: np.clip(p + rng.normal(0, 4, p.shape), 0, 255).astype(np.uint8)  # noqa: E731
    twins = Comparer(
        ReferenceViews.build({"left": frames["left"], "right": [jitter(p) for p in other["right"]]}, episodes=episodes)
    )
    test = twins.self_test()
    assert [(f.status, f.subject) for f in test] == [(Status.WARN, "left, right")]
    findings = twins.compare({"left": camera(4, 5.0, 1), "right": camera(4, 5.0, 2)})
    assert {f.code for f in findings if f.status is Status.UNKNOWN} >= {"UNDECIDED"}
    assert not [f for f in findings if f.code == "SWAPPED"]


def test_self_test_passes_where_cameras_differ_and_does_not_where_it_cannot_run(comparer: Comparer) -> None:
    assert {f.status for f in comparer.self_test()} == {Status.PASS}
    assert len(comparer.self_test()) == 3
    frames, _ = recording({"a": 1, "b": 2})
    assert {f.status for f in Comparer(ReferenceViews.build(frames)).self_test()} == {Status.UNKNOWN}


def test_camera_that_moves_by_itself_is_not_judged_moved() -> None:
    wrist = [warped(table(6), 25 * np.sin(k), 20 * np.cos(k)) for k in range(12)]
    comparer = Comparer(ReferenceViews.build({"wrist": wrist}, episodes=[k // 4 for k in range(12)]))
    assert comparer.steady == {"wrist": False}
    assert one(comparer.compare({"wrist": wrist[5]}), "MOVED", "wrist").status is Status.UNKNOWN


def test_state_chooses_the_reference_for_a_moving_camera() -> None:
    wrist = [warped(table(6), 6.0 * k, 0) for k in range(8)]
    states = np.arange(8.0)[:, None]
    comparer = Comparer(ReferenceViews.build({"wrist": wrist}, states=states, episodes=[k // 4 for k in range(8)]))
    at_pose = one(comparer.compare({"wrist": wrist[3]}, state=np.array([3.0])), "MOVED", "wrist")
    assert at_pose.status is Status.PASS
    knocked = one(comparer.compare({"wrist": warped(table(6), 18, 11)}, state=np.array([3.0])), "MOVED", "wrist")
    assert knocked.status is Status.WARN
    assert knocked.evidence["dy_px"] == pytest.approx(11, abs=0.5)


def test_plain_lists_of_pictures_will_do(live: dict[str, np.ndarray]) -> None:
    frames, _ = recording(SEEDS, episodes=2)
    findings = compare_views({"front": live["side"], "side": live["front"], "top": live["top"]}, frames)
    assert failed(findings, Status.FAIL) == {("SWAPPED", "front"), ("SWAPPED", "side")}


def test_an_empty_check_is_refused(comparer: Comparer) -> None:
    with pytest.raises(UsageError, match="no live pictures"):
        comparer.compare({})
    with pytest.raises(UsageError, match="no picture"):
        comparer.compare({"front": []})
    with pytest.raises(UsageError, match="uint8"):
        comparer.compare({"front": np.zeros((3, 240, 320), np.float32)})


def test_light_is_left_out_where_it_is_not_asked_for(comparer: Comparer, live: dict[str, np.ndarray]) -> None:
    dim = {name: relit(picture, 0.5, 0.5, 0.5) for name, picture in live.items()}
    assert any(f.code == "LIGHTING" and f.status is Status.WARN for f in comparer.compare(dim))
    assert not any(f.code == "LIGHTING" for f in comparer.compare(dim, light=False))


def test_findings_about_other_references_name_them(live: dict[str, np.ndarray]) -> None:
    """Compared with a snapshot nothing may be said of a recording, whatever is found."""
    frames, episodes = recording(SEEDS)
    references = ReferenceViews.build(frames, episodes=episodes)
    scenes = [
        live,
        {**live, "front": live["side"], "side": live["front"]},
        {name: warped(picture, 9, -6) for name, picture in live.items()},
        {name: relit(picture, 0.5, 0.5, 0.5) for name, picture in live.items()},
        {**live, "front": camera(77, 0, 1), "side": np.full((240, 320, 3), 90, np.uint8)},
        {name: cv2.resize(picture, (320, 180)) for name, picture in live.items()},
        {**live, "front": oriented(live["front"], 1), "top": live["top"][..., ::-1]},
        {**live, "front": live["front"][40:-40, 53:-53]},
    ]
    said: dict[str, list[str]] = {}
    for source in ("recording", "snapshot"):
        comparer = Comparer(references, source)
        findings = [f for scene in scenes for f in comparer.compare(scene)]
        said[source] = [f"{f.summary} {f.fix}" for f in findings]
        assert {"SWAPPED", "MOVED", "LIGHTING", "RESOLUTION", "UNKNOWN_VIEW"} <= {code for code, _ in failed(findings)}
    assert not [text for text in said["snapshot"] if "record" in text or "rollout" in text]
    assert not [text for text in said["recording"] if "snapshot" in text]
    assert any("in the snapshot" in text for text in said["snapshot"])
