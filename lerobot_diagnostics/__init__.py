"""Is it the model, the cameras, the calibration or the workspace? Diagnostics for LeRobot policies on real arms."""

__version__ = "0.1.0"
