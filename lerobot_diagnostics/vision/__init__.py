"""Pure functions over images: which view is this, how far has it moved, what changed in the light.

No devices, no files, no downloaded weights. Pictures are [H, W, 3] uint8 RGB throughout.
"""

from lerobot_diagnostics.vision.lighting import Lighting, estimate_lighting
from lerobot_diagnostics.vision.references import CameraViews, ReferenceViews, is_dead, nearest_states
from lerobot_diagnostics.vision.registration import Registrar, Registration, register, to_reference
from lerobot_diagnostics.vision.views import Comparer, compare_views
from lerobot_diagnostics.vision.workspace import (
    Background,
    Change,
    background_of,
    compare_workspace,
    foreground,
    locate_changes,
)

__all__ = [
    "Background",
    "CameraViews",
    "Change",
    "Comparer",
    "Lighting",
    "ReferenceViews",
    "Registrar",
    "Registration",
    "background_of",
    "compare_views",
    "compare_workspace",
    "estimate_lighting",
    "foreground",
    "is_dead",
    "locate_changes",
    "nearest_states",
    "register",
    "to_reference",
]
