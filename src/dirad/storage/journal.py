"""The journal of a stream in a model file: events, and what was said of every batch."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dirad.preval.events import (
    CHANGES,
    KNOWN,
    LEARNING,
    MIXED,
    NEW,
    UNDECIDED,
    InputChange,
    Journal,
    ModelEvent,
    Report,
)
from dirad.storage.codecs import Array, ArrayStore, Codec, Plain, Text
from dirad.storage.composites import List, Object
from dirad.storage.experts import COUNT
from dirad.storage.networks import INT, REAL, must

N_CHANGE_FIELDS = len(InputChange._fields)
EVENT = Object(ModelEvent, {"batch": COUNT, "kind": Text(), "model": COUNT, "evidence": Plain()})


class Events(Codec):
    """What happened to the models: as one array of text, since headers must stay short."""

    events = List(EVENT)

    def pack(self, value: Sequence[ModelEvent], store: ArrayStore, path: str) -> str:
        text = json.dumps(self.events.pack(value, store, path), allow_nan=False)
        return store.put(path, np.frombuffer(text.encode(), np.uint8))

    def unpack(self, packed: Any, store: ArrayStore, path: str) -> list[ModelEvent]:
        if isinstance(packed, str):
            text = Array(np.uint8, "n").unpack(packed, store, path).tobytes()
            packed = json.loads(text)
        return self.events.unpack(packed, store, path)  # older files have them in the header


class Reports(Codec):
    """What was said of every batch, as arrays."""

    WORDS = (LEARNING, KNOWN, MIXED, NEW, UNDECIDED)
    CAUSES = ("", *CHANGES)

    def pack(self, value: Sequence[Report], store: ArrayStore, path: str) -> dict:
        said = [
            (
                one.batch,
                self.WORDS.index(one.kind),
                one.model,
                self.CAUSES.index(one.cause),
                one.version,
            )
            for one in value
        ]
        models = [(i, number) for i, one in enumerate(value) for number in one.models]
        inputs = [(i, *change) for i, one in enumerate(value) for change in one.inputs]
        parts = {
            "said": np.array(said, INT).reshape(len(value), 5),
            "p": np.array([one.p for one in value], REAL),
            "models": np.array(models, INT).reshape(len(models), 2),
            "inputs": np.array(inputs, REAL).reshape(len(inputs), 1 + N_CHANGE_FIELDS),
        }
        return {name: store.put(f"{path}/{name}", part) for name, part in parts.items()}

    def unpack(self, packed: Any, store: ArrayStore, path: str) -> list[Report]:
        must(isinstance(packed, dict), f"{path}: no reports")
        with_reasons = set(packed) == {"said", "p", "models", "inputs"}  # older files have none
        must(with_reasons or set(packed) == {"said", "p"}, f"{path}: no reports")
        said = Array(INT, "n", 5 if with_reasons else 3).unpack(
            packed["said"], store, f"{path}/said"
        )
        p_values = Array(REAL, "n", finite=False).unpack(packed["p"], store, f"{path}/p")
        must(len(said) == len(p_values), f"{path}: some reports have no p-value")
        kinds = said[:, 1]
        must(((kinds >= 0) & (kinds < len(self.WORDS))).all(), f"{path}: no such report")
        reports = [
            Report(batch, self.WORDS[kind], model, p)
            for (batch, kind, model), p in zip(said[:, :3].tolist(), p_values.tolist(), strict=True)
        ]
        return (
            self._with_reasons(reports, said[:, 3:], packed, store, path)
            if with_reasons
            else reports
        )

    def _with_reasons(
        self,
        reports: list[Report],
        said: NDArray[np.int64],
        packed: dict[str, Any],
        store: ArrayStore,
        path: str,
    ) -> list[Report]:
        """Return reports with the kinds of change, the inputs and the models they name."""
        causes = said[:, 0]
        must((said[:, 1] >= 0).all(), f"{path}: no such version")
        must(((causes >= 0) & (causes < len(self.CAUSES))).all(), f"{path}: no such change")
        models = Array(INT, "n", 2).unpack(packed["models"], store, f"{path}/models")
        table = Array(REAL, "n", 1 + N_CHANGE_FIELDS, finite=False).unpack(
            packed["inputs"], store, f"{path}/inputs"
        )
        must(np.isfinite(table[:, :2]).all(), f"{path}: a reason without a report or an input")
        known: dict[int, list[int]] = {}
        for place, number in models.tolist():
            known.setdefault(place, []).append(number)
        changes: dict[int, list[InputChange]] = {}
        for place, number, *rest in table.tolist():
            changes.setdefault(int(place), []).append(InputChange(int(number), *rest))
        must({*known, *changes} <= set(range(len(reports))), f"{path}: reasons without a report")
        return [
            one._replace(
                cause=self.CAUSES[cause],
                version=version,
                inputs=tuple(changes.get(i, ())),
                models=tuple(known.get(i, ())),
            )
            for i, (one, (cause, version)) in enumerate(zip(reports, said.tolist(), strict=True))
        ]


JOURNAL = Object(
    Journal, {"events": Events(), "reports": Reports(), "batches": COUNT, "samples": COUNT}
)
