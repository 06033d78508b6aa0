"use strict";
// The list of streams. Its links keep the focus while their numbers change.

const count = (value) => value.toLocaleString("en");
const plural = (value, word) => `${count(value)} ${word}${value === 1 ? "" : "s"}`;
const clock = (seconds) => new Date(1000 * seconds).toLocaleTimeString("en-GB");

/** Change a text only where it differs, so that screen readers and selections are left alone. */
function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** When and where a date was: the time alone today, otherwise with the day. */
function moment(seconds) {
  const day = new Date(1000 * seconds);
  const today = day.toDateString() === new Date().toDateString();
  return today ? clock(seconds) : `${day.toLocaleDateString("en-GB")} ${clock(seconds)}`;
}

/** What the list says of the last alarm of a stream. */
function lastAlarm(stream) {
  const alarm = stream.recent_events.findLast((event) => event.alarm);
  if (alarm) return `alarm at row ${count(alarm.row)}, ${moment(alarm.at)}`;
  return stream.events > stream.recent_events.length ? "no alarm lately" : "no alarm";
}

class StreamList {
  constructor(place) {
    this.place = place;
    this.items = new Map();
    place.addEventListener("keydown", (event) => this.move(event));
  }

  show(streams, chosen) {
    const names = streams.map((stream) => stream.name);
    for (const [name, item] of this.items)
      if (!names.includes(name)) { item.row.remove(); this.items.delete(name); }
    streams.forEach((stream, i) => {
      const item = this.items.get(stream.name) ?? this.add(stream.name);
      if (this.place.children[i] !== item.row) this.place.insertBefore(item.row, this.place.children[i] ?? null);
      this.fill(item, stream, stream.name === chosen);
    });
  }

  add(name) {
    const part = (kind) => element("span", { class: kind });
    const item = { kind: part("quiet"), size: part("small"), models: part("small"), alarm: part("small") };
    item.link = element("a", { href: `#${encodeURIComponent(name)}` },
      element("span", { class: "stream-name" }, name), " ", item.kind, " ", item.size, " ", item.models, " ", item.alarm);
    item.row = element("li", {}, item.link);
    this.items.set(name, item);
    return item;
  }

  fill(item, stream, isChosen) {
    setText(item.kind, stream.kind);
    setText(item.size, `${plural(stream.samples, "row")}, ${number(stream.rate, 3)} per second`);
    setText(item.models, `${plural(stream.models, "model")}, ${count(stream.pending)} pending`);
    setText(item.alarm, lastAlarm(stream));
    item.alarm.classList.toggle("alarm", stream.recent_events.some((event) => event.alarm));
    if (isChosen) item.link.setAttribute("aria-current", "true");
    else item.link.removeAttribute("aria-current");
  }

  /** Arrow keys, Home and End go through the list. */
  move(event) {
    const links = [...this.place.querySelectorAll("a")], at = links.indexOf(document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: links.length - 1 }[event.key];
    if (!isPlain(event) || to === undefined) return;
    links[clamp(to, 0, links.length - 1)].focus();
    event.preventDefault();
  }
}
