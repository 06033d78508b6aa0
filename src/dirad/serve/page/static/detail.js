"use strict";
// One stream: its numbers, charts, events, models and files.

const MODEL_FILE = ["dirad", "Model file"];
const EXPORTS = [["c", "C"], ["onnx", "ONNX"], ["python", "Python"], MODEL_FILE];
/** The exports that there are of a stream: only classifiers have programs. */
const exportsOf = (stream) => stream.kind === "classifier" ? EXPORTS : [MODEL_FILE];
const NEWEST = "newest";
const counted = (value, word) => [count(value), value === 1 ? word : `${word}s`];

class Detail {
  constructor() {
    this.feed = new EventFeed(() => this.onnews());
    this.drawing = new Drawing(byId("drawing"), byId("drawing-note"), byId("drawing-legend"));
    this.name = null;
    this.onnews = () => {};
    byId("alarms-only").addEventListener("change", () => this.showEvents());
    byId("model").addEventListener("change", () => this.onnews());
    new ResizeObserver(() => this.redraw()).observe(byId("scores"));
  }

  /** Ask the server for everything about a stream, and show it. */
  async show(stream) {
    if (stream.name !== this.name) this.begin(stream);
    this.stream = stream;
    const address = addressOf(stream.name);
    const [history, { models }] = await Promise.all([
      ask(`${address}/history`), ask(`${address}/models`), this.feed.follow(stream.name, stream.events),
    ]);
    if (stream.name !== this.name) return;  // another one was chosen meanwhile
    this.history = history;
    this.showFacts();
    this.redraw();
    this.showEvents();
    await this.showModel(models);
  }

  /** Forget the stream that was shown. */
  begin(stream) {
    this.name = stream.name;
    this.history = null;
    this.feed.clear();
    this.drawing.clear();
    for (const id of ["scores", "timeline", "events", "timeline-legend", "facts"]) byId(id).replaceChildren();
    byId("scores-card").hidden = stream.kind === "detector";
    byId("model").replaceChildren(element("option", { value: NEWEST }, "the newest"));
    byId("detail-kind").textContent = `${stream.kind} of ${plural(stream.columns.length, "column")}`;
    byId("detail-title").textContent = stream.name;
    const address = addressOf(stream.name);
    byId("report").href = `${address}/report`;
    byId("exports").replaceChildren(...exportsOf(stream).map(([to, name]) =>
      element("a", { class: "button", href: `${address}/export?to=${to}`, download: "" }, name)));
  }

  /** How many alarms there were: the page has only the last events. */
  alarmFact() {
    const [n, word] = counted(this.feed.alarms.length, "alarm");
    return [n, this.stream.events > MOST_EVENTS ? `${word} in the last ${MOST_EVENTS} events` : word];
  }

  showFacts() {
    const { stream, history } = this, last = history.scores.at(-1);
    const facts = [
      [count(stream.samples), "rows"], [number(stream.rate, 3), "rows per second"], [count(stream.pending), "rows to be learned"],
      [last ? number(last.mean, 3) : "–", `latest ${history.measure}`], counted(stream.models, "model"), this.alarmFact(),
    ];
    if (stream.kind === "detector") facts.splice(3, 1);
    if (stream.refused) facts.push([count(stream.refused), "rows refused"]);
    const place = byId("facts");
    if (place.children.length !== facts.length)
      place.replaceChildren(...facts.map(() => element("div", {}, element("dd"), element("dt"))));
    facts.forEach((texts, i) => texts.forEach((text, k) => setText(place.children[i].children[k], text)));
  }

  redraw() {
    if (!this.history) return;
    const { alarms } = this.feed, { history, stream } = this;
    setText(byId("scores-title"), history.measure === "accuracy" ? "Accuracy over time" : "Absolute error over time");
    drawScores(byId("scores"), history, stream.samples, alarms);
    drawTimeline(byId("timeline"), history.timeline, alarms);
    drawVerdictLegend(byId("timeline-legend"), history.timeline, alarms);
  }

  showEvents() {
    const only = byId("alarms-only").checked;
    showEvents(byId("events"), this.feed.events, only);
    const none = !byId("events").children.length;
    byId("events-box").hidden = none;
    byId("no-events").hidden = !none;
    setText(byId("no-events"), only ? "No alarm so far." : "No event so far.");
    const alarm = this.feed.alarms.at(-1);
    setText(byId("said"), alarm ? `Alarm in ${this.name} at row ${count(alarm.row)}` : "");
  }

  async showModel(models) {
    byId("files").hidden = byId("network-card").hidden = !models.length;
    if (!models.length) return;
    const choice = byId("model"), numbers = models.map((model) => String(model.number));
    const old = choice.value;
    [...choice.options].filter((option) => option.value !== NEWEST && !numbers.includes(option.value)).forEach((option) => option.remove());
    for (const value of numbers)
      if (![...choice.options].some((option) => option.value === value)) choice.append(element("option", { value }, `model ${value}`));
    choice.value = [...choice.options].some((option) => option.value === old) ? old : NEWEST;
    const model = choice.value === NEWEST ? models.at(-1) : models.find((one) => String(one.number) === choice.value);
    const classes = model.classes?.length ? `; classes ${model.classes.map(String).join(", ")}` : "";
    setText(byId("model-facts"), `Model ${model.number}, ${model.phase === "stable" ? "complete" : "learning"}: ${plural(model.edges, "edge")}, ${plural(model.hidden, "hidden node")}${classes}`);
    const name = this.name;
    const found = await ask(`${addressOf(name)}/models?networks=true&number=${model.number}`);
    if (name === this.name && found.models.length) this.drawing.show(`${name} ${model.number}`, found.models[0].network);
  }

  close() {
    this.feed.clear();
    this.name = null;
    this.history = null;
  }
}
