"""Joint names. The one place that knows the conventions LeRobot data sets have used.

========================  =====================================================================
``main_shoulder_pan``     SO-100 and Koch, before mid-2025
``{"motors": [...]}``     v2.x data sets, and what was converted from them
``[[...]]``               lists nested in a list, from several importers
``shoulder_pan.pos``      today; ``left_``/``right_`` before it on two arms, ``arm_`` on LeKiwi
``x.vel``                 the velocity keys of a mobile base (LeKiwi)
``None``                  converted data sets that lost their names
========================  =====================================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

LIMBS = ("left", "right", "arm")
"""Prefixes that tell limbs apart. ``main`` is not one: it named the only arm."""


def joint_names(names: Any, size: int) -> tuple[str, ...] | None:
    """The names of a feature's ``size`` dimensions as written in ``meta/info.json``, in order.

    Args:
        names: The feature's ``names``: a flat or nested list, a mapping of lists, a mapping of name to index, or None.
        size: How many dimensions the feature has.

    Returns:
        ``size`` names, or None when there are none or their number does not fit (they cannot be trusted then).
    """
    flat = tuple(_flatten(names))
    return flat if len(flat) == size and len(set(flat)) == size else None


def _flatten(names: Any) -> list[str]:
    if isinstance(names, str):
        return [names]
    if isinstance(names, Mapping):
        if names and all(isinstance(value, int) for value in names.values()):
            return sorted(names, key=lambda name: int(names[name]))
        return [name for value in names.values() for name in _flatten(value)]
    if isinstance(names, Sequence):
        return [name for value in names for name in _flatten(value)]
    return []


def placeholder_names(size: int) -> tuple[str, ...]:
    """Labels for ``size`` joints whose names are not known: ``joint_0``, ``joint_1``, …"""
    return tuple(f"joint_{i}" for i in range(size))


def canonical(name: str) -> str:
    """One spelling for one joint, whatever the age of the recording.

    Drops ``main_`` and ``.pos``; keeps the limb and ``.vel``, which is another quantity.

    >>> canonical("main_shoulder_pan"), canonical("left_gripper.pos"), canonical("x.vel")
    ('shoulder_pan', 'left_gripper', 'x.vel')
    """
    return name.strip().removesuffix(".pos").removeprefix("main_")


def limb(name: str) -> str:
    """``left``, ``right``, ``arm`` or, on a single arm, the empty string."""
    head, _, rest = canonical(name).partition("_")
    return head if rest and head in LIMBS else ""


def joint(name: str) -> str:
    """The joint without its limb: ``left_elbow_flex.pos`` is an ``elbow_flex``."""
    return canonical(name).removeprefix(f"{limb(name)}_")


def is_velocity(name: str) -> bool:
    """Whether this is a velocity key, such as LeKiwi's ``theta.vel``."""
    return name.strip().endswith(".vel")


def is_gripper(name: str) -> bool:
    """Whether this joint opens and closes a gripper, by its name."""
    return "gripper" in joint(name).lower()


def match(expected: Sequence[str], given: Sequence[str]) -> dict[str, str | None]:
    """For each expected name the given name of the same joint, whatever the convention, or None.

    Names bind by joint, never by position. ``.vel`` never matches ``.pos``; a limb matches only itself.
    """
    by_joint = {canonical(name): name for name in given}
    return {name: by_joint.get(canonical(name)) for name in expected}
