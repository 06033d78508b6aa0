"""Processes that read bodies, so that the process that answers has its time for answers.

One reads what is small, another what may take long or much memory. Readers of Arrow and Parquet
were made for trusted files, and could crash: then the process is started again.
"""

import json
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from dirad.serve import journal, records
from dirad.serve.answers import Answers, unknown
from dirad.serve.bodies import is_binary, read_question, read_rows
from dirad.serve.children import Answer, Child, ChildDied, ChildTimeout, Handler
from dirad.serve.errors import Refused
from dirad.serve.specification import Specification

READER_MEMORY = 3 * 2**30  # bytes of address space, of which half is taken before any body is read
QUICK = 8_000  # bytes of a body that is read by the process that answers
LIGHT = 100_000  # parameters times rows, whose answers take about a millisecond
LARGE = 1_000_000  # bytes of a body that may take long
SECONDS = 60.0  # that a body may take
MOST_STATES = 100  # of streams, that a reading process keeps


def is_quick(content_type: str, body: bytes) -> bool:
    """Say whether a body takes less time to be read than to be handed over to another process."""
    return len(body) <= QUICK and not is_binary(content_type)


def is_slow(content_type: str, body: bytes) -> bool:
    """Say whether a body may take long, or much memory, to be read."""
    return len(body) > LARGE or is_binary(content_type)


@dataclass(frozen=True)
class Body:
    """A body, and what it takes to read it."""

    stream: int  # the number of the stream
    specification: Specification
    content_type: str
    content: bytes
    max_rows: int

    def is_light(self, answers: Answers) -> bool:
        """Say whether answers take less time than to hand the question over to a thread."""
        rows = 1 + len(self.content) // len(self.specification.columns)  # or fewer
        is_plain = b"explain" not in self.content and b"\\" not in self.content  # also as \u0065…
        is_small = is_quick(self.content_type, self.content)
        return is_small and is_plain and rows * answers.n_parameters <= LIGHT

    def samples(self, answers: Answers | None) -> journal.Request:
        """Return the request to learn the rows; its answer is what the models say of them."""
        rows = read_rows(self.specification, self.content_type, self.content, self.max_rows)
        recognized, score = unknown(len(rows.X)), None
        if answers is not None:
            recognized, score = answers.recognized(rows.X, rows.labels)
        answer = _json({"rows": len(rows.X)} | recognized)
        record = records.samples(rows.X, rows.labels)
        return journal.Request(
            record, answer, ids=rows.ids, label_type=rows.label_type, score=score
        )

    def predictions(self, answers: Answers, *, explain: bool) -> bytes:
        """Return the answers for rows, as JSON."""
        asked = read_question(self.specification, self.content_type, self.content, self.max_rows)
        rows = asked.rows
        found = answers.predict(
            rows.X, explain=explain or asked.explain, labels=rows.labels, coverage=asked.coverage
        )
        return _json(found)


class Reader:
    """The reading processes, as the process that answers sees them."""

    def __init__(self) -> None:
        self._small = Child(reading_handler, "reading", READER_MEMORY)
        self._large = Child(reading_handler, "reading-large", READER_MEMORY)
        # It takes a second or two to start: the first samples do not wait for it.
        self._start = threading.Thread(target=self._small.start, name="dirad-reading", daemon=True)
        self._start.start()

    def samples(self, body: Body, answers: Answers | None) -> journal.Request:
        """Return the request to learn the rows of a body."""
        if is_quick(body.content_type, body.content):
            return body.samples(answers)
        head, content = self._ask(body, answers, {"do": "samples"})
        size, score = head["size"], head["score"]
        return journal.Request(
            records.Record(records.SAMPLES, content[:size], head["rows"]),
            content[size:],
            ids=head["ids"],
            label_type=head["label_type"],
            score=None if score is None else journal.Score(*score),
        )

    def predictions(self, body: Body, answers: Answers, *, explain: bool) -> bytes:
        """Return the answers for the rows of a body, as JSON."""
        return self._ask(body, answers, {"do": "predict", "explain": explain})[1]

    def close(self) -> None:
        """End the processes."""
        self._start.join()
        self._small.close()
        self._large.close()

    def _ask(self, body: Body, answers: Answers | None, head: dict[str, Any]) -> Answer:
        head |= {
            "stream": body.stream,
            "version": None if answers is None else answers.version,
            "specification": body.specification.text,
            "type": body.content_type,
            "rows": body.max_rows,
            "state": 0,
        }
        child = self._large if is_slow(body.content_type, body.content) else self._small
        try:
            answer, content = child.ask(head, body.content, SECONDS)
            if answer.get("lacks") and answers is not None:
                state = answers.state
                head["state"] = len(state)
                answer, content = child.ask(head, state + body.content, SECONDS)
        except (ChildDied, ChildTimeout):
            if child is self._small:  # whatever the reason was, it is not this body
                text = "the process that reads bodies has ended: try again"
                raise Refused(text, 503, Retry_After="1") from None
            raise Refused(
                "the body cannot be read: it is damaged, or unpacks to too much", 400
            ) from None
        except ValueError as error:
            raise Refused(f"the body cannot be read: {str(error)[:200]}", 400) from None
        if "refused" in answer:
            status, text, headers = answer["refused"]
            raise Refused(text, status, **headers)
        return answer, content


def reading_handler() -> Handler:
    """Return the handler of a process that reads bodies."""
    return Reading().handle


class Reading:
    """Reads bodies for streams, whose last states it keeps."""

    def __init__(self) -> None:
        self._states: OrderedDict[int, tuple[int, Answers]] = OrderedDict()

    def handle(self, head: dict[str, Any], content: bytes) -> Answer:
        """Carry out one request: samples or predict. What is refused comes back as `refused`."""
        specification = Specification.of_text(head["specification"])
        size, version, answers = head["state"], head["version"], None
        if version is not None:
            answers = self._state(head["stream"], version, specification, content[:size])
            if answers is None:
                return {"lacks": True}, b""
        body = Body(head["stream"], specification, head["type"], content[size:], head["rows"])
        try:
            if head["do"] == "predict":
                assert answers is not None
                return {}, body.predictions(answers, explain=head["explain"])
            found = body.samples(answers)
        except Refused as error:
            return {"refused": [error.status, str(error), error.headers]}, b""
        payload, score = found.record.payload, found.score
        facts = {"rows": found.record.rows, "size": len(payload), "ids": found.ids}
        facts |= {"label_type": found.label_type, "score": score and [score.labelled, score.total]}
        return facts, payload + found.answer

    def _state(
        self, stream: int, version: int, specification: Specification, state: bytes
    ) -> Answers | None:
        """Return a state of a stream, None if it is another than the one at hand."""
        if state:
            self._states[stream] = version, Answers(specification, state, is_own=True)
            if len(self._states) > MOST_STATES:
                self._states.popitem(last=False)
        known, answers = self._states.get(stream, (None, None))
        if known != version:
            return None
        self._states.move_to_end(stream)
        return answers


def _json(found: dict[str, Any]) -> bytes:
    return json.dumps(found, separators=(",", ":"), allow_nan=False).encode()
