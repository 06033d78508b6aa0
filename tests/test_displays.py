"""Displays draw fitted estimators on new figures or on given axes, and refuse unsuitable data."""

from __future__ import annotations

import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from matplotlib.colors import to_rgba
from sklearn.exceptions import NotFittedError

from dirad import DIRADClassifier, DIRADRegressor, PREVALClassifier, explain
from dirad.history import EDGE, ENC, EXCHANGING, PHASE, RECORD, SETTLING, STABLE, History
from dirad.plot import (
    AccuracyMatrixDisplay,
    ConflictDisplay,
    ExplanationDisplay,
    GrowthDisplay,
    NetworkDisplay,
    PartialDependenceDisplay,
    RoutingDisplay,
    TimelineDisplay,
)
from dirad.plot.colours import ALERT, VERDICT_COLOURS
from dirad.plot.data import moments_of
from dirad.plot.growth import draw_growth
from synthetic import continual_classifier, digits, grown_classifier

mpl.use("agg")


@pytest.fixture(autouse=True)
def _closed():
    yield
    pyplot.close("all")


SAMPLES = np.random.default_rng(0).normal(size=(200, 3))


@pytest.fixture(scope="module")
def classifier():
    X = SAMPLES
    y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    return DIRADClassifier(max_edges=6, random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def continual():
    return continual_classifier()


def texts(display):
    display.figure_.canvas.draw()
    return {t.get_text() for t in display.figure_.findobj(mpl.text.Text) if t.get_text()}


def test_a_network_says_its_names_and_size(classifier):
    display = NetworkDisplay.from_estimator(classifier, input_names=["left", "right", "noise"])
    assert display.ax_.figure is display.figure_
    assert {"left", "right", "same"} <= texts(display)
    assert any(f"{classifier.n_edges_} edges" in text for text in texts(display))


def test_weights_are_colours_by_sign_and_weak_edges_fade():
    network = grown_classifier(64, 10, 500, 700).network_
    display = NetworkDisplay(network, shape=(8, 8)).plot()
    used = network.edges[network.edges["source"] >= 0]
    assert len(used) == 500
    for term in (0, 1):
        lines = display.figure_.findobj(lambda a, term=term: a.get_gid() == f"edges of term {term}")
        colours = lines[0].get_edgecolor()
        weights = used["weight"][used["term"] % 2 == term]
        weights = weights[np.argsort(np.abs(weights))]  # strong edges are drawn last
        blue = colours[:, 2] > colours[:, 0]
        assert np.array_equal(blue, weights > 0)
        assert (np.diff(colours[:, 3]) >= 0).all()
        assert colours[0, 3] < 0.2
        assert colours[-1, 3] > 0.8


def test_every_display_draws_on_given_axes(classifier, continual):
    X, y = digits()
    figure, axes = pyplot.subplots(2, 4)
    places = iter(axes.ravel())
    drawn = [
        NetworkDisplay.from_estimator(classifier, ax=next(places)),
        GrowthDisplay.from_estimator(classifier, ax=next(places)),
        TimelineDisplay.from_estimator(continual, ax=next(places)),
        RoutingDisplay.from_estimator(continual, X[y < 4], y[y < 4] // 2, ax=next(places)),
        AccuracyMatrixDisplay(np.eye(2)).plot(next(places)),
        ConflictDisplay.from_estimator(continual, X[:2], ax=next(places)),
        PartialDependenceDisplay.from_estimator(classifier, SAMPLES, ax=next(places)),
        ExplanationDisplay.from_estimator(classifier, SAMPLES, sample=0, ax=next(places)),
    ]
    figure.canvas.draw()
    assert pyplot.get_fignums() == [figure.number]
    for display, ax in zip(drawn, axes.ravel(), strict=True):
        assert display.ax_ is ax
        assert display.figure_ is figure


@pytest.fixture(scope="module")
def gated():
    """Return a regressor with a threshold of income at 3.4, and its data."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"age": rng.normal(40, 12, 500), "income": rng.lognormal(1, 0.6, 500)})
    y = 0.3 * X["age"] * np.where(X["income"] > 3.4, 1, -0.4) + rng.normal(0, 1, 500)
    return DIRADRegressor(random_state=0, n_init=1).fit(X, y), X


def test_partial_dependence_is_the_mean_prediction(gated):
    model, X = gated
    display = PartialDependenceDisplay.from_estimator(model, X, ["income"])
    (one,) = display.responses
    assert one.name == "income"
    for place in (0, len(one.grid) // 2, -1):
        varied = X.iloc[np.unique(np.linspace(0, 499, 200).round().astype(int))].copy()
        varied["income"] = one.grid[place]
        assert one.mean[0, place] == pytest.approx(model.predict(varied).mean())
        assert one.individual[0, place] == pytest.approx(model.predict(varied)[0])
    assert {"income", "prediction"} <= texts(display)


def test_thresholds_of_gates_are_marked(gated):
    model, X = gated
    display = PartialDependenceDisplay.from_estimator(model, X)
    assert [one.name for one in display.responses] == ["income", "age"]  # by importance
    gate = display.responses[0].thresholds[0]
    assert gate.value == pytest.approx(3.4, abs=0.2)
    marks = [line.get_xdata()[0] for line in display.axes_[0].lines if line.get_linestyle() != "-"]
    assert any(mark == pytest.approx(gate.value) for mark in marks)
    assert f"{gate.value:.2f}" in texts(display)
    # The curve is dense where the gate opens.
    grid = display.responses[0].grid
    assert np.count_nonzero(np.abs(grid - gate.value) <= 2 * gate.half_width) >= 9


def test_partial_dependence_of_classes(classifier):
    display = PartialDependenceDisplay.from_estimator(classifier, SAMPLES, [0, "x1"])
    assert "P(same)" in texts(display)
    quiet = PartialDependenceDisplay.from_estimator(classifier, SAMPLES, [0], individual=False)
    assert len(quiet.axes_[0].lines) < len(display.axes_[0].lines)
    y = np.digitize(SAMPLES[:, 0], [-0.5, 0.5])
    several = DIRADClassifier(max_edges=5, random_state=0).fit(SAMPLES, y)
    display = PartialDependenceDisplay.from_estimator(several, SAMPLES, [0])
    assert display.responses[0].mean.sum(axis=0) == pytest.approx(1.0)
    assert {"P(0)", "P(1)", "P(2)"} <= texts(display)
    with pytest.raises(ValueError, match="no column 'x7'"):
        PartialDependenceDisplay.from_estimator(classifier, SAMPLES, ["x7"])
    with pytest.raises(ValueError, match="no column 3: it has 3"):
        PartialDependenceDisplay.from_estimator(classifier, SAMPLES, [3])


def test_an_input_of_few_values_is_drawn_at_them(classifier):
    X = SAMPLES.copy()
    X[:, 1] = np.round(X[:, 1])
    display = PartialDependenceDisplay.from_estimator(classifier, X, [1])
    assert display.responses[0].grid.tolist() == np.unique(X[:, 1]).tolist()


def test_bars_of_a_sample_add_up_to_its_prediction(gated):
    model, X = gated
    for most in (10, 2):
        display = ExplanationDisplay.from_estimator(model, X, sample=7, max_bars=most)
        total = display.bias + display.contributions.sum()
        assert total == pytest.approx(model.predict(X)[7])
        assert len(display.names) <= most
        first = display.ax_.patches[0]
        ends = first.get_x(), first.get_x() + first.get_width()
        assert any(end == pytest.approx(display.bias) for end in ends)
    assert "others" in display.names[-1]
    assert any(f"income = {X['income'][7]:.4g}" in text for text in texts(display))
    by_path = ExplanationDisplay.from_estimator(model, X, sample=7, by="path")
    assert any("income above 3." in name for name in by_path.names)


def test_bars_on_average_are_importances(gated, classifier):
    model, X = gated
    display = ExplanationDisplay.from_estimator(model, X)
    found = explain(model, X, by="input")
    centred = found.contributions[:, 0] - found.contributions[:, 0].mean(axis=0)
    sizes = dict(zip(found.names, np.abs(centred).mean(axis=0), strict=True))
    assert display.bias is None
    for name, size in zip(display.names, display.contributions, strict=True):
        assert size == pytest.approx(sizes[name])
    assert (np.diff(display.contributions) <= 0).all()
    local = ExplanationDisplay.from_estimator(classifier, SAMPLES, sample=0)
    assert local.output == "log-odds of same"


def test_growth_has_error_size_and_events(classifier):
    display = GrowthDisplay.from_estimator(classifier, title="How it grew")
    assert len(display.axes_) == 3
    assert "How it grew" in texts(display)
    edges = classifier.history_.count("edge")
    assert f"edges added ({edges})" in texts(display)


def history():
    rows = [(step, EDGE, i, 0, 0, -1, -1, 0.0) for i, step in enumerate(range(0, 200, 10))]
    rows += [(55, ENC, 0, 3, 0, 1, 9, 0.1), (199, PHASE, EXCHANGING, -1, -1, -1, -1, 0.2)]
    rows += [(299, PHASE, SETTLING, -1, -1, -1, -1, 0.1), (499, PHASE, STABLE, -1, -1, -1, -1, 0.1)]
    steps = np.arange(500)
    return History(
        np.array(rows, RECORD),
        np.maximum(np.exp(-steps / 50), 1e-4) * (steps != 490),  # one error of exactly 0
        np.minimum(steps // 10 + 1, 20),
        (steps > 55).astype(np.int64),
    )


def test_growth_shows_error_size_events_and_phases():
    figure = draw_growth(history())
    found = {text.get_text() for text in figure.findobj(mpl.text.Text)}
    assert {"growing", "exchanging", "settling", "20 edges", "1 hidden node"} <= found
    error, _, events = figure.axes
    assert error.get_yscale() == "log"
    labels = [label.get_text() for label in events.get_yticklabels()]
    assert labels == ["edges added (20)", "nodes inserted (1)", "removed (0)"]
    assert [len(row.get_segments()) for row in events.collections] == [20, 1, 0]


def test_an_empty_history_is_drawn_without_curves():
    display = GrowthDisplay(History()).plot()
    assert "edges added (0)" in texts(display)
    assert [len(axes.lines) for axes in display.axes_] == [0, 0, 0]


def test_the_network_of_a_model_by_its_number(continual):
    assert {"0", "1"} <= texts(NetworkDisplay.from_estimator(continual, model=0))
    assert {"2", "3"} <= texts(NetworkDisplay.from_estimator(continual, model=1))
    with pytest.raises(ValueError, match="there is no model 7, only 0, 1"):
        GrowthDisplay.from_estimator(continual, model=7)


def test_timeline_shows_batches_where_they_went(continual):
    display = TimelineDisplay.from_estimator(continual)
    moments = moments_of(continual)
    assert [m.model for m in moments] == [report.model for report in continual.reports_]
    assert moments[0].phase == "adapting"
    assert moments[-1].phase == "stable"
    verdicts = display.axes_[1]
    lanes = [t.get_text() for t in verdicts.get_yticklabels()]
    assert lanes == [
        one for one in VERDICT_COLOURS if one in {r.verdict for r in continual.reports_}
    ]
    assert len(display.axes_) == 4  # models, verdicts, reasons, p-values


def test_timeline_shows_the_true_tasks_if_told(continual):
    display = TimelineDisplay.from_estimator(continual, tasks=np.repeat(["a", "b", "a"], 300))
    assert len(display.axes_) == 5
    assert display.moments[0].shares == (1.0, 0.0)
    assert display.moments[3].shares == (0.0, 1.0)
    with pytest.raises(ValueError, match="tasks has 3 entries, but 900 samples"):
        TimelineDisplay.from_estimator(continual, tasks=[0, 1, 0])


def test_routing_is_the_share_of_each_task(continual):
    X, y = digits()
    some = np.flatnonzero(y < 4)
    display = RoutingDisplay.from_estimator(continual, X[some], y[some] // 2)
    route = continual.route(X[some]).tolist()
    for i, task in enumerate((0, 1)):
        own = [r for r, label in zip(route, y[some], strict=True) if label // 2 == task]
        for j, model in enumerate(display.models):
            assert display.matrix[i, j] == pytest.approx(own.count(model) / len(own))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        RoutingDisplay.from_predictions([0, 1], [0])


def test_accuracy_matrix_of_predictions(classifier):
    tasks, y = ["a", "a", "b"], [0, 1, 1]
    display = AccuracyMatrixDisplay.from_predictions(tasks, y, [[0, 0, 0], [0, 1, 1]])
    assert display.matrix.tolist() == [[0.5, 0.0], [1.0, 1.0]]
    assert {"after a", "after b", "0.50"} <= texts(display)
    X = np.array([[1.0, 1.0, 0.0], [1.0, -1.0, 0.0]])
    answers = classifier.predict(X)
    both = AccuracyMatrixDisplay.from_estimator([classifier], X, answers, ["a", "b"])
    assert both.matrix.tolist() == [[1.0, 1.0]]
    with pytest.raises(ValueError, match="1 names for 2 tasks"):
        AccuracyMatrixDisplay(np.eye(2), task_names=["a"])


def test_conflicts_are_those_of_the_classifier(continual):
    X, _ = digits()
    display = ConflictDisplay.from_estimator(continual, X[4:7])
    assert np.array_equal(display.view.conflicted > 0, continual.conflicts(X[4:7]))
    assert display.shape == (8, 8)
    red = display.axes_[0, 2].images[1].get_array()
    assert np.array_equal(red[..., 3].ravel() > 0, continual.conflicts(X[4:5])[0])
    assert tuple(red[0, 0, :3]) == pytest.approx(to_rgba(ALERT)[:3])
    with pytest.raises(ValueError, match=r"shape \(3, 3\) does not fit 64 inputs"):
        ConflictDisplay.from_estimator(continual, X[:1], shape=(3, 3))


def test_conflicts_of_a_batch_are_shares(continual):
    X, y = digits()
    batch = X[y == 1][:50]
    display = ConflictDisplay.from_estimator(continual, batch)
    assert display.view.conflicted.shape == (1, 64)
    assert display.view.conflicted[0] == pytest.approx(continual.conflicts(batch).mean(axis=0))
    assert "mean of 50" in texts(display)


def test_a_model_that_is_not_stable_has_no_conflicts():
    X, y = digits()
    model = PREVALClassifier(batch_size=100, begin=100, random_state=0)
    model.partial_fit(X[y < 2][:200], y[y < 2][:200])
    with pytest.raises(ValueError, match="model 0 is still adapting"):
        ConflictDisplay.from_estimator(model, X[:1])


def test_what_cannot_be_drawn_is_refused(classifier):
    with pytest.raises(NotFittedError):
        NetworkDisplay.from_estimator(DIRADRegressor())
    with pytest.raises(ValueError, match="has no models, but model=1"):
        NetworkDisplay.from_estimator(classifier, model=1)
    with pytest.raises(ValueError, match="4 pixels, but the network has 3 inputs"):
        NetworkDisplay.from_estimator(classifier, shape=(2, 2))


@pytest.mark.parametrize(
    "module", ["plot", "plot.data", "plot.layout", "plot.responses", "report.page"]
)
def test_drawing_libraries_are_loaded_only_when_drawing(module):
    code = f"import sys, dirad.{module}; print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"matplotlib", "jinja2", "sklearn"} & {*out.stdout.split()}


def test_drawing_without_windows_does_not_load_pyplot():
    code = "import sys, dirad.plot.network; print('matplotlib.pyplot' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"
