"""Pure functions over images: which view is this, how far has it moved, what changed in the light.

No devices, no files, no downloaded weights. Pictures are [H, W, 3] uint8 RGB throughout.
"""

from lerobot_diagnostics.vision.lighting import Lighting, estimate_lighting
from lerobot_diagnostics.vision.references import CameraViews, ReferenceViews, is_dead, nearest_states
from lerobot_diagnostics.vision.registration import Registrar, Registration, register
from lerobot_diagnostics.vision.views import Comparer, compare_views

__all__ = [
    "CameraViews",
    "Comparer",
    "Lighting",
    "ReferenceViews",
    "Registrar",
    "Registration",
    "compare_views",
    "estimate_lighting",
    "is_dead",
    "nearest_states",
    "register",
]
