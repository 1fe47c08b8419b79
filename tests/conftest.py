"""What all tests share: no network, no display, and the real recordings where they are."""

import os
import tempfile
from pathlib import Path

import pytest

# Before lerobot, datasets or huggingface_hub are imported: nothing is fetched, nothing of the user's is touched.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HOME"] = tempfile.mkdtemp(prefix="lerobot-diagnostics-tests-")
os.environ.pop("HF_LEROBOT_HOME", None)
os.environ.setdefault("MPLBACKEND", "Agg")

DATA = "LEROBOT_DIAGNOSTICS_DATA"


@pytest.fixture(scope="session")
def recordings() -> Path:
    """Folder of the real recordings; skips where there are none, fails where they are promised and missing."""
    if not os.environ.get(DATA):
        pytest.skip(f"{DATA} names no folder of real recordings")
    folder = Path(os.environ[DATA])
    assert folder.is_dir(), f"{DATA}={folder} is no folder"
    return folder


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests on the servo rig two more tries.

    LeRobot waits a few milliseconds for a servo's answer; the stand-in is a thread, which a loaded machine may not run
    in time (seen with both cores busy installing: 2 failures of 17, none on a quiet machine).
    """
    for item in items:
        if item.path.name.startswith(("test_rig_", "test_sim_stock", "test_robot_connect", "test_cli_replay")):
            item.add_marker(pytest.mark.flaky(reruns=2))
