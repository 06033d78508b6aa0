"use strict";
// The network of a model: inputs on the left, outputs on the right, edges that are new marked.

const MOST_EDGES = 1500, MANY_NODES = 40;

/** The column of each node: inputs first, each hidden node after its sources, outputs last. */
function columnsOf({ nodes, edges }) {
  const column = new Map(nodes.map((node) => [node.id, node.kind === "input" ? 0 : 1]));
  for (let i = 0, changed = true; changed && i < nodes.length; i++) {
    changed = false;
    for (const [source, target] of edges) {
      if (!column.has(source) || column.get(target) > column.get(source)) continue;
      column.set(target, column.get(source) + 1);
      changed = true;
    }
  }
  const last = Math.max(1, ...column.values());
  for (const node of nodes) if (node.kind === "output") column.set(node.id, last);
  return column;
}

/** The space beside the network for the names of inputs and outputs. */
const sideOf = (width) => Math.min(120, width / 4);

/** Where each node is drawn. */
function placesOf(network, width, height) {
  const column = columnsOf(network), columns = new Map();
  for (const node of network.nodes) {
    const at = column.get(node.id);
    columns.set(at, [...(columns.get(at) ?? []), node]);
  }
  const side = sideOf(width), last = Math.max(...columns.keys());
  const places = new Map();
  for (const [at, nodes] of columns) nodes.sort((a, b) => a.id - b.id).forEach((node, i) => {
    // Nodes of inner columns are moved a little, so that edges do not hide behind them.
    const lift = at > 0 && at < last ? (at % 2 ? -0.16 : 0.16) : 0;
    places.set(node.id, [side + (width - 2 * side) * at / last, height * (i + 0.5 + lift) / nodes.length]);
  });
  return places;
}

const shortened = (text, letters) => (text.length > letters ? `${text.slice(0, letters - 1)}…` : text);

class Drawing {
  constructor(place, note, legend) {
    this.place = place;
    this.note = note;
    this.legend = legend;
    this.clear();
  }

  clear() {
    this.key = "";
    this.known = null;  // the edges that were drawn before, of the same model
    this.place.replaceChildren();
    this.legend.hidden = true;
    setText(this.note, "");
  }

  /** Draw the network of a model; `key` says which one it is. */
  show(key, network) {
    if (!network.edges.length) {
      this.clear();
      setText(this.note, network.nodes.length ? "No edge has grown yet." : "This model has no network: it knows its task by the distribution of the inputs.");
      return;
    }
    const width = Math.max(this.place.clientWidth, 240), text = JSON.stringify([width, network]);
    if (this.key === key && this.text === text) return;
    const before = this.key === key ? this.known : null;
    [this.key, this.text] = [key, text];
    const edges = [...network.edges].sort((a, b) => Math.abs(b[2]) - Math.abs(a[2])).slice(0, MOST_EDGES);
    this.known = new Set(network.edges.map(([source, target, , term]) => `${source} ${target} ${term}`));
    this.draw({ nodes: network.nodes, edges }, width, before);
    setText(this.note, edges.length < network.edges.length ? `The ${count(edges.length)} strongest of ${count(network.edges.length)} edges are drawn.` : "");
  }

  draw(network, width, before) {
    const inputs = network.nodes.filter((node) => node.kind === "input").length;
    const height = clamp(34 * Math.max(inputs, network.nodes.length - inputs, 4), 200, 480);
    const places = placesOf(network, width, height), scale = quantile(network.edges.map(([, , weight]) => weight), 0.95);
    const root = svg(width, height, `Network of ${plural(network.nodes.length, "node")} and ${plural(network.edges.length, "edge")}`);
    for (const [source, target, weight, term] of [...network.edges].reverse()) {
      if (!places.has(source) || !places.has(target)) continue;
      const [[x1, y1], [x2, y2]] = [places.get(source), places.get(target)];
      const strength = Math.sqrt(Math.min(Math.abs(weight) / scale, 1)), bend = term ? 14 : -4;
      const fresh = before !== null && !before.has(`${source} ${target} ${term}`);
      root.append(shape("path", {
        d: `M${x1.toFixed(1)} ${y1.toFixed(1)}Q${((x1 + x2) / 2).toFixed(1)} ${((y1 + y2) / 2 + bend).toFixed(1)} ${x2.toFixed(1)} ${y2.toFixed(1)}`,
        fill: "none", stroke: weight < 0 ? "var(--negative)" : "var(--positive)", "stroke-width": (1 + 4 * strength).toFixed(1),
        opacity: (0.35 + 0.55 * strength).toFixed(2), "stroke-dasharray": term ? "6 4" : null, class: fresh ? "edge fresh" : "edge",
      }));
    }
    for (const node of network.nodes) root.append(...this.node(node, places.get(node.id), inputs, Math.floor(sideOf(width) / 6.5) - 2));
    this.place.replaceChildren(root);
    this.legend.hidden = false;
  }

  node({ kind, name }, [x, y], inputs, letters) {
    const mark = kind === "input"
      ? shape("rect", { x: x - 6, y: y - 6, width: 12, height: 12, rx: 2, fill: "var(--input)", stroke: "var(--quiet)", "stroke-width": 1.5 })
      : shape("circle", { cx: x, cy: y, r: kind === "output" ? 9 : 7, fill: `var(--${kind})`, stroke: kind === "output" ? "var(--ink)" : "var(--hidden-line)", "stroke-width": 1.5 });
    mark.append(shape("title", {}, name));
    if (kind === "hidden" || (kind === "input" && inputs > MANY_NODES)) return [mark];
    const text = kind === "input" ? label(x - 11, y + 4, shortened(name, letters), "end") : label(x + 13, y + 4, shortened(name, letters));
    text.append(shape("title", {}, name));
    return [mark, text];
  }
}
