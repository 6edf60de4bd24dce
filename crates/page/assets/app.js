// The frame: which view the address names, the bar at the top, and keys that work everywhere.

import { announce, h, put, setText } from "./dom.js";
import { duration } from "./format.js";
import { healthOf } from "./health.js";
import { Store } from "./store.js";
import { overview } from "./overview.js";
import { service } from "./service.js";
import { explain } from "./explain.js";
import { time } from "./time.js";

const VIEWS = { "": overview, service, explain, time };
const TITLES = { "": "Overview", service: "Service", explain: "Explain", time: "Time" };

const store = new Store();
const main = document.getElementById("main");
let current = null;

/** `#/service/default/web?part=route:0` as path and parameters. */
function place() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map(decodePart);
  return { parts, parameters: new URLSearchParams(query) };
}

function decodePart(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The part of the address that makes another view; parameters after it belong to the view. */
function show() {
  const { parts, parameters } = place();
  const name = parts[0] in VIEWS ? parts[0] : "";
  const key = parts.join("/");
  if (current?.key === key && current.view.follow) {
    current.view.follow(parameters);
    return;
  }
  current?.view.close?.();
  current?.listening.abort();
  const listening = new AbortController();
  const isFirst = current === null;
  store.follow(name === "service" ? `${parts[1]}/${parts[2]}` : null);
  put(main);
  main.className = `view-${name || "overview"}`;
  const on = (event, hear) => store.addEventListener(event, hear, { signal: listening.signal });
  current = { key, listening, view: VIEWS[name]({ root: main, parts: parts.slice(1), parameters, store, on, signal: listening.signal }) };
  mark(name, parts);
  scrollTo(0, 0);
  // A view may have put the focus where it is needed already.
  if (!isFirst && !main.contains(document.activeElement)) main.focus({ preventScroll: true });
}

function mark(name, parts) {
  const title = name === "service" ? `${parts[1]}/${parts[2]}` : TITLES[name];
  document.title = `${title} · Portolan`;
  if (current) announce(title);
  for (const link of document.querySelectorAll(".top nav a")) {
    const isCurrent = link.dataset.view === (name === "" || name === "service" ? "overview" : name);
    if (isCurrent) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

const WORDS = { connecting: "connecting", live: "live", paused: "paused" };

function showLive() {
  const { state, seconds } = store.live;
  const element = document.getElementById("live");
  element.dataset.state = state;
  setText(document.getElementById("live-text"), WORDS[state] ?? `no answer, next try in ${duration(Math.ceil(seconds))}`);
  if (store.overview?.source === "manifests") element.title = "Follows the manifests; there is no daemon behind this page";
}

function showStatus() {
  const { node, mode, source, health } = store.overview;
  const state = healthOf(store.overview);
  put(document.getElementById("status"),
    h("span", { class: "node" }, node),
    h("span", { class: "chip accent", title: "The mode that programs this node" }, mode),
    h("span", { class: `chip ${state.colour}`, title: health.last_error ?? source }, state.word));
}

const isTyping = (element) => element.closest("input, textarea, select, [contenteditable]") !== null;
let went = 0;

function key(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  const places = { o: "#/", e: "#/explain", t: "#/time" };
  if (Date.now() - went < 1500 && event.key in places) location.hash = places[event.key];
  else if (event.key === "t") window.nextTheme();
  else if (event.key === "?") toggleKeys();
  else if (event.key === "/") document.querySelector("[data-search]")?.focus();
  else if (event.key !== "g") {
    current?.view.key?.(event);
    return;
  }
  went = event.key === "g" ? Date.now() : 0;
  event.preventDefault();
}

function toggleKeys() {
  const dialog = document.getElementById("keys");
  if (dialog.open) dialog.close();
  else dialog.showModal();
}

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
document.getElementById("keys-button").addEventListener("click", toggleKeys);
addEventListener("hashchange", show);
addEventListener("keydown", key);
store.addEventListener("live", showLive);
store.addEventListener("overview", showStatus);
show();
