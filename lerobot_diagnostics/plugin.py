"""All that LeRobot must know about this package. Imported by LeRobot's plugin discovery.

Nothing here may import an optional dependency, ``rerun`` or ``lerobot.rollout`` at module level: discovery runs in
nine of LeRobot's commands, training and teleoperation included.
"""

PLUGIN_NAME = "lerobot_diagnostics"
"""What a registered class is grouped under; also how a test sees that discovery has been here."""
