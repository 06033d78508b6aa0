"use strict";
// The slider over the events of growth: position i shows the network after i events.

const WHOLE = 14000, SLOWEST = 500, QUICKEST = 30;  // milliseconds, for all events and for each

class Player {
  /** `onmove(present, fresh, step)` gets the present edges, those just added, and the step. */
  constructor(onmove) {
    this.onmove = onmove;
    this.timer = null;
    const on = (id, move) => byId(id).addEventListener("click", () => { this.pause(); this.go(move()); });
    on("first", () => 0);
    on("back", () => this.at - 1);
    on("forward", () => this.at + 1);
    on("last", () => this.changes.length);
    byId("play").addEventListener("click", () => (this.timer ? this.pause() : this.play()));
    byId("events").addEventListener("input", (event) => { this.pause(); this.go(Number(event.target.value)); });
  }

  /** Show another model after its last event. */
  show(changes) {
    this.pause();
    this.changes = changes;
    this.present = new Set();
    this.at = 0;
    byId("player").hidden = changes.length === 0;
    byId("events").max = changes.length;
    this.go(changes.length);
  }

  go(to) {
    to = clamp(to, 0, this.changes.length);
    const onward = to === this.at + 1;
    for (; this.at < to; this.at++) this.exchange(this.changes[this.at][3], this.changes[this.at][4]);
    for (; this.at > to; this.at--) this.exchange(this.changes[this.at - 1][4], this.changes[this.at - 1][3]);
    const change = this.changes[this.at - 1];
    this.tell(change);
    this.onmove(this.present, onward || this.at < this.changes.length ? change?.[3] ?? [] : [], change?.[0] ?? 0);
  }

  exchange(added, removed) {
    removed.forEach((edge) => this.present.delete(edge));
    added.forEach((edge) => this.present.add(edge));
  }

  tell(change) {
    const slider = byId("events"), total = this.changes.length;
    slider.value = this.at;
    slider.setAttribute("aria-valuetext", change ? `event ${this.at}: ${change[2]}` : "before the first event");
    byId("moment").textContent = `event ${this.at} of ${total} · step ${change ? change[0] : 0} · ${this.present.size} edges`;
    byId("event").textContent = change ? change[2] : "inputs and outputs without edges";
    for (const [id, end] of [["first", 0], ["back", 0], ["forward", total], ["last", total]])
      setIdle(id, this.at === end);
  }

  /** Go to the last event that is not after a step. */
  goToStep(step) {
    this.pause();
    this.go(this.changes.filter((change) => change[0] <= step).length);
  }

  /** Go to the next (by = 1) or the previous (by = -1) step with an event. */
  turn(by) {
    const change = this.changes[by > 0 ? this.at : this.at - 1];
    if (change) this.goToStep(by > 0 ? change[0] : change[0] - 1);
  }

  play() {
    if (this.at === this.changes.length) this.go(0);
    const pause = calm() ? SLOWEST : clamp(WHOLE / this.changes.length, QUICKEST, SLOWEST);
    const stride = calm() ? Math.ceil(this.changes.length / (WHOLE / SLOWEST)) : 1;
    byId("play").textContent = "Pause";
    byId("event").setAttribute("aria-live", "off");
    this.timer = setInterval(() => {
      this.go(this.at + stride);
      if (this.at === this.changes.length) this.pause();
    }, pause);
  }

  pause() {
    clearInterval(this.timer);
    this.timer = null;
    byId("play").textContent = "Play";
    byId("event").setAttribute("aria-live", "polite");
  }
}
