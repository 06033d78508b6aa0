"use strict";
// Light, dark or system theme. Code that draws on a canvas listens for "themechange".

const THEMES = ["system", "light", "dark"];

/** The current value of a colour in the style sheet. */
const colour = (name) =>
  getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/** A mixture of two colours of the style sheet. */
function mixed(from, to, share) {
  const parts = [colour(from), colour(to)].map((hex) =>
    [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)));
  const between = parts[0].map((low, i) => Math.round(low + (parts[1][i] - low) * share));
  return `rgb(${between.join(",")})`;
}

function setTheme(name) {
  if (name === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  byId("theme").textContent = `Theme: ${name}`;
  document.dispatchEvent(new Event("themechange"));
}

function initTheme() {
  let current = 0;
  byId("theme").addEventListener("click", () => {
    current = (current + 1) % THEMES.length;
    setTheme(THEMES[current]);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
    document.dispatchEvent(new Event("themechange")));
}
