"use strict";
// The network, drawn by cytoscape.js at the positions that the data contains.

const NODE_SIZE = { input: 20, hidden: 34, output: 40 };
const FONT_SIZE = { input: 13, hidden: 11, output: 17 };
const MANY_EDGES = 80, MANY_INPUTS = 60, MARGIN = 20;

/** Control points relative to the straight line between the ends, in cytoscape's format. */
function bend([x0, y0], [x1, y1], points) {
  const dx = x1 - x0, dy = y1 - y0, square = dx * dx + dy * dy || 1, length = Math.sqrt(square);
  const weights = [], distances = [];
  for (const [x, y] of points) {
    weights.push((((x - x0) * dx + (y - y0) * dy) / square).toFixed(4));
    distances.push((((y - y0) * dx - (x - x0) * dy) / length).toFixed(2));
  }
  return { weights: weights.join(" "), distances: distances.join(" ") };
}

/** The curve of an edge: into the left side of a node or, if it modulates, from above or below. */
function course(from, to, term, way) {
  const stops = [from, ...way, to];
  // Removed nodes may be in the same column as their targets: curves there need some width as well.
  const reach = Math.max(0.33 * (to[0] - from[0]) / (stops.length - 1), 40);
  const points = way.flatMap(([x, y]) => [[x - reach, y], [x + reach, y]]);
  const start = [from[0] + reach, from[1]];
  if (term === 0)
    return { ...bend(from, to, [start, ...points, [to[0] - reach, to[1]]]), end: "270deg" };
  const last = stops.at(-2), side = last[1] <= to[1] ? -1 : 1;
  const lift = Math.max(0.45 * Math.abs(to[1] - last[1]), 46);
  const curve = bend(from, to, [start, ...points, [to[0], to[1] + side * lift]]);
  return { ...curve, end: side < 0 ? "0deg" : "180deg" };
}

/** The frame of the image whose pixels the inputs are; it shows the selected sample. */
function frame() {
  if (!data.shape) return [];
  const [rows, columns] = data.shape;
  return [{
    group: "nodes", data: { id: "frame", wide: columns * data.pixel, high: rows * data.pixel },
    position: { x: (columns - 1) / 2 * data.pixel, y: 0 }, selectable: false,
  }];
}

/** An image as a data URL, which the canvas can show. */
function imageOf(values, [low, high]) {
  const [rows, columns] = data.shape, cell = 12;
  const canvas = element("canvas", { width: columns * cell, height: rows * cell });
  const pen = canvas.getContext("2d");
  pen.fillStyle = colour("pixel");
  values.forEach((value, i) => {
    pen.globalAlpha = clamp((value - low) / (high - low || 1), 0, 1);
    pen.fillRect(i % columns * cell, Math.floor(i / columns) * cell, cell, cell);
  });
  return canvas.toDataURL();
}

function networkStyle() {
  const line = {
    "curve-style": "unbundled-bezier", "edge-distances": "node-position",
    "control-point-weights": (edge) => edge.data("weights"),
    "control-point-distances": (edge) => edge.data("distances"),
    "target-endpoint": (edge) => edge.data("end"),
    width: "data(width)", opacity: "data(opacity)",
    "line-color": "data(paint)", "target-arrow-color": "data(paint)",
    "target-arrow-shape": "triangle", "arrow-scale": 0.8, "z-index": "data(z)",
  };
  return [
    { selector: "#frame", style: {
      shape: "rectangle", width: "data(wide)", height: "data(high)", "background-opacity": 0, events: "no",
      "border-width": 1, "border-color": colour("line"), "z-index-compare": "manual", "z-index": 0,
      "background-fit": "cover", "background-image-opacity": 0.45, "background-image": (node) => node.data("image") || "none",
    } },
    { selector: "node[kind]", style: {
      width: "data(size)", height: "data(size)", "background-color": "data(paint)",
      "border-width": 1.5, "border-color": colour("quiet"), label: "data(label)",
      color: colour("ink"), "font-size": "data(font)", "text-valign": "center", "min-zoomed-font-size": 7,
      "text-outline-color": colour("card"), "text-outline-width": 0, "z-index-compare": "manual", "z-index": 50,
      "transition-property": "none",
    } },
    { selector: "node[kind='input']", style: { shape: "round-rectangle", "text-halign": "left", "text-margin-x": -5 } },
    { selector: "node[kind='hidden']", style: { "border-color": colour("hidden-line") } },
    { selector: "node[kind='output']", style: { "border-color": colour("ink"), "border-width": 2, "text-halign": "right", "text-margin-x": 6 } },
    { selector: "node.idle", style: { opacity: 0.3 } },
    { selector: "node.conflicted", style: { "border-color": colour("alert"), "border-width": 5 } },
    { selector: "edge", style: line },
    { selector: "edge[term=1]", style: { "line-style": "dashed", "line-dash-pattern": [7, 4], "target-arrow-shape": "diamond", "arrow-scale": 1.1 } },
    { selector: ".absent", style: { display: "none" } },
    { selector: "edge.fresh", style: { opacity: 1, "line-color": colour("alert"), "target-arrow-color": colour("alert"), width: 5 } },
    { selector: ".far", style: { opacity: 0.08 } },
    { selector: "edge.near", style: { opacity: 1 } },
    { selector: "node.picked", style: { "border-color": colour("accent"), "border-width": 5 } },
  ];
}

