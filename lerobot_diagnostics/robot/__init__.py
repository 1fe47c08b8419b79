"""The live arm: connecting, names and units, one path for commands, easing, pacing, limits, stopping safely."""

from lerobot_diagnostics.robot.arm import Arm, ArmLostError, CameraLostError, Command, Reading
from lerobot_diagnostics.robot.connect import CalibrationDiffersError, connected, make_robot
from lerobot_diagnostics.robot.easing import ease, safe_route
from lerobot_diagnostics.robot.joints import JointMap, joint_map, robot_joints
from lerobot_diagnostics.robot.keys import Keys, ScriptedKeys, open_keys
from lerobot_diagnostics.robot.move import Ending, Mover
from lerobot_diagnostics.robot.pacing import Pacer
from lerobot_diagnostics.robot.stall import StallMonitor
from lerobot_diagnostics.robot.stop import StopSignals

__all__ = [
    "Arm",
    "ArmLostError",
    "CalibrationDiffersError",
    "CameraLostError",
    "Command",
    "Ending",
    "JointMap",
    "Keys",
    "Mover",
    "Pacer",
    "Reading",
    "ScriptedKeys",
    "StallMonitor",
    "StopSignals",
    "connected",
    "ease",
    "joint_map",
    "make_robot",
    "open_keys",
    "robot_joints",
    "safe_route",
]
