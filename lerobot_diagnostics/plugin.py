"""All that LeRobot must know about this package. Imported by LeRobot's plugin discovery.

Nothing here may import an optional dependency, ``rerun`` or ``lerobot.rollout`` at module level: discovery runs in
nine of LeRobot's commands, training and teleoperation included.
"""

import logging
import sys

PLUGIN_NAME = "lerobot_diagnostics"
"""What a registered class is grouped under; also how a test sees that discovery has been here."""


def _register_simulated_arm() -> None:
    import lerobot_diagnostics.sim.config_so101_sim  # noqa: F401  (importing it registers the type)


def _register_demonstration_policy() -> None:
    if "lerobot.configs.policies" not in sys.modules:
        return  # a command without policies: importing them would cost it 2.8 s
    import lerobot_diagnostics.sim.configuration_sim_policy  # noqa: F401  (importing it registers the type)


def _register_align_strategy() -> None:
    if "lerobot.rollout" not in sys.modules:
        return  # not lerobot-rollout: importing it costs 2.8 s
    from lerobot_diagnostics.align import _seam  # imports the config, which registers the type

    _seam.install()


def _register_camera_guard() -> None:
    if "lerobot.processor" not in sys.modules:
        return  # a command without processors. A guarded checkpoint names the step by class path and needs no registry
    from lerobot_diagnostics.guard.step import register

    register()


_REGISTRATIONS = (
    _register_simulated_arm,
    _register_demonstration_policy,
    _register_align_strategy,
    _register_camera_guard,
)
# Each stands alone: one that fails must neither break a LeRobot command nor take the others with it.
for _register in _REGISTRATIONS:
    try:
        _register()
    except Exception as error:
        logging.getLogger(__name__).warning("lerobot-diagnostics: %s failed: %s", _register.__name__, error)
