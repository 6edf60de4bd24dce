// The picture of a Service port: clients → frontends → routes → pools → endpoints. Boxes are elements of a grid, arrows an
// SVG picture over them. Every box and arrow is a button; arrow keys walk along the picture.

import { h, put, setText } from "./dom.js";
import { bytes, percent, plural, rate } from "./format.js";
import { Arrows } from "./arrows.js";
import { groupRoutes } from "./routes.js";

const SHOWN_ENDPOINTS = 14;
const COLUMNS = ["Clients", "Frontends", "Route", "Pool", "Endpoints"];
const STATES = {
  "in use": "good", "not ready": "bad", "terminating": "warn", "draining": "warn", "quarantined": "bad", "warming up": "accent",
  "loaded": "warn", "not used": "",
};

export class Picture {
  #open;
  #grid = h("div", { class: "picture", role: "group", "aria-label": "Clients, frontends, routes, pools and endpoints" });
  #arrows;
  #answer = null;
  #port = null;
  #groups = [];
  #boxes = new Map();
  #part = null;
  #isWhole = false;
  #rates = {};
  #live = new Map();
  #shareTexts = new Map();

  constructor(open) {
    this.#open = open;
    this.#arrows = new Arrows(this.#grid);
    this.element = h("div", { class: "picture-scroll" }, this.#grid);
    this.#grid.addEventListener("click", (event) => this.#clicked(event));
    this.#grid.addEventListener("keydown", (event) => this.#key(event));
    this.#grid.addEventListener("pointerover", (event) => this.#light(event.target));
    this.#grid.addEventListener("pointerleave", () => this.#light(null));
    this.#grid.addEventListener("focusin", (event) => this.#light(event.target));
    this.#grid.addEventListener("focusout", () => this.#light(null));
  }

  close() {
    this.#arrows.close();
  }

  set(answer, port) {
    this.#answer = answer;
    this.#port = port;
    this.#groups = groupRoutes(answer, port);
    this.#draw();
  }

  /** Live rates of endpoints, by `address protocol`. */
  rates({ endpoints }) {
    this.#rates = Object.fromEntries(Object.entries(endpoints).map(([key, rates]) => [key.toLowerCase(), rates]));
    this.#showRates();
  }

  #draw() {
    const focused = this.#grid.contains(document.activeElement) ? document.activeElement.dataset.part : null;
    this.#boxes.clear();
    this.#live.clear();
    this.#shareTexts.clear();
    const columns = [this.#clients(), this.#frontends(), this.#routes(), this.#pools(), this.#endpoints()];
    put(this.#grid, columns.map((boxes, at) => h("div", { class: `column column-${at}` }, h("h3", null, COLUMNS[at]), h("div", { class: "boxes" }, boxes))), this.#arrows.element);
    this.#arrows.set(this.#links(), this.#boxes);
    this.choose(this.#part);
    this.#showRates();
    if (focused) this.#grid.querySelector(`[data-part="${CSS.escape(focused)}"]`)?.focus();
  }

  #box(id, column, classes, label, ...children) {
    const box = h("div", { class: `box ${classes}`, role: "button", tabindex: "-1", "data-part": id, "data-column": column, "aria-label": label, "aria-pressed": "false" }, ...children);
    this.#boxes.set(id, box);
    return box;
  }

  #clients() {
    return this.#answer.clients.map(({ id, origin, words }) => this.#box(id, 0, `client ${origin}`, `clients: ${words}`, h("strong", null, words)));
  }

  #ofPort(list) {
    return list.filter(({ port }) => port === this.#port);
  }

  #frontends() {
    return this.#ofPort(this.#answer.frontends).map((it) => this.#box(it.id, 2, "frontend", `${it.kind} ${it.address}`,
      h("span", { class: "kind" }, it.kind), h("strong", { class: "mono" }, it.address),
      it.sources?.length ? h("span", { class: "dim small" }, `only from ${it.sources.join(", ")}`) : null));
  }

  #routes() {
    return this.#groups.map((group) => this.#box(group.id, 3, `route ${group.kind}`, `${group.origins.join(", ")}: ${group.words}`,
      h("span", { class: "origins" }, group.origins.map((origin) => h("span", { class: `origin ${origin}` }, origin))),
      h("strong", null, group.title), group.reason ? h("span", { class: "reason mono" }, group.reason) : null));
  }

  #pools() {
    const used = new Set(this.#groups.map(({ pool }) => pool));
    const pools = this.#ofPort(this.#answer.pools).filter(({ id }) => used.has(id));
    return pools.map((it) => this.#box(it.id, 4, "pool", `pool ${it.kind}: ${it.words}`,
      h("span", { class: "kind" }, it.kind), h("strong", null, plural(it.slots, "slot")), h("span", { class: "dim small" }, it.words)));
  }

  #endpoints() {
    const all = this.#ofPort(this.#answer.endpoints);
    const shares = this.#shares();
    const sorted = [...all].sort((a, b) => shares.has(b.id) - shares.has(a.id));
    const shown = this.#isWhole ? sorted : sorted.slice(0, SHOWN_ENDPOINTS);
    const boxes = shown.map((it) => this.#endpoint(it, shares.get(it.id)));
    const hidden = all.length - shown.length + this.#answer.omitted_endpoints;
    if (!all.length) boxes.push(h("p", { class: "empty" }, "no endpoints"));
    if (hidden) boxes.push(h("button", { class: "button small", type: "button", disabled: this.#isWhole, onclick: () => { this.#isWhole = true; this.#draw(); } }, `${hidden} more`));
    return boxes;
  }

  /** The largest share of each endpoint. */
  #shares() {
    const shares = new Map();
    for (const it of this.#answer.shares) shares.set(it.endpoint, Math.max(shares.get(it.endpoint) ?? 0, it.share));
    return shares;
  }

  #endpoint(it, share) {
    const name = it.pod ? it.pod.split("/").at(-1) : it.address;
    const live = h("span", { class: "rate mono" });
    const shareText = h("span", { class: "share" });
    this.#shareTexts.set(it.id, shareText);
    const used = h("span", { class: "bar-used" });
    const barOfRate = h("span", { class: "bar", "aria-hidden": "true" }, used);
    const port = this.#answer.ports.find(({ id }) => id === it.port);
    this.#live.set(it.id, { key: `${it.address} ${port?.protocol}`.toLowerCase(), live, used });
    const colour = STATES[it.state] ?? "warn";
    const where = [it.is_local ? "this node" : it.node, it.zone].filter(Boolean).join(" · ");
    return this.#box(it.id, 6, `endpoint ${share === undefined ? "idle" : ""} ${it.state === "in use" ? "" : "unusual"}`, `endpoint ${name} ${it.address}, ${it.state}${it.because ? `: ${it.because}` : ""}`,
      h("span", { class: "line" }, h("span", { class: `state-dot ${colour}`, "aria-hidden": "true" }), h("strong", null, name), shareText),
      h("span", { class: "line dim small" }, it.pod ? h("span", { class: "mono" }, it.address) : null, h("span", null, where)),
      it.state === "in use" ? null : h("span", { class: `chip ${colour}`, title: it.because }, it.because ? `${it.state}: ${it.because}` : it.state),
      h("span", { class: "line live-line" }, barOfRate, live));
  }

  #showRates() {
    const values = [...this.#live.values()].map(({ key }) => this.#rates[key]?.[0] ?? 0);
    const most = Math.max(...values, 0);
    this.#grid.classList.toggle("has-rates", Object.keys(this.#rates).length > 0);
    for (const { key, live, used } of this.#live.values()) {
      const [connections, amount] = this.#rates[key] ?? [0, 0];
      setText(live, `${rate(connections)}/s  ${bytes(amount)}/s`);
      used.style.width = `${most ? (connections / most) * 100 : 0}%`;
    }
    this.#arrows.resize();
  }

  /** All arrows: who it leads from and to, and what a click on it is about. */
  #links() {
    const links = [];
    for (const group of this.#groups) {
      for (const route of group.routes) {
        links.push({ part: route.id, column: 1, from: `client:${route.origin}`, to: group.frontend, kind: group.kind, origin: route.origin, label: `from ${route.origin}: ${route.words}` });
      }
      links.push({ part: group.id, from: group.frontend, to: group.id, kind: group.kind });
      if (group.pool) links.push({ part: group.id, from: group.id, to: group.pool, kind: group.kind });
    }
    for (const it of this.#answer.shares) {
      if (!this.#boxes.has(it.pool) || !this.#boxes.has(it.endpoint)) continue;
      links.push({ part: it.id, column: 5, from: it.pool, to: it.endpoint, kind: "share", share: it.share, label: `${percent(it.share)} of new connections` });
    }
    return links;
  }

  #clicked(event) {
    const part = event.target.closest("[data-part]")?.dataset.part;
    if (part) this.#open(part === this.#part ? null : part);
  }

  /** The group of routes that a part is or belongs to. */
  group(part) {
    return this.#groups.find(({ id, routes }) => id === part || routes.some((route) => route.id === part)) ?? null;
  }

  /** The ids that a mode's lines are tagged with, for what is chosen. */
  chosen() {
    if (!this.#part) return { ids: [], title: null };
    const title = this.#grid.querySelector(`[data-part="${CSS.escape(this.#part)}"][aria-label]`)?.getAttribute("aria-label") ?? null;
    const group = this.#groups.find(({ id }) => id === this.#part);
    if (group) return { ids: group.routes.map(({ id }) => id), title };
    const share = this.#answer.shares.find(({ id }) => id === this.#part);
    if (share) return { ids: [share.endpoint], title };
    if (this.#part.startsWith("client:")) {
      const routes = this.#groups.flatMap((it) => it.routes).filter(({ origin }) => `client:${origin}` === this.#part);
      return { ids: routes.map(({ id }) => id), title };
    }
    return { ids: [this.#part], title };
  }

  choose(part) {
    this.#part = part;
    for (const element of this.#grid.querySelectorAll("[data-part]")) element.setAttribute("aria-pressed", element.dataset.part === part);
    const stops = [...this.#grid.querySelectorAll("[data-part][role=button]")];
    const stop = stops.find((it) => it.dataset.part === part) ?? stops[0];
    for (const it of stops) it.setAttribute("tabindex", it === stop ? "0" : "-1");
    this.#light(null);
  }

  /** Everything on the path of the part under the pointer, else of the chosen one, is lit; the rest steps back. */
  #light(target) {
    const part = target?.closest?.("[data-part]")?.dataset.part ?? this.#part;
    const lit = part ? this.#way(part) : null;
    this.#grid.classList.toggle("is-lit", lit !== null);
    this.#showShares(lit);
    for (const element of this.#grid.querySelectorAll("[data-part]")) {
      const isOn = lit?.has(element.dataset.part) && (!element.dataset.ends || element.dataset.ends.split(" ").every((end) => lit.has(end)));
      element.classList.toggle("lit", Boolean(isOn));
    }
  }

  /** The share of each endpoint: of the pools that are lit, else of all. */
  #showShares(lit) {
    for (const [endpoint, element] of this.#shareTexts) {
      const all = this.#answer.shares.filter((it) => it.endpoint === endpoint && this.#boxes.has(it.pool));
      const some = lit ? all.filter((it) => lit.has(it.id)) : [];
      const shares = new Set((some.length ? some : all).map(({ share }) => percent(share)));
      setText(element, [...shares].join(" or "));
    }
  }

  #way(part) {
    const lit = new Set([part]);
    const shares = this.#answer.shares;
    const groups = this.#groups.filter((group) => [group.id, group.frontend, group.pool, ...group.routes.map(({ id }) => id)].includes(part)
      || group.routes.some(({ origin }) => `client:${origin}` === part)
      || shares.some((it) => it.pool === group.pool && (it.id === part || it.endpoint === part)));
    for (const group of groups) {
      [group.id, group.frontend, group.pool].forEach((id) => id && lit.add(id));
      const isOne = group.routes.some(({ id, origin }) => id === part || `client:${origin}` === part);
      const routes = isOne ? group.routes.filter(({ id, origin }) => id === part || `client:${origin}` === part) : group.routes;
      routes.forEach(({ id, origin }) => lit.add(id).add(`client:${origin}`));
      const isAboutOne = shares.some((it) => it.id === part || it.endpoint === part);
      shares.filter((it) => it.pool === group.pool && (!isAboutOne || it.id === part || it.endpoint === part)).forEach((it) => lit.add(it.id).add(it.endpoint));
    }
    return lit;
  }

  #key(event) {
    const part = event.target.closest("[data-part]");
    if (!part) return;
    const moves = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };
    if (event.key === "Enter" || event.key === " ") this.#open(part.dataset.part === this.#part ? null : part.dataset.part);
    else if (event.key in moves) this.#move(part, ...moves[event.key]);
    else return;
    event.preventDefault();
  }

  /** Up and down within a column; left and right to the nearest part of the next column that has any. */
  #move(part, across, along) {
    const stops = [...this.#grid.querySelectorAll("[data-part][role=button]")];
    const column = Number(part.dataset.column);
    const middle = (it) => { const box = it.getBoundingClientRect(); return box.top + box.height / 2; };
    const inColumn = (number) => stops.filter((it) => Number(it.dataset.column) === number).sort((a, b) => middle(a) - middle(b));
    let next = null;
    if (along) next = inColumn(column)[inColumn(column).indexOf(part) + along];
    for (let number = column + across; across && !next && number >= 0 && number <= 6; number += across) {
      next = inColumn(number).sort((a, b) => Math.abs(middle(a) - middle(part)) - Math.abs(middle(b) - middle(part)))[0];
    }
    if (!next) return;
    stops.forEach((it) => it.setAttribute("tabindex", it === next ? "0" : "-1"));
    next.focus();
  }
}
