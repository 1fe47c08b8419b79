"""LeRobot's v2.1 to v3.0 converter, on a copy, kept for the next time. The original is only ever read."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path

from lerobot.utils.constants import HF_LEROBOT_HOME

from lerobot_diagnostics.errors import UsageError

FOLDERS = ("meta", "data", "videos")
"""What the converter reads."""


def cache_folder() -> Path:
    """Where converted copies are kept: beside LeRobot's own data."""
    return Path(HF_LEROBOT_HOME) / "diagnostics" / "converted"


def _fingerprint(root: Path) -> str:
    """Changes when the data set is another one, or any of its files was written to."""
    digest = hashlib.sha256(str(root.resolve()).encode())
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file():
                stat = path.stat()
                digest.update(f"{path.relative_to(root).as_posix()} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def converted(root: Path, repo_id: str) -> Path:
    """The v3.0 copy of the v2.1 data set in ``root``, made now or by an earlier run.

    Raises:
        UsageError: If the converter fails.
    """
    parent = cache_folder()
    target = parent / f"{root.resolve().name}-{_fingerprint(root)}"
    if target.is_dir():
        return target
    from lerobot.scripts.convert_dataset_v21_to_v30 import convert_dataset  # slow to import, seldom needed

    try:
        parent.mkdir(parents=True, exist_ok=True)
        # The converter deletes and renames siblings of its root: give it a parent with nothing else in it.
        with tempfile.TemporaryDirectory(dir=parent, prefix=".converting-") as fresh:
            copy = Path(fresh) / "dataset"
            for folder in FOLDERS:
                if (root / folder).is_dir():
                    # copies what links point at, so that nothing of the original is reachable from the copy
                    shutil.copytree(root / folder, copy / folder, copy_function=shutil.copyfile)
            convert_dataset(repo_id, root=copy, push_to_hub=False)
            try:
                copy.rename(target)
            except OSError:
                if not target.is_dir():  # another process was faster: its copy is as good
                    raise
    except Exception as error:  # whatever the converter trips over is about the data set
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UsageError(
            f"LeRobot's converter cannot convert {root}: {type(error).__name__}: {reason}",
            "Repair the data set, or give a v3.0 copy with --dataset.root.",
        ) from error
    return target
