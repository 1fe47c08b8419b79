import platform
import subprocess
import sys
from importlib.metadata import version

from lerobot_diagnostics.report.versions import collect_versions


def test_versions_are_those_of_the_metadata_and_absent_packages_are_left_out():
    found = collect_versions()
    assert found["lerobot"] == version("lerobot")
    assert found["python"] == platform.python_version()
    assert all(found.values())


def test_an_absent_package_is_left_out(monkeypatch):
    monkeypatch.setattr("lerobot_diagnostics.report.versions.DISTRIBUTIONS", ("no-such-distribution", "rich"))
    assert list(collect_versions()) == ["rich", "python", "platform"]


def test_nothing_heavy_is_imported_by_the_reports():
    code = (
        "import sys, lerobot_diagnostics.report as r; r.collect_versions();"
        "print([m for m in ('torch', 'lerobot', 'rerun', 'matplotlib', 'cv2', 'av') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
