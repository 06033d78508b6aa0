"use strict";
// Charts in SVG: growth, the timeline of a stream, images and a scatter plot.

const LEFT = 94, RIGHT = 8;
const EVENT_ROWS = [
  ["edges added", ["edge"], "var(--positive)"],
  ["nodes inserted", ["ENC", "gate"], "var(--nodes)"],
  ["removed", ["edge removed", "node removed", "restored", "kept"], "var(--negative)"],
];

const lineThrough = (points) =>
  points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

const label = (x, y, text, anchor = "start") =>
  shape("text", { x, y, "text-anchor": anchor }, text);

/** Ticks of a logarithmic axis: powers of ten, and their multiples by 2 and 5 if the range is small. */
function logTicks(low, high) {
  const ticks = [];
  const factors = high / low > 50 ? [1] : [1, 2, 5];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++)
    for (const factor of factors) ticks.push(factor * 10 ** power);
  return ticks.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
}

/** Draw error, size and events of a model along its steps, as a slider for mouse and keyboard.
 *  Returns a function that moves the cursor. */
function drawGrowth(place, model, player) {
  const { steps, at, error, edges, hidden, phases } = model.growth;
  const width = Math.max(place.clientWidth, 260);
  const across = width - LEFT - RIGHT;
  const x = (step) => LEFT + across * step / Math.max(steps, 1);
  const [top, middle, bottom, end] = [18, 118, 132, 212];
  const height = end + 14 + 15 * EVENT_ROWS.length + 18;
  let now = 0;
  const moves = {
    ArrowLeft: () => player.turn(-1), ArrowRight: () => player.turn(1),
    ArrowDown: () => player.turn(-1), ArrowUp: () => player.turn(1),
    PageDown: () => player.goToStep(now - steps / 10), PageUp: () => player.goToStep(now + steps / 10),
    Home: () => player.goToStep(-1), End: () => player.goToStep(steps),
  };
  const root = shape("svg", {
    viewBox: `0 0 ${width} ${height}`, role: "slider", tabindex: 0, "aria-valuemin": 0, "aria-valuemax": steps,
    "aria-label": `Growth over ${steps} steps to ${model.summary}`,
    onkeydown: (event) => {
      if (!isPlain(event) || !(event.key in moves)) return;
      moves[event.key]();
      event.preventDefault();
    },
    onclick: (event) => {
      const share = (event.clientX - root.getBoundingClientRect().left) / root.clientWidth;
      player.goToStep((share * width - LEFT) / across * steps);
    },
  });
  for (const [phase, from, to] of phases) {
    const name = ["growing", "exchanging", "settling", "stable", "trimming"][phase];
    root.append(shape("rect", {
      x: x(from), y: top, width: x(to) - x(from), height: end - top,
      fill: phase === 0 || phase === 2 ? "var(--shade)" : "transparent",
    }));
    if (x(to) - x(from) > 9 * name.length) root.append(label((x(from) + x(to)) / 2, 12, name, "middle"));
  }
  drawError(root, { at, error, x, top, middle, width });
  drawSizes(root, { at, edges, hidden, x, bottom, end, width });
  EVENT_ROWS.forEach(([name, kinds, paint], row) => {
    const y = end + 12 + 15 * row;
    const ticks = model.changes.filter(([, kind]) => kinds.includes(kind));
    const path = ticks.map(([step]) => `M${x(step + 1).toFixed(1)} ${y}v11`).join("");
    root.append(label(LEFT - 5, y + 9, name, "end"), shape("path", { d: path, stroke: paint }));
  });
  root.append(label(LEFT, height - 5, "0"), label(width - RIGHT, height - 5, `${steps} steps`, "end"));
  const cursor = shape("line", { y1: top, y2: height - 18, stroke: "var(--ink)", "stroke-width": 1.5 });
  root.append(cursor);
  place.replaceChildren(root);
  return (step) => {
    now = step;
    root.setAttribute("aria-valuenow", step);
    root.setAttribute("aria-valuetext", `step ${step}`);
    cursor.setAttribute("x1", x(step));
    cursor.setAttribute("x2", x(step));
  };
}

