"""The camera-swap guard: a processor step in the checkpoint that refuses pictures the policy was not trained on.

:mod:`~lerobot_diagnostics.guard.step` is what LeRobot loads from a guarded checkpoint; it is kept light, since
LeRobot's plugin discovery registers it. :mod:`~lerobot_diagnostics.guard.attach` writes it into one.
"""
