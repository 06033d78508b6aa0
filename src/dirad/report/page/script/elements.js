"use strict";
// Data of the page, and short ways to make elements. All text goes in as text, never as HTML.

const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

const element = (tag, attributes = {}, ...children) =>
  filled(document.createElement(tag), attributes, children);

const shape = (tag, attributes = {}, ...children) =>
  filled(document.createElementNS(SVG, tag), attributes, children);

/** A number with few digits and the minus of print. */
function number(value, digits = 4) {
  if (value === null || value === undefined) return "–";
  return String(Number(value.toPrecision(digits))).replace("-", "−");
}

const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

/** The |value| below which a share of all lies: large, but blind to a few outliers. */
function quantile(values, share) {
  const sorted = values.map(Math.abs).sort((a, b) => a - b);
  return sorted.length ? sorted[Math.floor((sorted.length - 1) * share)] || 1 : 1;
}

/** Is a key pressed alone? With Ctrl, Alt or Meta it is the browser's. */
const isPlain = (event) => !event.ctrlKey && !event.altKey && !event.metaKey;

/** Show that a button can do nothing now. It keeps the focus, which `disabled` would take away. */
const setIdle = (id, idle) => byId(id).setAttribute("aria-disabled", String(idle));

/** Has the reader asked for less motion? */
const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
