"""The hand-over to a policy: its first action must be near where the arm is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lerobot_diagnostics.findings import Cause, Finding, Status
from lerobot_diagnostics.recording.names import is_gripper, is_velocity
from lerobot_diagnostics.robot.arm import MAX_GRIPPER_STEP


class StartJumpError(Exception):
    """The first action is too far from the pose; it was not sent. Carries the finding."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.summary)
        self.finding = finding


class CheckedStart:
    """LeRobot's thread-safe robot, whose first action is compared with the pose before it is sent.

    Here, at the last step before the wire, it does not matter which inference engine or interpolation made it.

    Args:
        robot: ``ThreadSafeRobot``.
        max_step: Largest distance of a joint from where it is, in its own unit; grippers have their own limit.

    Attributes:
        sent: Whether an action was sent.
    """

    def __init__(self, robot: Any, max_step: float) -> None:
        self._robot, self._max_step = robot, max_step
        self._pose: Mapping[str, Any] = {}
        self.sent = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._robot, name)

    def get_observation(self) -> dict[str, Any]:
        """The robot's; its pose is what the first action is compared with."""
        observation: dict[str, Any] = self._robot.get_observation()
        self._pose = observation
        return observation

    def send_action(self, action: dict[str, Any]) -> Any:
        """Send it.

        Raises:
            StartJumpError: It is the first and too far away, or not a number.
        """
        if not self.sent:
            jump = start_jump(action, self._pose, self._max_step)
            if jump is not None:
                raise StartJumpError(jump)
            self.sent = True
        return self._robot.send_action(action)


def start_jump(action: Mapping[str, Any], pose: Mapping[str, Any], max_step: float) -> Finding | None:
    """START_JUMP (or NAN) for the joint that would jump farthest beyond its limit, None when all are near.

    Args:
        action: By robot key.
        pose: The robot's observation.
        max_step: See :class:`CheckedStart`.
    """
    worst: tuple[float, str, float, float] | None = None
    for key, value in action.items():
        if is_velocity(key) or key not in pose:
            continue
        step = abs(float(value) - float(pose[key]))
        limit = max(max_step, MAX_GRIPPER_STEP) if is_gripper(key) else max_step
        if not step <= limit:  # also when it is no number
            excess = step / limit
            if worst is None or not excess <= worst[0]:
                worst = excess, key, step, limit
    if worst is None:
        return None
    _, key, step, limit = worst
    evidence = {"asked": float(action[key]), "present": float(pose[key]), "step": step, "limit": limit}
    if step != step:
        text = f"the policy's first action for {key} is not a number: nothing was sent"
        return Finding("NAN", Status.FAIL, Cause.MODEL, key, text, evidence)
    text = (
        f"the policy's first action would take {key} {step:.0f} at once, from {float(pose[key]):.0f} to "
        f"{float(action[key]):.0f} (limit {limit:g}): nothing was sent"
    )
    fix = (
        "Start where the demonstrations start (--strategy.go_to_start=true), check the units "
        f"(--robot.use_degrees), or allow it: --strategy.max_start_step={step + 1:.0f}."
    )
    return Finding("START_JUMP", Status.FAIL, Cause.MOTORS, key, text, evidence, fix)
