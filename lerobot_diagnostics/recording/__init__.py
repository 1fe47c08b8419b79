"""What was recorded: an episode's states, actions, names, units and frames."""

from lerobot_diagnostics.recording.batches import FrameBatch, frame_batches
from lerobot_diagnostics.recording.dataset import Recording, open_episode, open_recording
from lerobot_diagnostics.recording.episode import Episode

__all__ = ["Episode", "FrameBatch", "Recording", "frame_batches", "open_episode", "open_recording"]
