"""Predictions against recordings: predict, measure, judge."""

from lerobot_diagnostics.openloop.verdicts import judge

__all__ = ["judge"]
