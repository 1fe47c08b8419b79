"""Calibration by sight: has a joint's zero or the base moved, told by pictures at known joint readings."""

from lerobot_diagnostics.sight.compare import (
    Capture,
    Poses,
    compare_live,
    compare_poses,
    compare_recordings,
    recorded_poses,
)

__all__ = ["Capture", "Poses", "compare_live", "compare_poses", "compare_recordings", "recorded_poses"]
