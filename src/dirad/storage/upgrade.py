"""Older model files, brought into the present layout before unpacking.

Formats 1 and 2 are of dirad 0.1. Networks of format 3 have no encoding of missing values and
categories. Up to format 4, learners had a linear predictor in place of an interim expert; up to
format 5, calibrations did not tell the scores of fitted samples, nor how samples depend on those
before them; up to format 6, all targets were classes. Up to format 7, the samples of a stream had
neither gaps nor categories nor weights. Up to format 8, models shared no covariance, and a fit grew
no network more than once.
"""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from dirad.params import Params

Tree = dict[str, Any]  # packed: JSON, with the names of arrays


def upgraded(description: Tree) -> Tree:
    """Return the description of a file in the present layout."""
    if description["version"] < 3:
        description = _of_0_1(description)
    if description["version"] < 4 and description["model"] != "PREVALClassifier":
        description = {**description, "tree": {**description["tree"], "encoding_": None}}
    if description["version"] < 5 and description["model"] == "PREVALClassifier":
        description = _with_interim_experts(description)
    if description["version"] < 6:
        description = _changed(description, _say_samples_are_independent)
    if description["version"] < 7:
        description = _changed(description, _say_targets_are_classes)
    if description["version"] < 8:
        description = _changed(description, _say_samples_count_alike)
        description = _changed(description, _say_there_are_no_stretches_and_no_versions)
    if description["version"] < 9:
        description = _changed(description, _say_there_is_one_start)
        description = _changed(description, _say_nothing_is_pooled)
    return description


def _changed(packed: Any, change: Callable[[Tree], None]) -> Any:
    """Return a description in which every object, however deep, is changed in place."""
    if isinstance(packed, list):
        return [_changed(one, change) for one in packed]
    if not isinstance(packed, dict):
        return packed
    new = {name: _changed(value, change) for name, value in packed.items()}
    change(new)
    return new


def _say_nothing_is_pooled(new: Tree) -> None:
    """Say of a part of PREVAL that its models share no covariance."""
    if "T_CP" in new and "T_conf" in new:  # settings
        new["pooled"] = False
    if "agreement" in new:  # a system
        new["pooled"] = None
    if "_unit" in new:
        new["_rooted"] = None
    if "evaluator" in new and "calibration" in new:  # an expert
        new["moments"] = None
    if "has_stable_l0" in new and "interim" in new:  # a learner
        new["moments"] = None


def _say_samples_count_alike(new: Tree) -> None:
    """Say of a part of PREVAL that all samples weigh the same, and that columns are numbers."""
    if "waiting" in new:  # a stream
        new |= {"columns": None, "weight": None}
    if "drawn_out" in new or set(new) == {"X", "y", "first"}:  # a buffer; a batch
        new["weight"] = None


def _say_there_is_one_start(new: Tree) -> None:
    """Say of a fit that was stopped early that every network is kept; its steps are not known."""
    if "split_seed" in new:
        new |= {"n_starts": 1, "kept": None, "finished_steps": [0] * len(new["members"])}


def _say_there_are_no_stretches_and_no_versions(new: Tree) -> None:
    """Say of a part of PREVAL that single samples were held out, and no correction was kept."""
    if "T_CP" in new and "T_conf" in new:  # settings
        new |= {"order_matters": "auto", "max_versions": 8 if new["buffer_size"] else 0}
    if "drawn_out" in new and "shown" in new:  # a buffer
        new["stretch"] = 0.0
    if "quantiles" in new and "label_errors" in new:  # a calibration
        new["stretch"] = 1.0
    if "evaluator" in new and "calibration" in new:  # an expert
        new["versions"] = []
    if "losses" in new and "answers" in new:  # a refinement
        new |= {"version": 0, "origin": None, "better_for": 0}


def _say_targets_are_classes(new: Tree) -> None:
    """Say of a part of PREVAL that its targets are classes."""
    if "T_CP" in new and "T_conf" in new:  # settings
        new["targets"] = "classes"
    if "quantiles" in new and "label_errors" in new:  # a calibration
        new["residuals"] = None
    if "labels_at_start" in new or "evidence_weights" in new:  # L0 in training; an evaluator
        new["target_scaling"] = None


def _say_samples_are_independent(new: Tree) -> None:
    """Say of a part of PREVAL that samples are independent, and fitted ones score as new ones."""
    if "quantiles" in new and "label_errors" in new:
        memory = {"inputs": 1.0, "errors": 1.0, "losses": 1.0}
        new |= {"fitted": 0.0, "memory": memory, "n_learned": 0}
    if "T_CP" in new and "T_conf" in new:
        new.setdefault("false_alarms_per", "batch")
    if "agreement" in new:
        new |= {"undecided": None, "recent": [], "refinement": None}


