"""The processor step that LeRobot loads from a guarded checkpoint's ``policy_preprocessor.json``.

Light at import: LeRobot's plugin discovery registers the class. ``lerobot_diagnostics.vision``, which compares the
pictures, is imported when a checkpoint's reference views are loaded.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from lerobot.lerobot_types import TransitionKey
from lerobot.processor import ProcessorStep, ProcessorStepRegistry
from numpy.typing import NDArray

from lerobot_diagnostics.findings import Cause, Finding, Status
from lerobot_diagnostics.guard.pictures import pictures_of
from lerobot_diagnostics.guard.verdict import Limits, checked_actions, decide, refusal_text

if TYPE_CHECKING:
    from lerobot_diagnostics.vision import Comparer

logger = logging.getLogger(__name__)

REGISTRY_NAME = "camera_swap_guard"
STATE = "observation.state"
CONFIRM_S = 1.0
"""In the middle of a run, what blocks must still be there after this time: a hand passing a camera takes less."""
FROZEN_CHECKS = 3
"""Identical pictures at so many checks in a row make FROZEN."""
MOVED_UNITS = 1.0
"""The arm has moved when a joint changed by this much, a degree or a percent: ten times the encoder's step of 0.09°."""


class CameraGuardError(RuntimeError):
    """The pictures are not those that the policy was trained on. The last line of the text says what to do.

    Attributes:
        findings: What blocked.
    """

    def __init__(self, findings: list[Finding]) -> None:
        super().__init__(refusal_text(findings))
        self.findings = findings


