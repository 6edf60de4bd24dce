// Time: the last thousand changes, each with its cause, its latency and what it did to packets.

import { announce, h, put, s, setText } from "./dom.js";
import { clock, count, date, duration, plural } from "./format.js";
import { causeOf, colourOf, effectOf } from "./change.js";
import { addressOf } from "./services.js";
import { Rows } from "./rows.js";

const SHOWN_BARS = 400;

export function time(context) {
  return new TimeView(context);
}

class TimeView {
  #store;
  #rows;
  #field;
  #count = h("span", { class: "dim count", role: "status" });
  #detail = h("section", { class: "panel change", "aria-label": "A change" });
  #chart = h("div", { class: "chart" });
  #number;
  #shown = null;

  constructor({ root, parameters, store, on }) {
    this.#store = store;
    this.#field = h("input", {
      class: "field search", type: "search", placeholder: "Search cause, Service, address…", "aria-label": "Search changes", "data-search": true, autocomplete: "off", spellcheck: "false",
      value: parameters.get("search") ?? "", oninput: () => { this.#list(); this.#remember(); },
      onkeydown: (event) => { if (event.key === "ArrowDown") { this.#rows.element.focus(); this.#rows.move(0); event.preventDefault(); } },
    });
    this.#rows = new Rows({ label: "Changes", height: 46, columns: 4, make: makeRow, open: (change) => this.#choose(change.number) });
    root.append(h("h1", { class: "hidden" }, "Time"), h("section", { class: "panel strip", "aria-label": "Latency of changes" }, h("header", null, h("h2", null, "Latency of each change, event to kernel"), kinds()), this.#chart),
      h("div", { class: "time" }, h("section", { class: "panel changes", "aria-label": "Changes" },
        h("header", null, h("h2", null, "Changes"), this.#count, h("span", { class: "push" }, this.#field)), this.#rows.element), this.#detail));
    on("changes", () => this.#show());
    on("overview", () => this.#note());
    this.#number = Number(parameters.get("change")) || null;
    store.loadChanges().then(() => this.#show(), (error) => put(this.#detail, h("p", { class: "notice bad", role: "alert" }, error.message)));
  }

  follow(parameters) {
    this.#field.value = parameters.get("search") ?? "";
    this.#number = Number(parameters.get("change")) || null;
    this.#show();
  }

  close() {
    this.#rows.observer.disconnect();
  }

  #show() {
    this.#list();
    this.#drawChart();
    this.#note();
  }

  #note() {
    if (this.#store.changes.length === 0) put(this.#detail, h("p", { class: "empty" }, "No change so far. Every change of a Service, an endpoint or the kernel appears here."));
  }

  #list() {
    const words = this.#field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const all = this.#store.changes;
    const found = all.filter((change) => words.every((word) => textOf(change).includes(word))).reverse();
    this.#rows.set(found, (change) => change.number);
    setText(this.#count, found.length === all.length ? count(all.length) : `${count(found.length)} of ${count(all.length)}`);
    const chosen = all.find(({ number }) => number === this.#number) ?? found[0];
    if (chosen) this.#open(chosen);
    const at = found.indexOf(chosen);
    if (this.#number && at >= 0 && !this.#rows.currentItem) this.#rows.move(at);
  }

  #choose(number) {
    this.#number = number;
    this.#remember();
    const change = this.#store.changes.find((it) => it.number === number);
    this.#open(change);
    announce(causeOf(change));
    this.#drawChart();
  }

  #remember() {
    const parameters = new URLSearchParams();
    if (this.#number) parameters.set("change", this.#number);
    if (this.#field.value) parameters.set("search", this.#field.value);
    const query = parameters.toString();
    history.replaceState(null, "", query ? `#/time?${query}` : "#/time");
  }

  #open(change) {
    if (this.#shown === change.number) return;
    this.#shown = change.number;
    put(this.#detail, ...detailOf(change));
  }

  /** A bar for each change; the square root keeps small latencies visible beside large ones. */
  #drawChart() {
    const changes = this.#store.changes.slice(-SHOWN_BARS);
    const height = 56;
    const width = Math.max(120, changes.length) * 4;
    const most = Math.max(1, ...changes.map((change) => change.latency_ms ?? 0));
    const tall = (latency) => Math.max(3, Math.sqrt(latency / most) * height);
    const bars = changes.map((change, at) => {
      const size = tall(change.latency_ms ?? 0);
      return s("rect", { class: `${colourOf(change)} ${change.number === this.#shown ? "chosen" : ""}`, x: width - (changes.length - at) * 4, y: height - size, width: 3, height: size, "data-number": change.number },
        s("title", null, `${clock(change.unix_ms / 1000)}: ${causeOf(change)}`));
    });
    put(this.#chart, h("span", { class: "dim small scale" }, `up to ${duration(most / 1000)}`), s("svg", {
      viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": `Latency of ${changes.length} changes`,
      onclick: (event) => { const number = Number(event.target.dataset.number); if (number) this.#choose(number); },
    }, bars));
  }
}

function kinds() {
  const item = (colour, text) => h("span", { class: `legend-item ${colour}` }, h("i", { "aria-hidden": "true" }), text);
  return h("span", { class: "legend push kinds" }, item("accent", "change"), item("good", "start, settings"), item("warn", "repair"), item("bad", "failure"));
}

/** The text of a change that a search looks at, made once. */
const texts = new WeakMap();
function textOf(change) {
  if (!texts.has(change)) texts.set(change, JSON.stringify([change.kind, change.causes, change.services, change.behaviour, change.drift]).toLowerCase());
  return texts.get(change);
}

function makeRow() {
  const parts = { kind: h("span", { class: "kind", "aria-hidden": "true" }), time: h("time", { role: "gridcell", class: "dim mono" }), cause: h("span", { role: "gridcell", class: "cause" }), latency: h("span", { role: "gridcell", class: "number mono" }), effect: h("span", { role: "gridcell", class: "effect dim" }) };
  const element = h("div", { class: "change-row" }, Object.values(parts));
  return {
    element,
    fill: (change) => {
      parts.kind.className = `kind ${colourOf(change)}`;
      setText(parts.time, clock(change.unix_ms / 1000));
      setText(parts.cause, causeOf(change));
      parts.cause.title = causeOf(change);
      setText(parts.latency, change.latency_ms === null ? "–" : duration(change.latency_ms / 1000));
      setText(parts.effect, effectOf(change));
    },
  };
}

const KINDS = { start: "Start", change: "Change", repair: "Repair", settings: "Settings", failure: "Failure" };

function detailOf(change) {
  const number = (value, words) => h("div", { class: "number-tile" }, h("strong", null, value), h("span", { class: "dim" }, words));
  const ms = (value) => (value === null || value === undefined ? "–" : duration(value / 1000));
  return [
    h("header", null, h("span", { class: `chip ${colourOf(change)}` }, KINDS[change.kind] ?? change.kind), h("h3", null, `${date(change.unix_ms / 1000)} ${clock(change.unix_ms / 1000)}`),
      h("span", { class: "dim push" }, `change ${change.number}`)),
    h("div", { class: "change-body" },
      h("div", { class: "numbers" }, number(ms(change.latency_ms), "event to kernel"), number(ms(change.kernel_ms), "in the kernel"), number(count(change.objects), "objects written")),
      change.drift ? drift(change.drift) : null,
      causes(change), services(change), behaviour(change)),
  ];
}

function drift({ what, process, repaired }) {
  return h("div", { class: "notice warn" }, h("strong", null, "Drift. "), what, process ? h("span", null, ", by ", h("code", null, process)) : null, `; ${plural(repaired, "object")} repaired.`);
}

function causes({ causes: list, more_causes: more }) {
  if (!list.length) return null;
  return h("div", null, h("h2", null, "Cause"), h("ul", { class: "causes" }, list.map((it) => h("li", null, it.name ? [h("span", { class: "chip" }, it.kind), h("strong", null, it.name)] : null, h("span", null, it.what))),
    more ? h("li", { class: "dim" }, `and ${plural(more, "more cause", "more causes")}`) : null));
}

function services({ services: list, more_services: more }) {
  if (!list.length) return null;
  return h("div", null, h("h2", null, "Services"), h("p", { class: "chips" }, list.map((name) => h("a", { class: "chip accent", href: addressOf(name) }, name)), more ? h("span", { class: "dim" }, `and ${more} more`) : null));
}

/** What packets do now and did before, by frontend. */
function behaviour({ kind, behaviour: list, more_behaviour: more }) {
  if (!list.length && kind !== "change") return null;
  if (!list.length) return h("p", { class: "dim" }, "No packet is treated differently.");
  return h("div", null, h("h2", null, "What packets do"), h("ul", { class: "behaviour" }, list.map((it) => h("li", null,
    h("p", null, h("strong", { class: "mono" }, it.frontend), h("span", { class: "dim" }, ` ${it.service}`)),
    h("pre", { class: "diff" }, it.before === null ? null : h("del", null, `− ${it.before}`), it.after === null ? null : h("ins", null, `+ ${it.after}`))))),
  more ? h("p", { class: "dim" }, `and ${more} more`) : null);
}
