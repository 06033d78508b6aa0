"use strict";
// Helpers that create elements. Text is always inserted as text, never as HTML.

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

/** A number with few significant digits and a typographic minus sign. */
function number(value, digits = 4) {
  if (value === null || value === undefined) return "–";
  return String(Number(value.toPrecision(digits))).replace("-", "−");
}

const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

/** A quantile of |value|, so that outliers do not set the scale; 1 if that would be 0. */
function quantile(values, share) {
  const sorted = values.map(Math.abs).sort((a, b) => a - b);
  return sorted.length ? sorted[Math.floor((sorted.length - 1) * share)] || 1 : 1;
}

/** Whether a key is pressed without Ctrl, Alt or Meta, which are the browser's shortcuts. */
const isPlain = (event) => !event.ctrlKey && !event.altKey && !event.metaKey;

/** Mark a button as having no effect now. It keeps the focus, which `disabled` would remove. */
const setIdle = (id, idle) => byId(id).setAttribute("aria-disabled", String(idle));

/** Whether the reader prefers reduced motion. */
const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
