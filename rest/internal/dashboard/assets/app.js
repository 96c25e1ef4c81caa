// Keeps a page up to date. The server sends an event when something has changed. Then the
// page is fetched again and changed in place, so that the focus, the scroll position, open
// details and typed text are kept.
"use strict";

const body = document.body;
const status = document.getElementById("live");

// The minimum interval of announcements to a screen reader, in milliseconds.
const sayEvery = 20_000;
let saidAt = Date.now();
let said = document.querySelector("[data-say]")?.textContent.trim();

function show(state, text) {
  status.hidden = false;
  status.dataset.state = state;
  document.getElementById("live-text").textContent = text;
}

function say() {
  const text = document.querySelector("[data-say]")?.textContent.trim();
  if (text && text !== said && Date.now() - saidAt > sayEvery) {
    document.getElementById("said").textContent = text;
    said = text;
    saidAt = Date.now();
  }
}

// A region is not updated while the user has selected or typed something in it.
function isEdited(control) {
  switch (control.type) {
    case "checkbox":
    case "radio":
      return control.checked !== control.defaultChecked;
    case "select-one":
      return [...control.options].some((option, i) =>
        option.selected !== (option.defaultSelected || (i === 0 && !control.querySelector("[selected]"))));
    default:
      return control.value !== control.defaultValue;
  }
}

function isHeld(element) {
  return element.matches?.("[data-hold]") &&
    (element.contains(document.activeElement) && document.activeElement.matches("input, select, textarea") ||
      [...element.querySelectorAll("input, select, textarea")].some(isEdited));
}

// A log that shows its end keeps showing it.
function followed(log) {
  return log.scrollTop + log.clientHeight >= log.scrollHeight - 8;
}

// Adds the local time to the exact times, which are in UTC.
function localize() {
  for (const time of document.querySelectorAll("time[title$=UTC]")) {
    time.title += ` · ${new Date(time.dateTime).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "long" })}`;
  }
}

// Shows what only works with scripts.
function reveal() {
  localize();
  for (const button of document.querySelectorAll("button[data-copy]")) {
    button.hidden = !navigator.clipboard; // available only over TLS or on localhost
  }
}

let told = 0;

// tell shows a text at the bottom of the page for some seconds.
function tell(text) {
  const exact = document.getElementById("exact");
  exact.textContent = text;
  exact.hidden = false;
  clearTimeout(told);
  told = setTimeout(() => { exact.hidden = true; }, 8000);
}

document.addEventListener("click", async (event) => {
  const copy = event.target.closest("button[data-copy]");
  if (copy) {
    await navigator.clipboard.writeText(decodeURIComponent(copy.dataset.copy.split("/")[1]));
    tell("Copied.");
    return;
  }
  const time = event.target.closest("time[title]");
  if (time && !time.closest("a, button, summary")) {
    tell(time.title);
  }
});

function morph(fetched) {
  const logs = [...document.querySelectorAll("[data-follow]")].filter(followed);
  let held = false;
  Idiomorph.morph(document.getElementById("main"), fetched, {
    callbacks: {
      beforeNodeMorphed(element) {
        if (isHeld(element)) {
          held = true;
          return false;
        }
        return true;
      },
      // Details stay open or closed as the user left them.
      beforeAttributeUpdated(name, element) {
        return !(name === "open" && element.tagName === "DETAILS");
      },
    },
  });
  for (const log of logs) {
    log.scrollTop = log.scrollHeight;
  }
  reveal();
  show(held ? "held" : "on", held ? "Partly paused" : "Live");
  say();
}

let fetching = false;
let again = false;
let fetchedAt = Date.now();

// refresh fetches the page. A call during a fetch causes one more fetch after it.
async function refresh() {
  if (document.hidden) {
    return;
  }
  if (fetching) {
    again = true;
    return;
  }
  fetching = true;
  try {
    const response = await fetch(location.href, { headers: { Accept: "text/html" }, redirect: "error" });
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const main = page.getElementById("main");
    if (response.ok && main) {
      morph(main);
    } else {
      show("off", `Not live: the server answered ${response.status}`);
    }
  } catch {
    show("off", "Not live: no connection");
  }
  fetchedAt = Date.now();
  fetching = false;
  if (again) {
    again = false;
    refresh();
  }
}

// Among a browser's tabs on the site, one listens and notifies the others, because browsers
// limit the connections to a server. Hidden tabs take no part.
const site = new URL(body.dataset.live, location.href).href;
const others = new BroadcastChannel(site);
others.onmessage = refresh;

function listen(signal) {
  return new Promise((done) => {
    const source = new EventSource(site);
    source.addEventListener("changed", () => {
      others.postMessage("changed");
      refresh();
    });
    source.onopen = () => show("on", "Live");
    source.onerror = () => show("off", source.readyState === EventSource.CLOSED ? "Not live" : "Reconnecting");
    signal.addEventListener("abort", () => {
      source.close();
      done();
    });
  });
}

let listening = null;

function follow() {
  listening?.abort();
  listening = null;
  if (document.hidden) {
    return;
  }
  listening = new AbortController();
  const { signal } = listening;
  if (navigator.locks) { // available only over TLS or on localhost
    navigator.locks.request(site, { signal }, () => listen(signal)).catch(() => {}); // the tab was hidden while it waited
  } else {
    listen(signal);
  }
}

reveal();
for (const log of document.querySelectorAll("[data-follow]")) {
  log.scrollTop = log.scrollHeight;
}
const here = document.querySelector(".graph .node.this rect");
if (here) {
  const graph = here.closest(".graph"), box = here.getBoundingClientRect(), frame = graph.getBoundingClientRect();
  graph.scrollLeft += box.x + box.width / 2 - frame.x - frame.width / 2;
  graph.scrollTop += box.y + box.height / 2 - frame.y - frame.height / 2;
}

// A page that answers a form can't be fetched again.
if (document.querySelector("form[data-go]")) {
  document.querySelector("form[data-go]").requestSubmit();
} else if (!body.hasAttribute("data-still")) {
  show("on", "Live");
  follow();
  document.addEventListener("visibilitychange", () => {
    follow();
    refresh();
  });
  setInterval(() => {
    // Relative times become outdated even if nothing changes.
    if (Date.now() - fetchedAt >= Number(document.getElementById("main").dataset.every) * 1000) {
      refresh();
    }
  }, 1000);
}
