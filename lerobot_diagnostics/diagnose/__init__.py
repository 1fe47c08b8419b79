"""The ladder: every check in order, cheapest first, nothing moving, and one verdict."""

from lerobot_diagnostics.diagnose.attribution import attribute, silence
from lerobot_diagnostics.diagnose.run import Inputs, diagnose

__all__ = ["Inputs", "attribute", "diagnose", "silence"]
