// Keeps a page up to date. The server says on a stream of events that something has
// changed; then the page is fetched anew, and what differs is changed in place, so that
// focus, places, open details and what somebody types stay.
"use strict";

const body = document.body;
const status = document.getElementById("live");

// What is told to a screen reader, at most this often.
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

// A region stands still while something is chosen or typed in it.
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
    (element.contains(document.activeElement) && document.activeElement.matches("input, select") ||
      [...element.querySelectorAll("input, select")].some(isEdited));
}

function morph(fetched) {
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
      // Who opened details, or closed them, decides on that.
      beforeAttributeUpdated(name, element) {
        return !(name === "open" && element.tagName === "DETAILS");
      },
    },
  });
  show(held ? "held" : "on", held ? "Partly on hold" : "Live");
  say();
}

let fetching = false;
let again = false;
let fetchedAt = Date.now();

// refresh fetches the page; once more at the end, where there was reason to while it did.
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
      show("off", `Not live: the server said ${response.status}`);
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

// Of the tabs of a browser that are open on the site, one listens, and tells the others:
// browsers open few connections to one server. A tab that is hidden takes no part.
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
  if (navigator.locks) { // only where the page was loaded over TLS, or from this machine
    navigator.locks.request(site, { signal }, () => listen(signal)).catch(() => {}); // it was hidden while it waited
  } else {
    listen(signal);
  }
}

// A page that is the answer to a form is not there to be fetched.
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
    // Ages are out of date after a while also where nothing has changed.
    if (Date.now() - fetchedAt >= Number(document.getElementById("main").dataset.every) * 1000) {
      refresh();
    }
  }, 1000);
}
