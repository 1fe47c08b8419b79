"""Stand-ins for the hardware: servos behind a pseudo-terminal and network cameras, for LeRobot's stock classes."""

from rig import stock
from rig.cameras import FramePublisher
from rig.servos import JOINTS, Faults, ServoBank, ServoRig, Write

__all__ = ["JOINTS", "Faults", "FramePublisher", "ServoBank", "ServoRig", "Write", "stock"]
