"""A backup that is made as the operating guide says, while the server runs, restores the state."""

import shutil
import subprocess

import pytest

import postgres
from feeding import Feeder, check_rows, requests
from service import serving

pytest.importorskip("fastapi")


def test_a_copy_made_while_running_restores_the_same_state(tmp_path):
    program = shutil.which("sqlite3")
    if program is None:
        pytest.skip("sqlite3 is not installed")
    bodies, copy = requests(12), tmp_path / "backup"
    copy.mkdir(mode=0o700)
    with serving(tmp_path / "plant") as server:
        feeder = Feeder(server.url)
        feeder.create()
        feeder.feed(bodies[:8])
        source = tmp_path / "plant" / "dirad.sqlite"
        subprocess.run([program, source, f".backup {copy / 'dirad.sqlite'}"], check=True)
        before = feeder.export()
        feeder.feed(bodies[8:])
        after = feeder.export()
    with serving(copy) as server:
        restored = Feeder(server.url, answers=feeder.answers[:8])
        check_rows(restored)
        assert restored.export() == before
        restored.feed(bodies[8:])
        assert restored.export() == after


def test_a_dump_made_while_running_restores_the_same_state():
    bodies = requests(12)
    with postgres.running() as database:
        dump = database.folder / "plant.dump"
        with serving(database.create("plant")) as server:
            feeder = Feeder(server.url)
            feeder.create()
            feeder.feed(bodies[:8])
            database.dump("plant", dump)
            before = feeder.export()
            feeder.feed(bodies[8:])
            after = feeder.export()
        new = database.create("new")
        database.restore(dump, "new")
        with serving(new) as server:
            restored = Feeder(server.url, answers=feeder.answers[:8])
            check_rows(restored)
            assert restored.export() == before
            restored.feed(bodies[8:])
            assert restored.export() == after
