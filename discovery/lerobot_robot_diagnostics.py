"""Imported by LeRobot's plugin discovery; makes lerobot-diagnostics known to LeRobot's commands."""

import logging

try:
    import lerobot_diagnostics.plugin  # noqa: F401
except Exception as error:  # a failing plugin must never break a LeRobot command
    logging.getLogger(__name__).warning("lerobot-diagnostics could not register: %s", error)
