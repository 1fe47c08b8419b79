"""One verdict from many findings: upstream first, explained ones silent, independent ones kept."""

from lerobot_diagnostics.diagnose.attribution import RULES, attribute, rank, silence
from lerobot_diagnostics.findings import ALL_CODES, Cause, Finding, Status


def finding(code, cause, status=Status.FAIL, subject="front", fix=""):
    return Finding(code, status, Cause(cause), subject, f"{code} of {subject}", {}, fix)


def standing(*findings):
    return {f.code for f in silence(findings) if f.status in (Status.FAIL, Status.WARN)}


def test_every_code_has_a_rule_and_every_rule_its_evidence():
    judged = frozenset().union(*(rule.codes for rule in RULES))
    assert judged | {"INDEX_UNSTABLE"} >= ALL_CODES - {"NAN"}
    assert all(len(rule.why) > 20 for rule in RULES)


def test_a_moved_camera_explains_moved_objects_but_not_poor_predictions():
    moved = finding("MOVED", "cameras", Status.WARN)
    objects = finding("OBJECT_MOVED", "workspace", Status.WARN)
    poor = finding("POOR_FIT", "model", subject="elbow")
    assert standing(moved, objects, poor) == {"MOVED", "POOR_FIT"}
    verdict = attribute(silence([moved, objects, poor]))
    assert verdict.cause == "model"
    assert set(verdict.because) == {"POOR_FIT", "MOVED"}
    assert "MOVED (cameras)" in verdict.summary


def test_a_dead_camera_explains_its_own_view_only():
    dead = finding("DEAD", "cameras")
    own, other = finding("UNKNOWN_VIEW", "cameras"), finding("UNKNOWN_VIEW", "cameras", subject="top")
    left = [f for f in silence([dead, own, other]) if f.status is Status.FAIL]
    assert {(f.code, f.subject) for f in left} == {("DEAD", "front"), ("UNKNOWN_VIEW", "top")}
    explained = next(f for f in silence([dead, own, other]) if f.status is Status.INFO)
    assert explained.evidence["explained_by"] == "DEAD"
    assert explained.summary.startswith("Explained by DEAD (front)")


def test_units_explain_zeros_and_missing_statistics_explain_the_model():
    assert standing(finding("UNITS_MISMATCH", "units"), finding("ZERO_CHANGED", "calibration")) == {"UNITS_MISMATCH"}
    assert standing(
        finding("STATS_MISSING", "config"), finding("UNNORMALIZED", "config"), finding("FLAT", "model")
    ) == {"STATS_MISSING"}


def test_a_recorded_dead_camera_is_not_a_live_one():
    assert rank(finding("DEAD", "data")) > rank(finding("DEAD", "cameras"))
    assert standing(finding("DEAD", "data"), finding("MOVED", "cameras", Status.WARN)) == {"DEAD", "MOVED"}


def test_downstream_never_silences_upstream():
    assert standing(finding("ZERO_CHANGED", "calibration"), finding("UNITS_MISMATCH", "units")) == {"UNITS_MISMATCH"}
    assert standing(finding("SLOW_LOOP", "clock"), finding("BUS_ERRORS", "motors")) == {"BUS_ERRORS"}


def test_a_failure_outranks_what_only_warns_and_a_warning_decides_alone():
    light, model = finding("LIGHTING", "lighting", Status.WARN), finding("OVERFIT", "model")
    assert attribute([light, model]).cause == "model"
    assert attribute([light]).cause == "lighting"
    assert attribute(
        [finding("STATIONARY_PREFIX", "data", Status.WARN), finding("NAN", "data", Status.PASS)]
    ).cause == ("none_found")


def test_unknown_is_listed_and_never_a_pass():
    unknown = finding("MOVED", "cameras", Status.UNKNOWN)
    verdict = attribute([unknown], not_looked=["devices: not run"])
    assert verdict.cause == "undecided"
    assert len(verdict.cannot_tell) == 2
    assert attribute([unknown, finding("DEAD", "cameras", Status.PASS)]).cause == "none_found"


def test_the_next_step_is_the_top_findings():
    verdict = attribute([finding("OVERFIT", "model", fix="stop earlier")], next_command=lambda f: f.fix if f else "x")
    assert verdict.summary.endswith("Next: stop earlier")


def test_what_one_view_suspects_of_the_arm_a_fit_at_many_poses_settles():
    hint = finding("JOINT_OFFSET", "calibration", Status.WARN)
    base = finding("BASE_MOVED", "workspace", Status.WARN)
    sound = finding("JOINT_OFFSET", "calibration", Status.PASS, subject="arm")
    assert standing(hint, base, sound) == {"BASE_MOVED"}
    assert standing(hint, base) == {"JOINT_OFFSET"}  # which explains where the arm appears


def looks(subject, status):
    return finding("IGNORES_IMAGES", "model", status, subject=subject)


def told(*findings):
    return {f.subject: f for f in silence(findings) if f.code == "IGNORES_IMAGES"}


def test_recorded_pictures_and_the_object_taken_away_confirm_each_other():
    both = told(looks("pictures", Status.FAIL), looks("object", Status.FAIL))
    assert [f.status for f in both.values()] == [Status.FAIL, Status.FAIL]
    verdict = attribute(list(both.values()))
    assert (verdict.cause, verdict.because) == ("model", ["IGNORES_IMAGES"])
    both = told(looks("pictures", Status.PASS), looks("object", Status.PASS))
    assert [f.status for f in both.values()] == [Status.PASS, Status.PASS]


def test_a_policy_that_uses_pictures_and_ignores_the_object_looks_at_something_else():
    both = told(looks("pictures", Status.PASS), looks("object", Status.FAIL))
    assert both["object"].status is Status.FAIL
    assert "looks at something else" in both["object"].summary


def test_a_reaction_to_the_object_contradicts_ignored_pictures_and_both_stay_visible():
    both = told(looks("pictures", Status.FAIL), looks("object", Status.PASS))
    assert (both["pictures"].status, both["object"].status) == (Status.UNKNOWN, Status.PASS)
    verdict = attribute(list(both.values()))
    assert verdict.cause == "none_found"
    assert "because of IGNORES_IMAGES (object, pass)" in verdict.cannot_tell[0]


def test_an_object_missed_in_other_pictures_than_the_recorded_ones_is_not_ignored():
    moved = finding("MOVED", "cameras", Status.WARN)
    ignored = looks("object", Status.FAIL)
    assert told(moved, looks("pictures", Status.PASS), ignored)["object"].status is Status.UNKNOWN
    assert told(moved, ignored)["object"].status is Status.UNKNOWN
    assert told(moved, looks("pictures", Status.FAIL), ignored)["object"].status is Status.FAIL
    assert told(finding("POOR_FIT", "model"), ignored)["object"].status is Status.FAIL
