"use strict";
// The page asks for the state every two seconds while it is visible, and at once when an event comes.

const PERIOD = 2000;  // milliseconds
const list = new StreamList(byId("streams")), detail = new Detail();
let isPaused = false, isAsking = false, again = false, timer = null;

const chosenName = () => {
  try { return decodeURIComponent(location.hash.slice(1)); } catch { return ""; }
};

function tell(text, kind) {
  setText(byId("status"), text);
  byId("status").dataset.kind = kind;
}

/** Show one of the parts: the form for a token, how to begin, or the streams. */
function showPart(id) {
  for (const part of ["login", "beginning", "content"]) byId(part).hidden = part !== id;
}

async function showStreams() {
  const { streams } = await ask("/streams");
  if (!streams.length) {
    detail.close();
    showPart("beginning");
    return;
  }
  const wanted = chosenName(), chosen = streams.find((one) => one.name === (wanted || streams[0].name));
  showPart("content");
  list.show(streams, chosen?.name);
  byId("detail").hidden = !chosen;
  byId("missing").hidden = Boolean(chosen);
  document.title = chosen ? `${chosen.name} – dirad` : "dirad";
  if (chosen) await detail.show(chosen);
  else {
    detail.close();
    setText(byId("missing"), `There is no stream ${wanted}. Choose one from the list.`);
  }
}

function showProblem(problem) {
  detail.feed.pause();
  if (problem.status === 401) {
    tell("A token is needed", "lost");
    if (!byId("login").hidden) return;
    detail.close();
    showPart("login");
    byId("token").focus();
  } else if (problem.status === 0) {
    tell("Connection lost: the server does not answer. Trying again …", "lost");
  } else if (problem.status !== 404) {  // 404: deleted a moment ago
    tell(`The server refuses: ${problem.message}. Trying again …`, "lost");
  }
}

/** Ask once more; requests never overlap. */
async function refresh() {
  clearTimeout(timer);
  if (isAsking) { again = true; return; }
  isAsking = true;
  try {
    await showStreams();
    if (isPaused) detail.feed.pause();
    tell(isPaused ? "Paused" : "Live", isPaused ? "paused" : "live");
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    showProblem(error);
  } finally {
    isAsking = false;
    const wait = again ? 0 : PERIOD;
    again = false;
    if ((!isPaused || wait === 0) && !document.hidden && byId("login").hidden) timer = setTimeout(refresh, wait);
  }
}

function setPaused(paused) {
  isPaused = paused;
  byId("pause").textContent = paused ? "Resume" : "Pause";
  if (!paused) { refresh(); return; }
  clearTimeout(timer);
  detail.feed.pause();
  tell("Paused", "paused");
}

async function useToken(event) {
  event.preventDefault();
  setText(byId("login-error"), "");
  try {
    await login(byId("token").value.trim());
  } catch (error) {
    setText(byId("login-error"), error.status === 401 ? "This token is not valid." : `That did not work: ${error.message}`);
    byId("token").focus();
    return;
  }
  byId("token").value = "";
  byId("login").hidden = true;
  await refresh();
  byId("streams").querySelector("a")?.focus();
}

initTheme();
detail.onnews = refresh;
byId("pause").addEventListener("click", () => setPaused(!isPaused));
byId("login-form").addEventListener("submit", useToken);
byId("skip").addEventListener("click", (event) => {  // the part after # is the name of a stream
  event.preventDefault();
  [...document.querySelectorAll("#detail-title, #token, #command")].find((one) => one.checkVisibility())?.focus();
});
byId("command").textContent = byId("command").textContent.replaceAll("ADDRESS", location.origin);
addEventListener("hashchange", async () => {
  await refresh();
  if (!byId("detail").hidden) byId("detail").scrollIntoView({ block: "nearest", behavior: calm() ? "auto" : "smooth" });
});
document.addEventListener("visibilitychange", () => {
  if (document.hidden) { clearTimeout(timer); detail.feed.pause(); } else if (!isPaused) refresh();
});
refresh();
