"""The work of a learning process: it holds the learners of some streams."""

import time
from typing import Any

from dirad.serve.children import Answer, Handler
from dirad.serve.learner import StreamLearner
from dirad.serve.specification import Specification

PUBLISH_SHARE = 0.2  # of the learning time that packing states for the answers may take
LONGEST_WAIT = 2.0  # seconds after which a changed state is published even while learning goes on


def learning_handler() -> Handler:
    """Return the handler of a learning process, with all kernels compiled."""
    from dirad.estimators.progress import load_kernels

    load_kernels("default", verbose=False)
    return Learners().handle


class Learners:
    """The learners of some streams by name, each opened from its stored state when it is needed."""

    def __init__(self) -> None:
        self._learners: dict[str, StreamLearner] = {}
        self._pack_seconds: dict[str, float] = {}  # the last time it took to pack a state
        self._published: dict[str, float] = {}  # when

    def handle(self, head: dict[str, Any], body: bytes) -> Answer:
        """Carry out one request: open, learn, state or close."""
        return getattr(self, f"_{head['do']}")(head, body)

    def _ping(self, head: dict[str, Any], body: bytes) -> Answer:
        return {}, b""

    def _open(self, head: dict[str, Any], body: bytes) -> Answer:
        specification = Specification.of_text(head["specification"])
        learner = StreamLearner(specification, body or None)
        self._learners[head["stream"]] = learner
        return {"seq": learner.progress.seq, "rows": learner.progress.rows}, b""

    def _learn(self, head: dict[str, Any], body: bytes) -> Answer:
        """Carry out records; `body` holds their payloads, one after the other.

        A record that the learner has carried out already is left out. The answer has the events,
        and the new state if it is time to publish it.
        """
        name = head["stream"]
        learner, events, start, place = self._learners[name], [], time.perf_counter(), 0
        for seq, kind, rows, size, skipped in head["records"]:
            payload = body[place : place + size]
            place += size
            if seq <= learner.progress.seq:
                continue
            if skipped:
                learner.skip(seq, rows)
            else:
                events += learner.carry_out(seq, kind, payload)
        seconds = time.perf_counter() - start
        state = self._packed(name) if self._is_time(name, head["more"]) else b""
        answer = {"events": events, "seconds": seconds, "seq": learner.progress.seq}
        return answer | {"rows": learner.progress.rows, "news": learner.is_news}, state

    def _state(self, head: dict[str, Any], body: bytes) -> Answer:
        learner = self._learners[head["stream"]]
        return {"seq": learner.progress.seq}, self._packed(head["stream"])

    def _close(self, head: dict[str, Any], body: bytes) -> Answer:
        for known in (self._learners, self._pack_seconds, self._published):
            known.pop(head["stream"], None)
        return {}, b""

    def _is_time(self, name: str, more: bool) -> bool:
        """Say whether to publish the state now: when it is cheap, or when nothing else waits."""
        if not self._learners[name].is_news:
            return False
        elapsed = time.perf_counter() - self._published.get(name, -LONGEST_WAIT)
        due = self._pack_seconds.get(name, 0.0) / PUBLISH_SHARE
        return elapsed >= (min(due, LONGEST_WAIT) if not more else max(due, LONGEST_WAIT))

    def _packed(self, name: str) -> bytes:
        start = time.perf_counter()
        state = self._learners[name].state() or b""
        self._published[name] = time.perf_counter()
        self._pack_seconds[name] = self._published[name] - start
        return state
