"use strict";
// Requests to the server. What goes wrong is a Problem, whose message can be shown.

const SECONDS_TO_ANSWER = 20;

class Problem extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;  // 0: there was no answer
  }
}

/** The JSON that the server answers. */
async function ask(path, options = {}) {
  let answer;
  try {
    const signal = AbortSignal.timeout(1000 * SECONDS_TO_ANSWER);
    const headers = { Accept: "application/json", ...options.headers };
    answer = await fetch(path, { ...options, headers, signal });
  } catch {
    throw new Problem(0, "the server does not answer");
  }
  const found = await answer.json().catch(() => null);
  if (!answer.ok) throw new Problem(answer.status, found?.detail ?? `status ${answer.status}`);
  if (found === null) throw new Problem(0, "the answer of the server is not complete");
  return found;
}

const login = (token) => ask("/login", {
  method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ token }),
});

const addressOf = (name) => `/streams/${encodeURIComponent(name)}`;