function drawError(root, { at, error, x, top, middle, width }) {
  const positive = error.filter((value) => value > 0);
  const low = Math.min(...positive, 1), high = Math.max(...positive, low * 1.01);
  const y = (value) => middle - (middle - top) * Math.log(Math.max(value, low) / low) / Math.log(high / low);
  for (const tick of logTicks(low, high))
    root.append(
      shape("line", { x1: LEFT, x2: width - RIGHT, y1: y(tick), y2: y(tick), stroke: "var(--line)" }),
      label(LEFT - 5, y(tick) + 4, number(tick), "end"));
  const points = at.map((step, i) => [x(step + 1), y(error[i] ?? high)]);
  root.append(
    shape("path", { d: lineThrough(points), fill: "none", stroke: "var(--ink)", "stroke-width": 1.5 }),
    label(width - RIGHT - 4, top + 12, "error", "end"));
}

function drawSizes(root, { at, edges, hidden, x, bottom, end, width }) {
  const most = Math.max(...edges, ...hidden, 1);
  const y = (value) => end - (end - bottom - 8) * value / most;
  root.append(
    shape("line", { x1: LEFT, x2: width - RIGHT, y1: end, y2: end, stroke: "var(--line)" }),
    label(LEFT - 5, y(most) + 4, number(most), "end"), label(LEFT - 5, end + 1, "0", "end"));
  for (const [values, name, paint] of [[edges, "edge", "var(--positive)"], [hidden, "hidden node", "var(--nodes)"]]) {
    if (!values.length) continue;
    const last = values.at(-1);
    const points = at.map((step, i) => [x(step + 1), y(values[i])]);
    const text = label(width - RIGHT - 4, y(last) + (name === "edge" ? 13 : -4), `${last} ${name}${last === 1 ? "" : "s"}`, "end");
    text.style.fill = paint;
    root.append(shape("path", { d: lineThrough(points), fill: "none", stroke: paint, "stroke-width": 1.8 }), text);
  }
}

/** Runs of equal keys: [first index, last index, key]. */
function runs(keys) {
  const found = [];
  keys.forEach((key, i) => {
    if (found.length && found.at(-1)[2] === key) found.at(-1)[1] = i;
    else found.push([i, i, key]);
  });
  return found;
}

const VERDICTS = ["learning", "known", "back", "new", "new inputs", "shifted inputs", "new rule", "mixed", "undecided"];
const verdictPaint = (name) => `var(--${name.replace(" ", "-")})`;
const MARKS = { opened: "▲", stable: "●", removed: "✕", merged: "✕", refined: "◆", returned: "◇" };

/** Draw the stream of a continual learner: a lane per model, then verdict and p-value of each batch. */
function drawTimeline(place, { model, verdict, why, stable, p, events }) {
  const lanes = Math.max(...model) + 1, n = model.length;
  const width = Math.max(place.clientWidth, 260), lane = 22;
  const x = (batch) => LEFT + (width - LEFT - RIGHT) * batch / n;
  const verdictTop = lanes * lane + 12, pTop = verdictTop + 30, end = pTop + 64;
  const root = shape("svg", {
    viewBox: `0 0 ${width} ${end + 20}`, role: "img",
    "aria-label": `${n} batches, learned by ${new Set(model).size} models`,
  });
  const block = (first, last, y, height, fill, opacity, text) => root.append(shape("rect", {
    x: x(first), y, height, fill, opacity, width: Math.max(x(last + 1) - x(first), 1.5),
  }, shape("title", {}, text)));
  for (let i = 0; i < lanes; i++) root.append(label(LEFT - 5, i * lane + 14, `model ${i}`, "end"));
  for (const [first, last, key] of runs(model.map((m, i) => `${m} ${stable[i]}`))) {
    const [number, done] = key.split(" ").map(Number);
    const text = `batches ${first} to ${last}: model ${number}${done ? "" : ", adapting"}`;
    block(first, last, number * lane + 2, 12, "var(--accent)", done ? 1 : 0.4, text);
  }
  for (const [batch, kind, number] of events) {
    if (!(kind in MARKS) || number >= lanes) continue;
    const mark = label(x(Math.min(batch, n)), number * lane + 23, MARKS[kind], "middle");
    mark.append(shape("title", {}, `batch ${batch}: model ${number} ${kind}`));
    mark.style.fontSize = "8px";
    root.append(mark);
  }
  root.append(label(LEFT - 5, verdictTop + 12, "verdict", "end"));
  for (const [first, last, name] of runs(verdict))
    block(first, last, verdictTop, 16, verdictPaint(name), 1, `batches ${first} to ${last}: ${name}${why[first] ? `; ${why[first]}` : ""}`);
  drawPValues(root, { p, verdict, x, top: pTop, bottom: end, width });
  root.append(label(LEFT, end + 15, "0"), label(width - RIGHT, end + 15, `${n} batches`, "end"));
  place.replaceChildren(root);
}

