// Overview: is this node all right, and which Service is not?

import { ask } from "./api.js";
import { h, patch, setText } from "./dom.js";
import { ago, clock, count, duration, percent, plural, rate } from "./format.js";
import { meter, sparkline } from "./spark.js";
import { ServicesTable } from "./services.js";
import { causeOf, colourOf, effectOf } from "./change.js";
import { healthOf } from "./health.js";

const RECENT = 5;

export function overview({ root, parameters, store, on }) {
  const tiles = h("section", { class: "tiles", "aria-label": "State of the node" });
  const table = new ServicesTable(store, parameters);
  const recent = h("ol", { class: "recent" });
  const refusals = h("div", { class: "refusals" });
  const refusedPanel = panel("Refused packets", null, refusals);
  root.append(
    h("h1", { class: "hidden" }, "Overview"),
    tiles,
    h("div", { class: "overview" },
      table.element,
      h("div", { class: "side" },
        panel("Latest changes", h("a", { href: "#/time" }, "all"), recent),
        refusedPanel)));
  const showAll = () => {
    if (store.overview) {
      const isPlanOnly = store.overview.source === "manifests";
      table.element.classList.toggle("no-rates", isPlanOnly);
      refusedPanel.hidden = isPlanOnly;
      patch(tiles, tilesOf(store.overview, () => table.search("no-endpoints")));
      patch(refusals, refusalsOf(store.overview));
    }
    patch(recent, recentOf(store));
  };
  on("overview", showAll);
  on("changes", showAll);
  on("services", () => table.changed());
  on("rates", () => table.rates());
  showAll();
  load(store, root);
  return { follow: (next) => table.follow(next), close: () => table.close() };
}

function load(store, root) {
  const wanted = [store.loadServices(), store.loadChanges(), store.overview ? null : store.loadOverview()];
  Promise.all(wanted).catch((error) => root.prepend(h("p", { class: "notice bad", role: "alert" }, error.message)));
}

function panel(title, extra, ...children) {
  return h("section", { class: "panel", "aria-label": title }, h("header", null, h("h2", null, title), h("span", { class: "push" }, extra)), ...children);
}

function tilesOf(overview, filterFailing) {
  const isDaemon = overview.source === "daemon";
  const all = [healthTile(overview), servicesTile(overview, filterFailing)];
  if (isDaemon) all.push(latencyTile(overview), kernelTile(overview));
  all.push(factsTile(overview));
  if (overview.conntrack) all.push(conntrackTile(overview));
  return all;
}

function tile(title, colour, value, detail, extra) {
  return h("article", { class: `tile panel ${colour}` }, h("h2", null, title), h("p", { class: "value" }, value), h("p", { class: "detail" }, detail), extra);
}

function healthTile(overview) {
  const state = healthOf(overview);
  const { health } = overview;
  const isOld = health.pending_ms !== null && health.pending_ms !== undefined;
  const detail = health.last_error
    ?? (isOld ? `a change is pending for ${duration(health.pending_ms / 1000)}` : `${overview.zone ? `zone ${overview.zone}, ` : ""}up ${duration(Math.floor((overview.now_unix_ms - overview.started_unix_ms) / 1000))}`);
  const version = `Portolan ${overview.version}${overview.kubernetes_version ? `, Kubernetes ${overview.kubernetes_version}` : ""}`;
  return tile("Node", state.colour, state.long, overview.source === "manifests" ? "what a daemon would do on this node" : detail, h("p", { class: "detail dim" }, version));
}

function servicesTile(overview, filterFailing) {
  const failing = overview.without_endpoints
    ? h("button", { class: "link bad-text", type: "button", onclick: filterFailing }, `${count(overview.without_endpoints)} without endpoints`)
    : h("span", { class: "good-text" }, "all have endpoints");
  return tile("Services", "", count(overview.services),
    `${plural(overview.service_ports, "port")}, ${plural(overview.endpoints, "endpoint")}`, h("p", { class: "detail" }, failing));
}

function latencyTile({ latency_ms: latency }) {
  const series = latency.series.map(([, value]) => value);
  const words = latency.median === null ? "no change yet" : `last ${duration(latency.last / 1000)}, worst ${duration(latency.worst / 1000)}`;
  const chart = sparkline(series, { label: `Latency of the last ${series.length} changes: ${words}` });
  return h("article", { class: "tile panel wide" }, h("h2", null, "From event to kernel"),
    h("p", { class: "value" }, latency.median === null ? "–" : duration(latency.median / 1000), h("small", null, " median")),
    h("p", { class: "detail" }, words), chart);
}

