"use strict";
// The list of nodes, and the details of the selected node.

const KINDS = { input: "input", hidden: "modulatory node", output: "output" };

/** Whether a node was removed during growth. */
const isGone = (node) => node.kind === "hidden" && !node.equation;

/** The nodes in the order of the list: outputs, hidden nodes, removed nodes, inputs. */
function nodeOrder(model) {
  const order = ["output", "hidden", "input"];
  const rank = (node) => order.indexOf(node.kind) + (isGone(node) ? 0.5 : 0);
  const rows = model.nodes.map((node, i) => [rank(node), i]).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  return rows.map(([, i]) => i);
}

class NodePanel {
  constructor(onpick) {
    this.onpick = onpick;
    this.list = byId("nodes");
    byId("node-filter").addEventListener("input", () => this.filter());
    this.list.addEventListener("keydown", (event) => this.move(event));
  }

  show(model) {
    this.model = model;
    this.list.replaceChildren(...nodeOrder(model).map((i) => this.entry(i)));
    byId("node-filter").value = "";
    this.filter();
  }

  entry(i) {
    const node = this.model.nodes[i], { label, name, kind } = node;
    const dot = element("span", { class: `dot ${kind === "hidden" ? "hidden-node" : kind}`, "aria-hidden": "true" });
    const text = kind === "output" && label !== name ? `${label} (${name})` : label + (isGone(node) ? " (removed)" : "");
    return element("li", {}, element("button",
      { type: "button", "data-node": i, tabindex: -1, onclick: () => this.onpick(i) }, dot, text));
  }

  entries() { return [...this.list.querySelectorAll("li:not([hidden]) button")]; }

  filter() {
    const wanted = byId("node-filter").value.trim().toLowerCase();
    for (const item of this.list.children) item.hidden = !item.textContent.toLowerCase().includes(wanted);
    this.entries().forEach((button, i) => { button.tabIndex = i ? -1 : 0; });
  }

  /** Arrow keys move along the list, which is one stop for Tab; Escape deselects. */
  move(event) {
    if (!isPlain(event)) return;
    if (event.key === "Escape") this.onpick(null);
    const entries = this.entries(), at = entries.indexOf(document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: entries.length - 1 }[event.key];
    if (to === undefined || at < 0) return;
    event.preventDefault();
    const next = entries[clamp(to, 0, entries.length - 1)];
    entries.forEach((button) => { button.tabIndex = button === next ? 0 : -1; });
    next.focus();
  }

  /** Show a node; `states` belong to the selected sample, if there is one. */
  pick(i, states) {
    for (const button of this.list.querySelectorAll("button"))
      button.setAttribute("aria-current", String(Number(button.dataset.node) === i));
    if (i === null) {
      byId("node-title").textContent = "Node";
      byId("node-view").replaceChildren(element("p", { class: "quiet" }, "Select a node in the network or in the list."));
      return;
    }
    const { label, name, kind, equation } = this.model.nodes[i];
    const state = states && states[i] !== null ? ` · state ${number(states[i])}` : "";
    byId("node-title").textContent = `Node ${label}`;
    byId("node-view").replaceChildren(...[
      element("p", { class: "quiet small" }, `${KINDS[kind]} ${name}${state}`),
      equation ? element("code", { class: "equation", tabindex: 0, role: "region", "aria-label": "Equation" }, equation)
        : element("p", { class: "small" }, kind === "input" ? "This is an input of the network." : "This node was removed during growth."),
      this.table("Incoming edges", "from", this.model.edges.filter((edge) => edge[1] === i), 0, states),
      this.table("Outgoing edges", "to", this.model.edges.filter((edge) => edge[0] === i), 1, states),
    ].filter(Boolean));
  }

  table(title, heading, edges, side, states) {
    const kept = edges.filter((edge) => edge[3] !== null).sort((a, b) => Math.abs(b[3]) - Math.abs(a[3]));
    if (!kept.length) return null;
    const flows = states ? [element("th", { scope: "col" }, "weight·state")] : [];
    return element("div", { class: "list", tabindex: 0, role: "region", "aria-label": title },
      element("table", {},
        element("thead", {}, element("tr", {},
          element("th", { scope: "col" }, `${heading} (${kept.length})`), element("th", { scope: "col" }, "role"),
          element("th", { scope: "col" }, "weight"), ...flows)),
        element("tbody", {}, ...kept.map((edge) => this.line(edge, side, states)))));
  }

  line([source, target, term, weight], side, states) {
    const other = side ? target : source;
    const follow = () => { this.onpick(other); byId("node-title").focus(); };  // the link no longer exists
    const sign = (value) => element("td", { class: value < 0 ? "negative" : "positive" }, number(value));
    return element("tr", {},
      element("td", {}, element("button", { type: "button", class: "link", onclick: follow }, this.model.nodes[other].label)),
      element("td", {}, term ? "modulating" : "summed"), sign(weight),
      ...(states ? [sign(weight * (states[source] ?? 0))] : []));
  }
}