function drawPValues(root, { p, verdict, x, top, bottom, width }) {
  if (p.every((value) => value === null)) return;
  const LEAST = 1e-12;
  const y = (value) => top + (bottom - top) * Math.log(Math.max(value, LEAST)) / Math.log(LEAST);
  for (const [value, text] of [[1, "p-value 1"], [1e-6, "10⁻⁶"], [LEAST, "≤ 10⁻¹²"]])
    root.append(
      shape("line", { x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value), stroke: "var(--line)" }),
      label(LEFT - 5, y(value) + 4, text, "end"));
  p.forEach((value, i) => {
    if (value !== null)
      root.append(shape("circle", { cx: x(i + 0.5), cy: y(value), r: 2.5, fill: verdictPaint(verdict[i]) }));
  });
}

/** Draw an image: high values are dark, null is blank, `marked` pixels are red. */
function drawPixels(values, [rows, columns], [low, high], marked = [], text = "") {
  const root = shape("svg", { viewBox: `0 0 ${columns} ${rows}`, role: "img", "aria-label": text, "shape-rendering": "crispEdges" });
  const cell = (i, fill, opacity) => root.append(shape("rect", {
    x: i % columns, y: Math.floor(i / columns), width: 1, height: 1, fill, opacity,
  }));
  values.forEach((value, i) => {
    if (value === null) cell(i, "var(--blank)", 1);
    else if (value > low) cell(i, "var(--pixel)", clamp((value - low) / (high - low || 1), 0, 1).toFixed(2));
  });
  for (const i of marked) cell(i, "var(--alert)", 1);
  return root;
}

/** Draw predicted against true values, with the line on which they are equal. */
function drawScatter(place, { truth, answers }) {
  const all = [...truth, ...answers], low = Math.min(...all), high = Math.max(...all);
  const size = 300, from = 62, to = size - 24;
  const at = (value) => (value - low) / (high - low || 1) * (to - from);
  const root = shape("svg", { viewBox: `0 0 ${size} ${size}`, role: "img", "aria-label": `${truth.length} predicted against true values` },
    shape("path", { d: `M${from} ${to}H${size}M${from} ${to}V0`, stroke: "var(--line)", fill: "none" }),
    shape("path", { d: `M${from} ${to}L${to} ${from}`, stroke: "var(--quiet)", "stroke-dasharray": "4 4" }),
    ...truth.map((value, i) => shape("circle", { cx: from + at(value), cy: to - at(answers[i]), r: 3, fill: "var(--accent)", opacity: 0.5 })),
    label(from, to + 14, number(low, 3)), label(to, to + 14, number(high, 3), "end"), label((from + to) / 2, to + 16, "true value", "middle"),
    label(from - 4, to, number(low, 3), "end"), label(from - 4, from + 4, number(high, 3), "end"), label(from - 4, (from + to) / 2, "predicted", "end"));
  place.replaceChildren(root);
}

const CLASS_PAINTS = ["var(--positive)", "var(--negative)", "var(--nodes)", "var(--hidden-line)", "var(--alert)", "var(--quiet)"];

