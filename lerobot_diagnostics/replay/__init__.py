"""Recorded actions on the live arm, compared frame by frame."""