/** Draws one model at a time; `onpick` gets the number of the selected node, or null. */
class NetworkView {
  constructor(place, onpick) {
    this.place = place;
    this.onpick = onpick;
    this.picked = null;
    this.cy = cytoscape({
      container: place, style: networkStyle(), layout: { name: "preset" }, elements: [],
      autoungrabify: true, boxSelectionEnabled: false, selectionType: "single",
      minZoom: 0.05, maxZoom: 4, userZoomingEnabled: false,
    });
    this.cy.on("tap", "node", (event) => onpick(Number(event.target.id().slice(1))));
    this.cy.on("tap", (event) => { if (event.target === this.cy) onpick(null); });
    this.initKeys();
  }

  initKeys() {
    const pan = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
    // Registered after cytoscape's listener, which removes the focus when the mouse is pressed.
    this.place.addEventListener("mousedown", () => this.place.focus({ preventScroll: true }));
    this.place.addEventListener("focus", () => this.cy.userZoomingEnabled(true));
    this.place.addEventListener("blur", () => this.cy.userZoomingEnabled(false));
    this.place.addEventListener("keydown", (event) => {
      if (!isPlain(event)) return;
      if (event.key in pan) this.cy.panBy({ x: pan[event.key][0], y: pan[event.key][1] });
      else if (event.key === "+" || event.key === "=") this.zoom(1.25);
      else if (event.key === "-") this.zoom(0.8);
      else if (event.key === "0") this.fit();
      else if (event.key.toLowerCase() === "n") this.pickNext(1);
      else if (event.key.toLowerCase() === "p") this.pickNext(-1);
      else if (event.key === "Escape") this.onpick(null);
      else return;
      event.preventDefault();
    });
  }

  /** Select the next or the previous node of the list, skipping nodes that are not present. */
  pickNext(by) {
    const there = nodeOrder(this.model).filter((i) => !this.cy.getElementById(`n${i}`).hasClass("absent"));
    const at = there.indexOf(this.picked);
    this.onpick(there.at(at < 0 && by < 0 ? -1 : (at + by) % there.length));
  }

  show(model) {
    this.model = model;
    const strengths = model.edges.map(([, , , , , strength]) => strength);
    this.scale = quantile(strengths.filter((strength) => strength !== null), 0.95);
    this.many = model.edges.length > MANY_EDGES;
    const inputs = model.nodes.filter((node) => node.kind === "input").length;
    const named = !data.shape && inputs <= MANY_INPUTS;
    // A large network is scaled down, so its labels must be larger.
    const large = clamp(Math.max(...model.nodes.map(({ at }) => at[0])) / 900, 1, 2.4);
    const nodes = model.nodes.map(({ label, kind, at }, i) => ({
      group: "nodes", position: { x: at[0], y: at[1] },
      data: { id: `n${i}`, label: kind !== "input" || named ? label : "", kind, size: NODE_SIZE[kind] * (kind === "output" ? Math.min(large, 1.3) : 1), font: FONT_SIZE[kind] * (kind === "hidden" ? 1 : large), paint: "#888" },
    }));
    const edges = model.edges.map(([source, target, term, weight, way], i) => ({
      group: "edges",
      data: {
        id: `e${i}`, source: `n${source}`, target: `n${target}`, term, weight,
        ...course(model.nodes[source].at, model.nodes[target].at, term, way),
        paint: "#888", width: 1, opacity: 1, z: 1,
      },
    }));
    this.cy.elements().remove();
    this.cy.add([...frame(), ...nodes, ...edges]);
    this.box = this.cy.elements().boundingBox();  // of all nodes and edges, present or not
    this.shown = new Set(model.edges.keys());
    this.degree = model.nodes.map(() => 0);
    for (const [source, target] of model.edges) { this.degree[source]++; this.degree[target]++; }
    const height = this.place.clientWidth * (this.box.h + 60) / (this.box.w + 60);
    this.place.style.height = `${clamp(height, 220, Math.max(0.68 * innerHeight, 380))}px`;
    this.fit();
  }