/** Draw the prediction against one column: single samples, their mean, and the thresholds of gates.
 *  Categories are points, and so is a missing value, null at the end of the grid. */
function drawResponse(one, [low, high]) {
  const { name, grid, categorical, mean, individual, thresholds } = one;
  const width = 300, height = 200, left = 46, right = 8, top = 18, bottom = 36;
  const known = grid.filter((value) => value !== null), gap = !categorical && known.length < grid.length;
  const first = known[0], last = known.at(-1), end = width - right - (gap ? 56 : 0);
  const slot = (end - left) / grid.length;
  const x = (value) => left + (end - left) * (value - first) / (last - first || 1);
  const at = (value, i) => (categorical ? left + (i + 0.5) * slot : value === null ? width - right - 24 : x(value));
  const y = (value) => height - bottom - (height - top - bottom) * (value - low) / (high - low || 1);
  const n = categorical ? 0 : known.length;  // points on the curve; the others stand alone
  const curve = (values, paint, size, opacity) => shape("path", {
    d: lineThrough(grid.slice(0, n).map((value, i) => [x(value), y(values[i])])), fill: "none", stroke: paint, "stroke-width": size, opacity,
  });
  const dots = (values, paint, r, opacity) => grid.slice(n).map((value, i) => shape("circle",
    { cx: at(value, n + i), cy: y(values[n + i]), r, fill: paint, opacity }));
  const line = (value) => shape("line", { x1: left, x2: width - right, y1: y(value), y2: y(value), stroke: "var(--line)" });
  const root = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Prediction against ${name}` },
    line(low), line(high), label(left - 5, y(low) + 4, number(low, 3), "end"), label(left - 5, y(high) + 4, number(high, 3), "end"));
  for (const [value, half, condition] of thresholds) {
    const from = Math.max(x(value - half), left), to = Math.min(x(value + half), end);
    root.append(
      shape("rect", { x: from, y: top, width: Math.max(to - from, 1), height: height - top - bottom, fill: "var(--hidden)", opacity: 0.7 }, shape("title", {}, condition)),
      shape("line", { x1: x(value), x2: x(value), y1: top, y2: height - bottom, stroke: "var(--hidden-line)", "stroke-dasharray": "4 3" }));
    if (thresholds.length <= 3) root.append(label(x(value), top - 5, number(value), "middle"));
  }
  individual.forEach((values) => root.append(curve(values, "var(--neutral)", 0.7, 0.6), ...dots(values, "var(--neutral)", 1.5, 0.6)));
  mean.forEach((values, i) => {
    const paint = CLASS_PAINTS[i % CLASS_PAINTS.length];
    root.append(curve(values, paint, 2.2, 1), ...dots(values, paint, 4, 1));
  });
  if (categorical) root.append(...categoryLabels(grid, at, slot, height - 20));
  else root.append(label(left, height - 20, number(first, 3)), label(end, height - 20, last === first ? "" : number(last, 3), "end"));
  if (gap) root.append(
    shape("line", { x1: end + 7, x2: end + 7, y1: top, y2: height - bottom, stroke: "var(--line)" }),
    label(width - right - 24, height - 20, "missing", "middle"));
  root.append(label((left + width - right) / 2, height - 4, name, "middle"));
  return root;
}

/** The names of categories below their points, as far as they fit; all of each is its tooltip. */
function categoryLabels(names, at, slot, y) {
  const letters = Math.max(Math.floor(slot / 6.5), 1);
  return names.map((name, i) => {
    const short = name.length > letters ? `${name.slice(0, Math.max(letters - 1, 1))}…` : name;
    const text = label(at(name, i), y, short, "middle");
    text.append(shape("title", {}, name));
    return text;
  });
}

function drawResponses(place, { range, inputs }) {
  const all = inputs.flatMap((one) => [...one.mean.flat(), ...one.individual.flat()]);
  const ends = range ?? [Math.min(...all), Math.max(...all)];
  place.replaceChildren(...inputs.map((one) => element("div", { class: "response chart" }, drawResponse(one, ends))));
}
