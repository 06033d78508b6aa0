"use strict";
// The page shows one model after one event, and at most one node and one sample, at a time.

const shown = { model: 0, node: null };
const samples = data.samples ? new SamplePanel(() => { paint(); showDetails(); }, showModel) : null;
const view = new NetworkView(byId("network"), pickNode);
const panel = new NodePanel(pickNode);
let moveCursor = () => {};
let step = 0;
const player = new Player((present, fresh, at) => {
  step = at;
  view.setPresent(present, fresh);
  moveCursor(at);
});

function pickNode(i) {
  shown.node = i;
  view.pick(i);
  showDetails();
}

function showDetails() {
  panel.pick(shown.node, samples?.states(shown.model) ?? null);
  samples?.show(shown.model);
}

function paint() {
  view.paint(samples?.states(shown.model) ?? null, samples?.largest[shown.model], samples?.conflicted(shown.model), samples?.pixels());
}

function showModel(i) {
  shown.model = i;
  const model = data.models[i];
  byId("model").value = i;
  byId("model-summary").textContent = model.summary;
  document.querySelectorAll(".part").forEach((part, k) => { part.hidden = k !== i; });
  view.show(model);
  panel.show(model);
  paint();
  player.show(model.changes);
  pickNode(null);
  drawCharts();
}

function drawCharts() {
  moveCursor = drawGrowth(byId("growth"), data.models[shown.model], player);
  moveCursor(step);
  if (data.timeline) drawTimeline(byId("timeline"), data.timeline);
}

function drawLegends() {
  const line = (paint, dash) => shape("svg", { width: 26, height: 8, viewBox: "0 0 26 8" },
    shape("line", { x1: 0, x2: 26, y1: 4, y2: 4, stroke: paint, "stroke-width": 3, "stroke-dasharray": dash }));
  const key = (mark, text) => element("span", {}, mark, text);
  byId("legend").replaceChildren(
    key(line("var(--positive)", "none"), "positive weight"), key(line("var(--negative)", "none"), "negative weight"),
    key(line("var(--quiet)", "none"), "summed"), key(line("var(--quiet)", "6 4"), "modulating"),
    key(element("span", { class: "dot hidden-node" }), "modulatory node"));
  if (data.responses && data.responses.outputs.length > 1)
    byId("responses-legend").replaceChildren(...data.responses.outputs.map((name, i) => key(line(CLASS_PAINTS[i % CLASS_PAINTS.length], "none"), name)));
  if (!data.timeline) return;
  const square = (paint, opacity) => shape("svg", { width: 12, height: 12 }, shape("rect", { width: 12, height: 12, fill: paint, opacity }));
  byId("timeline-legend").replaceChildren(
    key(square("var(--accent)", 1), "stable model"), key(square("var(--accent)", 0.4), "adapting model"), key("▲ ", "model opened"), key("● ", "model becomes stable"),
    ...VERDICTS.filter((name) => data.timeline.verdict.includes(name)).map((name) => key(square(verdictPaint(name), 1), name)));
}

function drawOnce() {
  if (data.scatter) drawScatter(byId("scatter"), data.scatter);
  if (data.responses) drawResponses(byId("responses"), data.responses);
  for (const place of document.querySelectorAll(".importance")) {
    const values = data.models[Number(place.dataset.model)].importance;
    if (values) place.append(drawPixels(values, data.shape, [0, Math.max(...values)], [], "importance of each input"));
  }
}

function start() {
  initTheme();
  drawLegends();
  drawOnce();
  const models = byId("model");
  data.models.forEach(({ number }, i) => models.append(element("option", { value: i }, `${number}`)));
  byId("model-row").hidden = data.models.length === 1 && data.models[0].number === null;
  models.addEventListener("change", () => showModel(Number(models.value)));
  byId("zoom-in").addEventListener("click", () => view.zoom(1.25));
  byId("zoom-out").addEventListener("click", () => view.zoom(0.8));
  byId("fit").addEventListener("click", () => view.fit());
  document.addEventListener("themechange", () => { view.restyle(); paint(); });
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === width) return;  // a phone's address bar changes the height alone
    width = innerWidth;
    view.fit();
    drawCharts();
  });
  showModel(0);
}

start();