class CameraSwapGuard(ProcessorStep):  # type: ignore[misc]
    """Judges the pictures of the first observation, and of one every ``every_s`` seconds; passes them on unchanged.

    Stands directly after the rename step, so that it sees the policy's own camera keys. The first observation after
    loading or :meth:`reset` is compared in full (view, orientation, channels, light, motion), later ones without
    the last two. Transitions that carry an action are training batches and are not judged.

    Args:
        every_s: Seconds between checks; 0 judges the first observation only.
        actions: ``{code: "block" | "warn" | "ignore"}`` where it differs from
            :data:`~lerobot_diagnostics.guard.verdict.DEFAULT_ACTIONS`.
        limits: Fields of :class:`~lerobot_diagnostics.guard.verdict.Limits` that differ from its defaults.
        policy_sizes: ``{camera: [height, width]}`` of the policy's input. The async server stretches pictures to it:
            a picture of that size is stretched back to the recorded one, and its RESOLUTION and FRAMING not judged.
        clock: Seconds.

    Raises:
        UsageError: On an unknown code or action.
    """

    judges_live_pictures = True
    """What replays recordings through a checkpoint leaves out the steps that have this."""

    def __init__(
        self,
        every_s: float = 0.0,
        actions: Mapping[str, str] | None = None,
        limits: Mapping[str, float] | None = None,
        policy_sizes: Mapping[str, list[int]] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.every_s = float(every_s)
        self._changed_actions = dict(actions or {})
        self.actions = checked_actions(self._changed_actions)
        self.limits = Limits(**(limits or {}))
        self.policy_sizes = {name: [int(v) for v in size] for name, size in (policy_sizes or {}).items()}
        self._clock = clock
        self._state: dict[str, torch.Tensor] = {}
        self._comparer: Comparer | None = None
        self._told_of_pictures = False
        self.reset()

    # ---- what LeRobot saves and loads

    def get_config(self) -> dict[str, Any]:
        """JSON-ready constructor arguments."""
        return {
            "every_s": self.every_s,
            "actions": self._changed_actions,
            "limits": dataclasses.asdict(self.limits),
            "policy_sizes": self.policy_sizes,
        }

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The reference views, as loaded; says once that they are pictures, because this is asked for before a push."""
        if self._state and not self._told_of_pictures:
            self._told_of_pictures = True
            logger.warning(
                "the camera-swap guard saves small pictures of the recording's room with this checkpoint; before it "
                "is pushed, `lerobot-camera-guard --policy.path=<folder> --detach=true` takes them out."
            )
        return dict(self._state)

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        """Prepare the reference views: one to three seconds, so that nothing is left to prepare in the control loop."""
        from lerobot_diagnostics.vision import Comparer, ReferenceViews

        arrays = {key: tensor.detach().cpu().numpy() for key, tensor in state.items()}
        comparer = Comparer(ReferenceViews.from_arrays(arrays))
        _ = comparer.pair_margins, comparer.steady  # computed once, here
        self._state = {key: tensor.detach().cpu() for key, tensor in state.items()}
        self._comparer = comparer
        self.reset()

    def reset(self) -> None:
        """A new episode: the next observation is judged in full again."""
        self._due_at = -np.inf
        self._first = True
        self._suspected: set[tuple[str, str]] = set()
        self._told: set[tuple[str, str]] = set()
        self._recent: deque[tuple[dict[str, NDArray[np.uint8]], NDArray[np.float64] | None]] = deque(
            maxlen=FROZEN_CHECKS
        )

    def transform_features(self, features: Any) -> Any:
        """Unchanged."""
        return features

    # ---- the check

    def __call__(self, transition: Any) -> Any:
        """The transition, unchanged.

        Raises:
            CameraGuardError: When a finding blocks.
        """
        if self._due_at == np.inf or (not self._first and self._clock() < self._due_at):
            return transition
        observation = transition.get(TransitionKey.OBSERVATION)
        if observation is None or transition.get(TransitionKey.ACTION) is not None:
            return transition
        self._check(observation)
        return transition

    def _check(self, observation: Mapping[str, Any]) -> None:
        if self._comparer is None:
            raise RuntimeError(
                "camera-swap guard: this checkpoint's guard has lost its reference views. Attach it again: "
                "lerobot-camera-guard --policy.path=<checkpoint> --attach_to=<new folder>"
            )
        live = pictures_of(observation)
        if not live:
            raise CameraGuardError([_missing(name) for name in self._comparer.names])
        items = max((len(pictures) for pictures in live.values()), default=1)
        findings = [f for item in range(items) for f in self._compare({n: p[item] for n, p in live.items()})]
        findings += self._frozen({name: pictures[-1] for name, pictures in live.items()}, observation)
        decision = decide(findings, self.actions, self.limits)
        for finding in decision.warn:
            self._tell(finding)
        blocked = {(f.code, f.subject) for f in decision.block}
        if decision.block and (self._first or blocked & self._suspected):
            raise CameraGuardError(decision.block)  # the next observation is judged in full again: nothing has started
        for finding in decision.block:
            self._tell(finding)
        self._first = False
        self._suspected = blocked
        wait = min(CONFIRM_S, self.every_s) if blocked else self.every_s
        self._due_at = self._clock() + wait if self.every_s > 0 else np.inf

    def _compare(self, live: dict[str, NDArray[np.uint8]]) -> list[Finding]:
        assert self._comparer is not None
        recorded = self._comparer.references.cameras
        if all(name in live for name in recorded):
            live = {name: live[name] for name in recorded}  # others are none of this policy's business
        stretched = set()
        for name, picture in live.items():
            if name in recorded and self._from_server(name, picture, recorded[name].size):
                import cv2

                live[name] = np.asarray(cv2.resize(picture, recorded[name].size), np.uint8)
                stretched.add(name)
        findings = self._comparer.compare(live, geometry=self._first, light=self._first)
        return [f for f in findings if f.subject not in stretched or f.code not in ("RESOLUTION", "FRAMING")]

    def _from_server(self, name: str, picture: NDArray[np.uint8], recorded: tuple[int, int]) -> bool:
        size = tuple(self.policy_sizes.get(name, ()))
        return picture.shape[:2] == size != (recorded[1], recorded[0])

    def _frozen(self, pictures: dict[str, NDArray[np.uint8]], observation: Mapping[str, Any]) -> list[Finding]:
        """Whether the pictures of the last checks repeat themselves while the arm, or another camera's view, moves."""
        assert self._comparer is not None
        if self.every_s <= 0:
            return []
        state = observation.get(STATE)
        joints = None if state is None else torch.as_tensor(state).detach().cpu().double().numpy().reshape(-1)
        self._recent.append((pictures, joints))
        if len(self._recent) < FROZEN_CHECKS:
            return []
        moved = None  # not known: then another camera's changing picture shows that something has
        if joints is not None:
            before = [j for _, j in self._recent if j is not None and j.shape == joints.shape]
            moved = max(float(np.abs(j - joints).max(initial=0.0)) for j in before) >= MOVED_UNITS
            if not moved:  # a simulated picture of a still arm repeats itself
                return []
        # A camera that has come or gone meanwhile is not judged.
        names = set.intersection(*(set(p) for p, _ in self._recent))
        return self._comparer.frozen({name: [p[name] for p, _ in self._recent] for name in names}, moving=moved)

    def _tell(self, finding: Finding) -> None:
        if (finding.code, finding.subject) not in self._told:
            self._told.add((finding.code, finding.subject))
            logger.warning("camera-swap guard: %s: %s. %s", finding.code, finding.summary, finding.fix)


def _missing(camera: str) -> Finding:
    summary = f"{camera} is missing: the observation holds no picture at all"
    return Finding(
        "MISSING_CAMERA", Status.FAIL, Cause.CAMERAS, camera, summary, fix="Give --robot.cameras as it was recorded."
    )


def register() -> None:
    """Make the step known to LeRobot by its registry name too.

    The name is not left on the class: LeRobot would then save it by that name, under which its async policy server,
    which loads no plugins, does not find it. By class path everything finds it.
    """
    if REGISTRY_NAME not in ProcessorStepRegistry.list():
        ProcessorStepRegistry.register(REGISTRY_NAME)(CameraSwapGuard)
        CameraSwapGuard._registry_name = None