function kernelTile({ syncs, drift, now_unix_ms: now }) {
  const value = syncs.repairs ? plural(syncs.repairs, "repair") : "No drift";
  const detail = drift
    ? `${drift.what}${drift.process ? `, by ${drift.process}` : ""}, ${ago(drift.unix_ms / 1000, now / 1000)}`
    : `${plural(syncs.changes, "change")}, ${plural(syncs.failures, "failure")}`;
  return tile("Kernel", syncs.failures ? "warn" : "", value, detail, verifyButton());
}

/** Compares the kernel with the plan, on demand. */
function verifyButton() {
  const button = h("button", { class: "link", type: "button", title: "Reads all objects of the kernel", onclick: verify }, result.words);
  button.className = `link ${result.colour}`;
  return h("p", { class: "detail", role: "status" }, button);
}

/** Tiles are drawn again with each event, and the answer must survive that. */
const result = { words: "Compare with the plan", colour: "" };

async function verify(event) {
  const button = event.currentTarget;
  const show = (words, colour) => {
    Object.assign(result, { words, colour });
    const shown = button.isConnected ? button : document.querySelector(".tile [title='Reads all objects of the kernel']");
    if (!shown) return;
    setText(shown, words);
    shown.className = `link ${colour}`;
  };
  show("comparing…", "");
  try {
    const answer = await ask("verify");
    const differences = answer.differences.length;
    if (differences) show(`${plural(differences, "difference")}: ${answer.differences[0].object}`, "bad-text");
    else show(`${plural(answer.wanted, "object")} as planned`, "good-text");
  } catch (error) {
    show(error.message, "bad-text");
  }
}

function factsTile({ watches, facts_from: from }) {
  if (!watches.length) return tile("Facts", "", from === "manifests" ? "Manifests" : from, "read from files, which are watched");
  const lost = watches.filter((watch) => !watch.connected);
  const value = lost.length ? `${lost.length} of ${watches.length} lost` : "Watching";
  const list = h("ul", { class: "watches" }, watches.map((watch) =>
    h("li", { class: watch.connected ? "good" : "bad" }, `${watch.what}${watch.connected ? "" : `, since ${clock(watch.since_unix_ms / 1000)}`}`)));
  return tile("Facts", lost.length ? "bad" : "", value, `from the ${from}`, list);
}

function conntrackTile({ conntrack }) {
  const share = conntrack.entries / conntrack.limit;
  return tile("Connection tracking", share > 0.9 ? "bad" : share > 0.75 ? "warn" : "", percent(share),
    `${count(conntrack.entries)} of ${count(conntrack.limit)} entries`, meter(share, "Use of the connection table"));
}

function refusalsOf({ refusals }) {
  const met = refusals.filter((refusal) => refusal.packets > 0).sort((a, b) => b.packets - a.packets);
  if (!met.length) return [h("p", { class: "empty" }, "No packet was refused.")];
  const most = met[0].packets;
  return met.map((refusal) => h("div", { class: "refusal", title: refusal.words },
    h("span", { class: "mono" }, refusal.reason),
    h("span", { class: "number" }, count(refusal.packets), refusal.per_second ? h("small", { class: "bad-text" }, ` ${rate(refusal.per_second)}/s`) : null),
    bar(refusal.packets / most),
    h("p", { class: "dim" }, refusal.words)));
}

function bar(share) {
  const used = h("span", { class: "bar-used" });
  used.style.width = `${Math.max(1, share * 100)}%`;
  return h("span", { class: "bar", "aria-hidden": "true" }, used);
}

function recentOf(store) {
  const changes = store.changes.slice(-RECENT).reverse();
  if (!changes.length) return [h("li", { class: "empty" }, "No change so far.")];
  return changes.map((change) => h("li", null,
    h("a", { href: `#/time?change=${change.number}` },
      h("span", { class: `kind ${colourOf(change)}`, "aria-hidden": "true" }),
      h("span", { class: "cause" }, causeOf(change)),
      h("time", { class: "dim" }, clock(change.unix_ms / 1000)),
      h("span", { class: "effect dim" }, effectOf(change)))));
}

