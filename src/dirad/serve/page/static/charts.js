"use strict";
// Charts in SVG: how well a stream was predicted, and which model had which batches.

const LEFT = 68, RIGHT = 12, MODEL_PAINTS = 8, MOST_LANES = 12;
const VERDICTS = {
  known: "of a known task", learning: "no model can tell yet", undecided: "unusual; the next batch tells",
  mixed: "partly known", new: "new", back: "of a known task, another than before",
  "new inputs": "never seen", "shifted inputs": "the labels agree", "new rule": "known inputs, other labels",
};
const verdictOf = (run) => (run.kind === "mixed" ? run.kind : run.cause || run.kind);
const verdictPaint = (name) => `var(--${name.replace(" ", "-")})`;

const modelPaint = (model) => `var(--model-${model % MODEL_PAINTS})`;
const label = (x, y, text, anchor = "start") => shape("text", { x, y, "text-anchor": anchor }, text);
const titled = (tag, attributes, text) => shape(tag, attributes, shape("title", {}, text));

const svg = (width, height, text) => shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": text });

/** A number of the form 1, 2 or 5 times a power of ten that is at least as large as a value. */
function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= value * 0.999);
}

/** Draw the mean scores along the rows, with a line for each alarm. */
function drawScores(place, { scores, measure }, rows, alarms) {
  if (!scores.length) {
    place.replaceChildren(element("p", { class: "quiet" }, "Nothing to show yet: rows with labels are scored as they arrive, once there is a model."));
    return;
  }
  const width = Math.max(place.clientWidth, 240), top = 14, bottom = 150, height = 172;
  const most = measure === "accuracy" ? 1 : roundUp(Math.max(...scores.map((one) => one.mean), 1e-12));
  const last = Math.max(rows, scores.at(-1).row + 1);
  const x = (row) => LEFT + (width - LEFT - RIGHT) * row / last;
  const y = (value) => bottom - (bottom - top) * value / most;
  const now = scores.at(-1).mean;
  const root = svg(width, height, `${measure} over ${count(rows)} rows: first ${number(scores[0].mean, 3)}, now ${number(now, 3)}; ${plural(alarms.length, "alarm")}`);
  for (const share of [0, 0.5, 1]) {
    const value = share * most;
    root.append(
      shape("line", { x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value), stroke: "var(--line)" }),
      label(LEFT - 6, y(value) + 4, number(value, 3), "end"));
  }
  for (const alarm of alarms) root.append(titled("line", {
    x1: x(alarm.row), x2: x(alarm.row), y1: top - 8, y2: bottom, stroke: "var(--alert)", "stroke-width": 1.5, "stroke-dasharray": "4 3", class: "alarm-line",
  }, `row ${count(alarm.row)}: alarm`));
  const ends = scores.map((one, i) => Math.min(scores[i + 1]?.row ?? last, last));
  const points = scores.map((one, i) => [x((one.row + ends[i]) / 2), y(Math.min(one.mean, most))]);
  const path = points.map(([a, b], i) => `${i ? "L" : "M"}${a.toFixed(1)} ${b.toFixed(1)}`).join("");
  root.append(shape("path", { d: path, fill: "none", stroke: "var(--accent)", "stroke-width": 2 }));
  points.forEach(([cx, cy], i) => root.append(titled("circle", { cx, cy, r: points.length > 60 ? 2 : 3.5, fill: "var(--accent)" },
    `from row ${count(scores[i].row)}: ${measure} ${number(scores[i].mean, 3)} on ${count(scores[i].labelled)} labelled rows`)));
  root.append(label(LEFT, height - 4, "row 0"), label(width - RIGHT, height - 4, count(rows), "end"));
  place.replaceChildren(root);
}

/** Draw the runs of batches: a lane per model, and below them what was said of the batches. */
function drawTimeline(place, runs, alarms) {
  if (!runs.length) {
    place.replaceChildren(element("p", { class: "quiet" }, "Nothing to show yet: no batch was learned."));
    return;
  }
  const models = [...new Set(runs.map((run) => run.model))].slice(-MOST_LANES);
  const first = runs[0].first, end = runs.at(-1).last + 1;
  const width = Math.max(place.clientWidth, 240), lane = 24, verdictTop = models.length * lane + 12, height = verdictTop + 40;
  const x = (batch) => LEFT + (width - LEFT - RIGHT) * (batch - first) / (end - first);
  const root = svg(width, height, `${plural(end - first, "batch").replace("batchs", "batches")}, ${plural(models.length, "model")}, ${plural(alarms.length, "alarm")}`);
  const across = (run) => ({ x: x(run.first).toFixed(1), width: Math.max(x(run.last + 1) - x(run.first), 1).toFixed(1) });
  const span = (run) => (run.first === run.last ? `batch ${run.first}` : `batches ${run.first} to ${run.last}`);
  models.forEach((model, i) => root.append(label(LEFT - 6, i * lane + 16, `model ${model}`, "end")));
  for (const run of runs) {
    const i = models.indexOf(run.model);
    if (i >= 0) root.append(titled("rect", { ...across(run), y: i * lane + 4, height: 15, fill: modelPaint(run.model), class: "run" }, `${span(run)}: model ${run.model}, ${run.text}`));
    root.append(titled("rect", { ...across(run), y: verdictTop, height: 12, fill: verdictPaint(verdictOf(run)), class: "verdict" }, `${span(run)}: ${run.text}`));
  }
  root.append(label(LEFT - 6, verdictTop + 10, "verdict", "end"));
  for (const alarm of alarms.filter((one) => one.batch >= first)) root.append(titled("path", {
    d: `M${x(alarm.batch).toFixed(1)} ${verdictTop - 9}l-5 8h10z`, fill: "var(--alert)", class: "alarm-mark",
  }, `alarm at batch ${alarm.batch}: model ${alarm.model} opened`));
  root.append(label(LEFT, height - 6, `batch ${first}`), label(width - RIGHT, height - 6, `${end}`, "end"));
  place.replaceChildren(root);
}

/** The meaning of the colours that a timeline has. */
function drawVerdictLegend(place, runs, alarms) {
  const square = (paint) => shape("svg", { width: 12, height: 12, viewBox: "0 0 12 12" }, shape("rect", { width: 12, height: 12, fill: paint }));
  const triangle = shape("svg", { width: 12, height: 12, viewBox: "0 0 12 12" }, shape("path", { d: "M6 2l-5 8h10z", fill: "var(--alert)" }));
  const kinds = Object.keys(VERDICTS).filter((kind) => runs.some((run) => verdictOf(run) === kind));
  place.replaceChildren(
    ...kinds.map((kind) => element("span", {}, square(verdictPaint(kind)), `${kind}: ${VERDICTS[kind]}`.replace("new: new", "new"))),
    ...(alarms.length ? [element("span", {}, triangle, "alarm: a new model was opened")] : []));
}
