"use strict";
// The events of a stream, newest first, each with its explanation.

const MOST_EVENTS = 200;
const KINDS = ["opened", "L0 stable", "stable", "chosen", "merged", "removed", "refused"];
const MEANING = {
  opened: "opened", "L0 stable": "has learned to predict; its range is being measured", stable: "is complete",
  chosen: "was recognized again", merged: "was merged", removed: "was removed",
};
const CAUSES = {
  "new inputs": "The inputs are unlike any seen before.",
  "shifted inputs": "The inputs have moved, and the known rule still holds for them.",
  "new rule": "The inputs are as usual, and their labels follow another rule.",
};

const spread = (mean, deviation) => `${number(mean, 3)} ± ${number(deviation, 2)}`;

function sentence(event) {
  if (event.kind === "refused") return `Rows were refused: ${event.text}`;
  return `Model ${event.model} ${MEANING[event.kind] ?? event.kind}`;
}

/** The inputs that changed: what is usual, and what was found. */
function inputTable(inputs) {
  const head = element("tr", {}, ...["input", "usual", "found"].map((text) => element("th", { scope: "col" }, text)));
  const rows = inputs.map((one) => element("tr", {},
    element("th", { scope: "row" }, one.name),
    element("td", {}, spread(one.usual, one.usual_spread)),
    element("td", {}, element("span", { "aria-hidden": "true" }, "→ "), spread(one.found, one.found_spread))));
  return element("table", { class: "plain inputs" }, element("thead", {}, head), element("tbody", {}, ...rows));
}

function eventItem(event) {
  const when = `row ${count(event.row)}${event.at ? `, ${moment(event.at)}` : ""}`;
  return element("li", { class: event.alarm ? "event-item is-alarm" : "event-item", "data-number": event.number },
    element("p", {}, event.alarm ? element("b", { class: "alarm" }, "Alarm: ") : null, sentence(event), " ", element("span", { class: "quiet small" }, when)),
    event.cause ? element("p", { class: "cause" }, CAUSES[event.cause] ?? event.cause) : null,
    event.inputs?.length ? inputTable(event.inputs) : null);
}

/** Follows the events of one stream: those so far, and those to come as the server sends them. */
class EventFeed {
  constructor(onnews) {
    this.onnews = onnews;
    this.clear();
  }

  get alarms() { return this.events.filter((event) => event.alarm); }

  clear() {
    this.source?.close();
    this.source = null;
    this.name = null;
    this.events = [];
  }

  /** Read the last events of a stream, then listen. `total` is how many it has. */
  async follow(name, total) {
    if (this.name !== name || total < this.next) { this.clear(); this.name = name; }
    const after = Math.max(this.next, total - MOST_EVENTS) - 1;
    if (this.next < total) {
      const { events } = await ask(`${addressOf(name)}/events?after=${after}`);
      if (this.name === name) this.take(events);
    }
    if (this.name === name && (!this.source || this.source.readyState === EventSource.CLOSED)) this.listen();
  }

  get next() { return this.events.length ? this.events.at(-1).number + 1 : 0; }

  take(events) {
    const fresh = events.filter((event) => event.number >= this.next);
    this.events = [...this.events, ...fresh].slice(-MOST_EVENTS);
    return fresh.length > 0;
  }

  listen() {
    this.source = new EventSource(`${addressOf(this.name)}/events?after=${this.next - 1}`);
    const heard = (message) => { if (this.take([JSON.parse(message.data)])) this.onnews(); };
    for (const kind of KINDS) this.source.addEventListener(kind, heard);
  }

  pause() {
    this.source?.close();
    this.source = null;
  }
}

/** Show events in a list, leaving alone those that are there. */
function showEvents(place, events, alarmsOnly) {
  const wanted = events.filter((event) => event.alarm || !alarmsOnly).reverse();
  const there = new Map([...place.children].map((item) => [Number(item.dataset.number), item]));
  const items = wanted.map((event) => there.get(event.number) ?? eventItem(event));
  if (items.length !== place.children.length || items.some((item, i) => place.children[i] !== item)) place.replaceChildren(...items);
}