  /** Colour edges by scaled weight or, with the states of a sample, by weight times state. */
  paint(states = null, largest = null, conflicted = [], pixels = null) {
    const flows = this.model.edges.map(([source, , , weight, , strength]) =>
      weight === null || !states || states[source] === null ? strength : weight * states[source]);
    const scale = states ? quantile(flows.filter((flow) => flow !== null), 0.95) : this.scale;
    const [positive, negative, neutral] = ["positive", "negative", "neutral"].map(colour);
    this.cy.getElementById("frame").data("image", pixels ? imageOf(pixels, data.samples.range) : null);
    this.cy.batch(() => {
      flows.forEach((flow, i) => {
        const strength = flow === null ? 0 : Math.sqrt(Math.min(Math.abs(flow) / scale, 1));
        this.cy.getElementById(`e${i}`).data({
          paint: flow === null ? neutral : flow < 0 ? negative : positive,
          width: (this.many ? 0.8 : 1.2) + (this.many ? 3.2 : 4.5) * strength,
          opacity: this.many ? (this.model.edges[i][2] ? 0.4 : 0.1) + 0.55 * strength ** 2 : 0.45 + 0.5 * strength,
          z: Math.round(40 * strength),
        });
      });
      this.model.nodes.forEach(({ kind }, i) => {
        const state = states ? states[i] : null;
        const share = state === null ? 0 : clamp(state / (largest[i] || 1), -1, 1);
        const paint = state === null ? colour(kind) : mixed(kind, share < 0 ? "negative" : "positive", Math.abs(share));
        this.cy.getElementById(`n${i}`).data("paint", paint).toggleClass("conflicted", conflicted.includes(i));
      });
    });
  }

  /** Show the present edges and the nodes that have edges; highlight the fresh edges. */
  setPresent(present, fresh) {
    const touched = new Set();
    this.cy.batch(() => {
      this.cy.edges(".fresh").removeClass("fresh");
      this.model.edges.forEach(([source, target], i) => {
        const here = present.has(i);
        if (here === this.shown.has(i)) return;
        this.cy.getElementById(`e${i}`).toggleClass("absent", !here);
        for (const end of [source, target]) { this.degree[end] += here ? 1 : -1; touched.add(end); }
      });
      for (const i of touched) {
        const idle = this.degree[i] === 0, hidden = this.model.nodes[i].kind === "hidden";
        this.cy.getElementById(`n${i}`).toggleClass("absent", idle && hidden).toggleClass("idle", idle);
      }
      for (const i of fresh) this.cy.getElementById(`e${i}`).addClass("fresh");
    });
    this.shown = new Set(present);
  }

  pick(i) {
    this.picked = i;
    this.cy.batch(() => {
      this.cy.elements().removeClass("picked near far");
      if (i === null) return;
      const node = this.cy.getElementById(`n${i}`);
      const near = node.closedNeighborhood();
      this.cy.elements().not(near).not("#frame").addClass("far");
      near.edges().addClass("near");
      node.addClass("picked");
    });
    if (i !== null) this.reveal(this.cy.getElementById(`n${i}`));
  }

  /** Centre a node that is outside the window. */
  reveal(node) {
    const { x, y } = node.renderedPosition();
    if (x < 0 || y < 0 || x > this.cy.width() || y > this.cy.height()) this.cy.center(node);
  }

  restyle() { this.cy.style(networkStyle()); }
  fit() {
    this.cy.resize();
    const { x1, y1, w, h } = this.box, [width, height] = [this.cy.width(), this.cy.height()];
    const zoom = Math.min((width - 2 * MARGIN) / w, (height - 2 * MARGIN) / h, 2);
    this.cy.viewport({ zoom, pan: { x: width / 2 - zoom * (x1 + w / 2), y: height / 2 - zoom * (y1 + h / 2) } });
  }
  zoom(factor) {
    const middle = { x: this.cy.width() / 2, y: this.cy.height() / 2 };
    this.cy.zoom({ level: this.cy.zoom() * factor, renderedPosition: middle });
  }
}
