"""Keys without waiting."""

import io
import sys

import pytest

from lerobot_diagnostics.robot import ScriptedKeys, open_keys
from lerobot_diagnostics.robot.keys import read_line


def test_no_terminal_no_key(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n"))
    with open_keys() as keys:
        assert not keys.interactive and keys.poll() is None
    monkeypatch.setattr(sys, "stdin", None)
    assert open_keys().poll() is None


def test_a_terminal_gives_each_key_at_once_and_is_put_back(monkeypatch):
    pty = pytest.importorskip("pty")
    import os
    import termios

    master, slave = pty.openpty()
    with os.fdopen(slave, "r") as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        before = termios.tcgetattr(slave)
        with open_keys() as keys:
            assert keys.interactive and keys.poll() is None
            os.write(master, b"q\n")
            pressed = []
            while len(pressed) < 2:
                if key := keys.poll():
                    pressed.append(key)
            assert pressed == ["q", "\n"]
        assert termios.tcgetattr(slave)[3] == before[3]
    os.close(master)


def test_a_line_is_read_key_by_key():
    said = []
    keys = ScriptedKeys([None, "m", "x", "\x7f", "i", "\n"])
    line = read_line(keys, "? ", stopped=lambda: False, sleep=lambda _s: None, echo=said.append)
    assert line == "mi" and said[0] == "? "


def test_a_line_ends_with_stop():
    assert read_line(ScriptedKeys("abc"), "? ", stopped=lambda: True, sleep=lambda _s: None, echo=lambda _t: None) == ""