def _with_interim_experts(description: Tree) -> Tree:
    """Return a stream's description in which learners answer by an interim expert."""
    shared = [_present_settings(one) for one in description["shared"]]
    stream = description["tree"]["_stream"]
    ((kind, system),) = stream["system"].items()
    models = []
    for model in system["models"]:
        ((phase, one),) = model.items()
        if phase == "learner":
            one = _paper_learner(one) if kind == "paper" else _our_learner(one, shared)
        models.append({phase: one})
    stream = {**stream, "system": {kind: {**system, "models": models}}}
    return {**description, "tree": {**description["tree"], "_stream": stream}, "shared": shared}


def _present_settings(packed: Any) -> Any:
    if isinstance(packed, dict) and "T_CP" in packed:
        packed = {name: value for name, value in packed.items() if name not in ("gates", "sources")}
        packed["prediction"] = {"grown": "sparse"}.get(packed["prediction"], packed["prediction"])
    return packed


def _paper_learner(old: Tree) -> Tree:
    l1 = old["l1"]
    if l1 is not None:
        l1 = {name: value for name, value in l1.items() if name != "clusters"}
    return {**old, "l1": l1}


def _our_learner(old: Tree, shared: list[Any]) -> Tree:
    """Return a learner whose linear predictor has become that of an interim expert."""
    new = {name: old[name] for name in old if name not in ("early", "evidence_weights", "l1")}
    new |= {"interim": None, "n_fitted": 0, "has_stable_l0": False}
    if old["early"] is None:
        return new
    shared.append(old["l0"]["adaptation"]["state"]["network"])
    evaluator = {name: old[name] for name in ("settings", "scaling", "units", "evidence_weights")}
    evaluator |= {
        "network": len(shared) - 1,
        "first_output": old["l0"]["first_output"],
        "classes": old["l0"]["classes"],
        "predictor": {"linear": old["early"]["predictor"]},
        "error_stats": None,
        "by_class": False,
    }
    expert = {name: old[name] for name in ("number", "seed", "group", "inherited", "base")}
    expert |= {
        "evaluator": evaluator,
        "calibration": old["early"]["calibration"],
        "history": old["l0"]["history"],
    }
    shared.append(expert)
    return {**new, "interim": len(shared) - 1}


def _of_0_1(description: Tree) -> Tree:
    """Return the description of a file of dirad 0.1 in the layout of format 3."""
    tree, shared = modernized([description["tree"], list(description["shared"])])
    if description["model"] != "PREVALClassifier":
        return {**description, "tree": tree, "shared": shared}
    ((kind, system),) = tree["_system"].items()
    for place, one in enumerate(shared):
        if isinstance(one, dict) and "T_CP" in one:  # settings
            shared[place] = {"near": 0.0, "error": "absolute"} | one
    convert = _Converter(shared)
    models = [convert.paper(m) if kind == "stream" else convert.model(m) for m in system["models"]]
    new = {name: system[name] for name in ("n_inputs", "n_classes", "settings", "seed", "opened")}
    new["journal"] = {name: system[name] for name in ("events", "reports", "batches", "samples")}
    new |= {"latest": system["_latest"], "models": models}
    if kind == "buffer":
        pairs = [
            [pair, [{"total": one["deviates"], "rows": one["rows"]} for one in both]]
            for pair, both in system["together"]["pairs"]
        ]
        new |= {
            "units": system["scale"],
            "agreement": {"pairs": pairs},
            "last_used": system["used"],
        }
    stream = {
        "system": {"paper" if kind == "stream" else "ours": new},
        "labels": tree.pop("_labels"),
        "classes": tree.pop("classes_"),
        "waiting": tree.pop("_waiting"),
    }
    tree = {name: tree[name] for name in ("options", "n_features_in_", "feature_names_in_")}
    tree["_stream"] = stream
    return {**description, "tree": tree, "shared": convert.shared}


def modernized(packed: Any) -> Any:
    """Return packed values without what is gone, and with what newer networks have.

    The column `owner` of units and edges is gone; constants and states know of trimming.
    """
    if isinstance(packed, list):
        return [modernized(one) for one in packed]
    if not isinstance(packed, dict):
        return packed
    new = {name: modernized(one) for name, one in packed.items() if name not in ("owner", "payoff")}
    if "edge_life" in new:
        new |= {"trimmed": None, "trimming": None}
    if "split_seed" in new:  # a fit that was stopped early: of one network, whose seed is drawn
        new |= {
            "seeds": [0],
            "members": [],
            "transfer": 0,
            "structure": "compact",
            "on_trial": False,
        }
    if "input_spread_" in new:
        new["input_mean_"] = None
    if "node_removal" in new:  # constants of later versions were off
        new = {**asdict(Params()), **new}
    return new


