"use strict";
// Samples: the selected one is shown by its states in the network and, for PREVAL, its conflicts.

class SamplePanel {
  constructor(onpick, onmodel) {
    this.onpick = onpick;
    this.onmodel = onmodel;
    this.select = byId("sample");
    const { rows, truth, answers } = data.samples;
    const right = (i) => (!truth ? "" : data.samples.sure === null ? ` (true ${truth[i]})` : truth[i] === answers[i] ? "" : " ✗");
    this.select.append(element("option", { value: -1 }, "none (show weights)"),
      ...rows.map((row, i) => element("option", { value: i }, `row ${row}: ${answers[i]}${right(i)}`)));
    this.select.addEventListener("change", () => this.go(Number(this.select.value)));
    byId("sample-back").addEventListener("click", () => this.go(this.at - 1));
    byId("sample-forward").addEventListener("click", () => this.go(this.at + 1));
    byId("sample-card").hidden = false;
    this.at = -1;
    // The largest |state| of each node over all samples gets the full colour.
    this.largest = data.samples.states.map((rows) =>
      rows[0].map((_, node) => Math.max(...rows.map((row) => Math.abs(row[node] ?? 0)))));
  }

  go(to) {
    this.at = clamp(to, -1, data.samples.rows.length - 1);
    this.select.value = this.at;
    this.onpick(this.at);
  }

  states(model) { return this.at < 0 ? null : data.samples.states[model][this.at]; }
  pixels() { return this.at < 0 ? null : data.samples.pixels?.[this.at] ?? null; }
  conflicted(model) { return this.at < 0 ? [] : data.samples.views?.[model].nodes?.[this.at] ?? []; }

  /** Show the selected sample as one model sees it. */
  show(model) {
    setIdle("sample-back", this.at < 0);
    setIdle("sample-forward", this.at === data.samples.rows.length - 1);
    const i = this.at;
    byId("sample-view").replaceChildren(...(i < 0
      ? [element("p", { class: "quiet small" }, "Select a sample to colour nodes by their states and edges by weight times state.")]
      : [this.answer(i), this.pictures(i, model), this.contributions(i), this.routing(i, model), this.conflicts(i, model)].filter(Boolean)));
  }

  answer(i) {
    const { truth, answers, sure } = data.samples;
    const wrong = truth && sure && truth[i] !== answers[i];
    return element("p", { class: "answer" }, "Predicted ", element("b", { class: wrong ? "wrong" : "" }, answers[i]),
      sure ? ` (${Math.round(100 * sure[i])} %)` : "", truth ? element("span", { class: "quiet" }, ` · true: ${truth[i]}`) : "");
  }

  /** Bars of what contributes to the prediction; they add up to it. */
  contributions(i) {
    const found = data.samples.contributions?.[i];
    if (!found) return null;
    const most = Math.max(...found.bars.map(([, size]) => Math.abs(size)), 1e-300);
    const signed = (size) => (size > 0 ? "+" : "") + number(size, 3);
    return element("table", { class: "bars contributions" },
      element("caption", { class: "quiet small" }, `${found.output}: ${number(found.total)} = ${number(found.bias)} (bias) + contributions`),
      element("tbody", {}, ...found.bars.map(([name, size]) => element("tr", {},
        element("th", { scope: "row" }, name),
        element("td", { class: "bar" }, element("span", { class: size < 0 ? "minus" : "plus", style: `--width: ${Math.abs(size) / most}` })),
        element("td", {}, signed(size))))));
  }

  pictures(i, model) {
    const { pixels, range, views } = data.samples;
    if (!pixels) return null;
    const figure = (caption, image) => element("figure", {}, image, element("figcaption", {}, caption));
    const picture = (values, marked, text) => drawPixels(values, data.shape, range, marked, text);
    const found = [figure("sample", picture(pixels[i], [], "sample"))];
    const view = views?.[model];
    if (view?.predicted) {
      const faint = pixels[i].map((value) => range[0] + (value - range[0]) / 3);
      found.push(figure("predicted by L1", picture(view.predicted[i], [], "predicted by L1")),
        figure(`conflicts: ${view.inputs[i].length}`, picture(faint, view.inputs[i], "conflicts")));
    }
    return element("div", { class: "pictures" }, ...found);
  }

  routing(i, model) {
    const { route, novelty, meaning, known, views } = data.samples;
    if (!route) return null;
    const scores = views.map((view, m) => [data.models[m].number, view.score?.[i] ?? null]);
    const most = Math.max(...scores.map(([, score]) => score ?? 0)) || 1;
    const text = `Model ${route[i]} predicts` + (novelty ? `; novelty ${number(novelty[i], 3)}, ${known[i] ? "known" : "unknown to all models"}` : "");
    return element("div", {}, element("p", {}, text), novelty ? element("p", { class: "quiet small" }, meaning) : null,
      element("table", { class: "bars" }, element("caption", { class: "quiet small" }, "Scores; the model with the lowest score predicts."),
        element("tbody", {}, ...scores.map(([name, score], m) => element("tr", {},
          element("th", { scope: "row" }, this.modelName(m, name === route[i], m === model)),
          element("td", { class: "bar" }, score === null ? "not calibrated" : element("span", { style: `--width: ${score / most}` })),
          element("td", {}, number(score, 3)))))));
  }

  modelName(m, answers, here) {
    const text = `model ${data.models[m].number}${answers ? " ✓" : ""}`;
    if (here) return element("span", { class: "shown", tabindex: -1 }, `${text} (shown)`);
    const follow = () => { this.onmodel(m); byId("sample-view").querySelector(".shown").focus(); };
    return element("button", { type: "button", class: "link", onclick: follow }, text);
  }

  conflicts(i, model) {
    const view = data.samples.views?.[model];
    if (!view || view.inputs === null || data.shape) return null;
    const rows = view.inputs[i].map((input, k) => element("tr", {},
      element("td", {}, data.names[input]), element("td", {}, number(view.given[i][k], 3)), element("td", {}, number(view.predicted[i][k], 3))));
    if (!rows.length) return element("p", { class: "quiet small" }, `No input conflicts with the predictions of model ${data.models[model].number}.`);
    return element("div", { class: "list", tabindex: 0, role: "region", "aria-label": "Conflicts" }, element("table", {},
      element("thead", {}, element("tr", {}, ...["conflicting input", "value", "predicted"].map((name) => element("th", { scope: "col" }, name)))),
      element("tbody", {}, ...rows)));
  }
}
