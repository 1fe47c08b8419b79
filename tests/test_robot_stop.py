"""Signals as a flag."""

import os
import signal
import sys

import pytest

from lerobot_diagnostics.robot import StopSignals

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="os.kill ends the process on Windows")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_is_a_flag_the_second_interrupts_and_handlers_come_back(number):
    before = signal.getsignal(number)
    with StopSignals() as stop:
        assert not stop()
        os.kill(os.getpid(), number)
        assert stop() and stop.name == number.name
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    assert signal.getsignal(number) is before