class _Converter:
    """Converts models; shared objects are converted in their place, once."""

    def __init__(self, shared: list[Any]) -> None:
        self.old = shared
        self.shared = list(shared)
        self.done: set[int] = set()

    def model(self, place: int) -> Tree:
        """Return one of our models."""
        old = self.old[place]
        if old["known"] is not None:
            return {"expert": self._expert(place)}
        scaling = {"offset": old["offset"], "spread": old["spread"]}
        early = None
        if old["sketch"] is not None and old["usual"] is not None:
            early = {"predictor": _linear(old["sketch"]), "calibration": _calibration(old["usual"])}
        buffer = {"drawn_out" if k == "spared" else k: v for k, v in old["buffer"].items()}
        l0 = {
            "adaptation": old["l0"],
            "first_output": old["first_output"],
            "classes": old["classes"],
            "labels_at_start": old["taught_by"],
            "history": old["history"],
        }
        kept = {name: old[name] for name in ("number", "settings", "seed", "group", "inherited")}
        learner = kept | {
            "units": old["scale"],
            "base": None if old["base"] is None else self._expert(old["base"]),
            "buffer": buffer,
            "scaling": scaling,
            "l0": l0,
            "evidence_weights": old["trust"],
            "early": early,
            "l1": None if old["l1"] is None else self._l1_training(old["l1"]),
        }
        return {"learner": learner}

    def paper(self, old: Tree) -> Tree:
        """Return one of the paper's models."""
        kept = ("number", "seed", "settings", "classes", "history", "temperature")
        new = {name: old[name] for name in kept}
        if old["known"] is None:
            l1 = None if old["l1"] is None else self._l1_training(old["l1"])
            return {"learner": new | {"l0": old["l0"], "last": old["last"], "l1": l1}}
        new |= {"network": old["network"], "l1": self._predictor(old["l1"])}
        return {"expert": new | {"error_stats": old["known"]}}

    def _expert(self, place: int) -> int:
        old = self.old[place]
        if place in self.done:
            return place
        self.done.add(place)
        grown = old["l1"] is not None
        predictor = {"grown": self._predictor(old["l1"])} if grown else _linear(old["sketch"])
        evaluator = {
            "settings": old["settings"],
            "network": old["network"],
            "first_output": old["first_output"],
            "classes": old["classes"],
            "scaling": {"offset": old["offset"], "spread": old["spread"]},
            "units": old["scale"],
            "predictor": predictor if grown else {"linear": predictor},
            "evidence_weights": old["trust"],
            "error_stats": old["known"] if grown else None,
            "by_class": True,
        }
        kept = {name: old[name] for name in ("number", "seed", "history", "group", "inherited")}
        self.shared[place] = kept | {
            "evaluator": evaluator,
            "calibration": _calibration(old["usual"]),
            "base": None if old["base"] is None else self._expert(old["base"]),
        }
        return place

    def _states(self, old: Tree) -> Tree:
        return {
            "network": old["l0"],
            "nodes": old["nodes"],
            "offset": old["low"],
            "spread": old["span"],
            "earlier": [self._predictor(place) for place in old["earlier"]],
        }

    def _predictor(self, place: int) -> int:
        old = self.old[place]
        if place not in self.done:
            self.done.add(place)
            gates = old["gates"]
            if gates is not None:
                names = {"network": "network", "classes": "group", "history": "history"}
                gates = {new: gates[name] for new, name in names.items()}
            kept = {name: old[name] for name in ("targets", "network", "steps_taken")}
            states = self._states(old)
            self.shared[place] = kept | {
                "states": states,
                "clusters": gates,
                "learning_curves": old["_progress"],
            }
        return place

    def _l1_training(self, place: int) -> Tree:
        old = self.old[place]
        gates = old["gates"]
        if gates is not None:
            names = {"assigned": "modes", "classes": "group"}
            gates = {new: gates[name] for new, name in names.items()} | {
                name: gates[name] for name in ("adaptation", "history")
            }
        pathways, histories = dict(old["pathways"]), old["histories"]
        if pathways["states"] is not None:
            pathways["states"] = pathways["states"] | {"at": f"shared/{place}/pathways"}
        if histories is not None:
            histories = histories | {"at": f"shared/{place}/histories"}
        kept = {name: old[name] for name in ("settings", "seed", "targets", "step")}
        return kept | {
            "states": self._states(old),
            "clusters": gates,
            "pathways": pathways,
            "histories": histories,
        }


def _linear(sketch: Tree) -> Tree:
    return {"remainder" if name == "own" else name: value for name, value in sketch.items()}


def _calibration(usual: Tree) -> Tree:
    return {"label_errors" if name == "mistakes" else name: v for name, v in usual.items()}
