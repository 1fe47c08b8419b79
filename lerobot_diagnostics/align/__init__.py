"""Put cameras, base and objects back where they were: the live view over the recorded one, measured and in words.

Nothing is imported here: LeRobot's plugin discovery comes through this package on its way to the strategy's config.
"""
