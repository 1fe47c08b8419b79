"""Keys of a rename map that nothing has."""

import pytest
from make_dataset import make_dataset

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.recording import open_recording
from lerobot_diagnostics.recording.rename import check_rename_map

FRONT, TIP = "observation.images.front", "observation.images.tip"


@pytest.fixture
def recording(tmp_path):
    return open_recording(root=make_dataset(tmp_path / "data", cameras={"front": "image"}))


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("front", f"there is no key front; did you mean {FRONT}?"),
        ("observation.images.frnt", f"there is no key observation.images.frnt; did you mean {FRONT}?"),
        ("xyz", f"there is no key xyz. There are: observation.state, {FRONT}, {TIP}."),
        ("action", "there is no key action. "),  # recorded, but no observation
    ],
)
def test_a_key_that_nothing_has(recording, key, says):
    with pytest.raises(UsageError) as error:
        check_rename_map({key: FRONT}, recording, [TIP])
    assert str(error.value).startswith(f"--rename_map: {says}")


@pytest.mark.parametrize("rename_map", [None, {}, {FRONT: TIP}, {TIP: FRONT}, {"observation.state": "state"}])
def test_recorded_keys_and_the_robots_pass(recording, rename_map):
    check_rename_map(rename_map, recording, [TIP])
