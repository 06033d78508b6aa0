"""Learning in idle time: only while there is enough of it."""

import os
import sys
import threading

import pytest

from dirad.serve import idle_time
from dirad.serve.idle_time import IdleTime, available_seconds

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has such threads")


@pytest.fixture
def clock(tmp_path, monkeypatch):
    """A function that lets seconds pass: how long this process computes, and cores are idle."""
    file, now = tmp_path / "stat", {"seconds": 100.0, "own": 7.0, "idle": 0.0}
    monkeypatch.setattr(idle_time, "CORES", file)
    monkeypatch.setattr(idle_time.time, "monotonic", lambda: now["seconds"])
    monkeypatch.setattr(idle_time.time, "process_time", lambda: now["own"])

    def pass_time(seconds, own=0.0, idle=0.0):
        now["seconds"] += seconds
        now["own"] += own
        now["idle"] += idle
        ticks = round(now["idle"] * os.sysconf("SC_CLK_TCK"))
        file.write_text(f"cpu 500 40 30 {ticks} 0 0 9 0 0 0\ncpu0 1 2 3 4\n")

    pass_time(0.0)
    return pass_time


def place():
    """Return the thread that computes, and its scheduling class."""
    return threading.get_ident(), os.sched_getscheduler(0)


@LINUX
def test_work_is_done_in_idle_time_only_where_there_is_enough(clock):
    here = threading.get_ident(), os.SCHED_OTHER
    work = IdleTime()
    assert work.run(place) == here  # nothing is known yet
    clock(1.5, own=0.2, idle=0.3)
    thread, kind = work.run(place)
    assert thread != here[0]
    assert kind == os.SCHED_IDLE
    clock(0.5)
    assert work.run(place) == (thread, kind)  # too early for another look
    clock(0.6, own=0.1)
    assert work.run(place) == here  # others took the cores
    clock(1.0, own=0.9)
    assert work.run(place) == (thread, kind)
    clock(60.0, idle=120.0)
    assert work.run(place) == here  # that the cores were idle for a minute is no news


@LINUX
def test_errors_are_those_of_the_work(clock):
    work = IdleTime()
    clock(2.0, idle=4.0)
    with pytest.raises(ZeroDivisionError):
        work.run(lambda: 1 // 0)


def test_systems_that_do_not_tell(tmp_path, monkeypatch):
    monkeypatch.setattr(idle_time, "CORES", tmp_path / "missing")
    monkeypatch.setattr(idle_time.time, "process_time", lambda: 3.0)
    assert available_seconds() == 3.0
    assert IdleTime().run(threading.get_ident) == threading.get_ident()
