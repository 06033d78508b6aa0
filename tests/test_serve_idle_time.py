"""Learning in idle time: only while there is enough of it."""

import os
import sys
import threading

import pytest

from dirad.serve import idle_time
from dirad.serve.idle_time import IdleTime, core_times

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has such threads")


@pytest.fixture
def cores(tmp_path, monkeypatch):
    """A function that sets what the cores have done, and lets some seconds pass."""
    file, now = tmp_path / "stat", [100.0]
    monkeypatch.setattr(idle_time, "CORES", file)
    monkeypatch.setattr(idle_time.time, "monotonic", lambda: now[0])

    def pass_time(seconds, user=0, nice=0, idle=0):
        now[0] += seconds
        line = file.read_text().splitlines()[0] if file.exists() else "cpu" + " 0" * 10
        found = [int(one) for one in line.split()[1:]]
        found[0], found[1], found[3] = found[0] + user, found[1] + nice, found[3] + idle
        file.write_text(" ".join(["cpu", *map(str, found)]) + "\ncpu0 1 2 3\n")

    pass_time(0.0)
    return pass_time


def place():
    """Return the thread that computes, and its scheduling class."""
    return threading.get_ident(), os.sched_getscheduler(0)


@LINUX
def test_work_waits_for_idle_time_only_where_there_is_enough(cores):
    here = threading.get_ident(), os.SCHED_OTHER
    work = IdleTime()
    assert work.run(place) == here  # nothing is known yet
    cores(1.5, user=100, nice=150, idle=50)
    thread, kind = work.run(place)
    assert thread != here[0]
    assert kind == os.SCHED_IDLE
    cores(0.5, user=100)
    assert work.run(place) == (thread, kind)  # too early for another look
    cores(0.6, user=100)
    assert work.run(place) == here  # others take all the time
    cores(1.0, idle=200)
    assert work.run(place) == (thread, kind)
    cores(60.0, idle=12_000)
    assert work.run(place) == here  # that the cores were idle for a minute is no news


@LINUX
def test_errors_are_those_of_the_work(cores):
    work = IdleTime()
    cores(2.0, idle=400)
    with pytest.raises(ZeroDivisionError):
        work.run(lambda: 1 // 0)


def test_systems_that_do_not_tell(tmp_path, monkeypatch):
    monkeypatch.setattr(idle_time, "CORES", tmp_path / "missing")
    assert core_times() == (0, 0)
    assert IdleTime().run(threading.get_ident) == threading.get_ident()
