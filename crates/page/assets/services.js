// The table of Services: ten thousand rows, of which the visible ones exist; search and order are in the address.

import { h, setText } from "./dom.js";
import { bytes, count, rate } from "./format.js";
import { Rows } from "./rows.js";

const byText = (field) => (a, b) => (a[field] < b[field] ? -1 : a[field] > b[field] ? 1 : 0);
const byRate = (at) => (a, b) => b.rates[at] - a.rates[at];
const isWrong = (service) => (service.state === "ok" || service.state === "no-rules" ? 1 : 0);

const COLUMNS = [
  { key: "name", title: "Service", order: null },
  { key: "type", title: "Type", order: byText("type") },
  { key: "address", title: "Address", order: byText("address") },
  { key: "ports", title: "Ports", order: byText("ports") },
  { key: "state", title: "Endpoints", order: (a, b) => isWrong(a) - isWrong(b) || a.ready - b.ready },
  { key: "connections", title: "New conn/s", order: byRate(0), isNumber: true },
  { key: "bytes", title: "Bytes/s", order: byRate(1), isNumber: true },
  { key: "packets", title: "Packets/s", order: byRate(2), isNumber: true },
];

export const STATES = {
  "ok": ["good", ""], "no-rules": ["", ""], "no-endpoints": ["bad", "no endpoint"], "no-local-endpoints": ["warn", "none on this node"],
  "conflict": ["bad", "address conflict"], "quarantine": ["warn", "some do not answer"],
};

export class ServicesTable {
  #store;
  #rows;
  #field;
  #order;
  #heads;
  #count;

  constructor(store, parameters) {
    this.#store = store;
    this.#field = h("input", {
      class: "field search", type: "search", placeholder: "Search name, address, port, state…", "aria-label": "Search Services", "data-search": true,
      autocomplete: "off", spellcheck: "false", oninput: () => this.#asked(), onkeydown: (event) => this.#key(event),
    });
    this.#count = h("span", { class: "dim count", role: "status" });
    this.#rows = new Rows({ label: "Services", height: 34, columns: COLUMNS.length, make: () => makeRow(store), open: (service) => { location.hash = addressOf(service.name); } });
    this.#heads = h("div", { class: "heads", role: "group", "aria-label": "Order by" }, COLUMNS.map((column) =>
      h("button", { type: "button", class: column.isNumber ? "number" : "", "data-key": column.key, onclick: () => this.#sort(column.key) }, column.title)));
    this.element = h("section", { class: "panel services", "aria-label": "Services" },
      h("header", null, h("h2", null, "Services"), this.#count, h("span", { class: "push" }, this.#field, h("kbd", { "aria-hidden": "true" }, "/"))),
      this.#heads, this.#rows.element);
    this.follow(parameters);
  }

  close() {
    this.#rows.observer.disconnect();
  }

  /** Takes search and order from the address. */
  follow(parameters) {
    this.#field.value = parameters.get("search") ?? "";
    this.#order = COLUMNS.some(({ key }) => key === parameters.get("order")) ? parameters.get("order") : "name";
    this.changed();
  }

  search(text) {
    this.#field.value = text;
    this.#asked();
    this.#field.focus();
  }

  #asked() {
    this.changed();
    this.#remember();
  }

  #sort(key) {
    this.#order = key;
    this.changed();
    this.#remember();
  }

  #remember() {
    const parameters = new URLSearchParams();
    if (this.#field.value) parameters.set("search", this.#field.value);
    if (this.#order !== "name") parameters.set("order", this.#order);
    const query = parameters.toString();
    history.replaceState(null, "", query ? `#/?${query}` : "#/");
  }

  changed() {
    for (const head of this.#heads.children) head.setAttribute("aria-pressed", head.dataset.key === this.#order);
    const services = this.#store.services;
    if (!services) {
      setText(this.#count, "loading…");
      return;
    }
    const found = this.#found(services);
    this.#rows.set(found, (service) => service.name);
    setText(this.#count, found.length === services.length ? count(found.length) : `${count(found.length)} of ${count(services.length)}`);
    this.element.classList.toggle("nothing", found.length === 0);
  }

  #found(services) {
    const words = this.#field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = words.length ? services.filter(({ text }) => words.every((word) => text.includes(word))) : services;
    const { order } = COLUMNS.find(({ key }) => key === this.#order);
    return order ? [...found].sort((a, b) => order(a, b) || byText("name")(a, b)) : found;
  }

  /** New rates: the rows are filled again, and sorted again if a rate decides their order. */
  rates() {
    if (["connections", "bytes", "packets"].includes(this.#order)) this.changed();
    else this.#rows.refresh();
  }

  #key(event) {
    if (event.key === "ArrowDown") {
      this.#rows.element.focus();
      this.#rows.move(0);
    } else if (event.key === "Enter" && this.#rows.items.length) location.hash = addressOf((this.#rows.currentItem ?? this.#rows.items[0]).name);
    else if (event.key === "Escape" && this.#field.value) this.search("");
    else return;
    event.preventDefault();
  }
}

export function addressOf(name) {
  return `#/service/${name.split("/").map(encodeURIComponent).join("/")}`;
}

function makeRow(store) {
  const cell = (name) => h("span", { role: "gridcell", class: name });
  const cells = Object.fromEntries(["name", "type", "address mono", "ports mono", "endpoints", "number c", "number b", "number p"].map((name) => [name.split(" ").at(-1) === "mono" ? name.split(" ")[0] : name.split(" ").at(-1), cell(name)]));
  const link = h("a", { tabindex: "-1" });
  const namespace = h("span", { class: "dim" });
  const name = h("strong");
  link.append(namespace, name);
  cells.name.append(h("span", { class: "state-dot", "aria-hidden": "true" }), link);
  const element = h("div", null, Object.values(cells));
  return { element, fill: (service) => fillRow(service, store, { element, cells, link, namespace, name }) };
}

function fillRow(service, store, { element, cells, link, namespace, name }) {
  const slash = service.name.indexOf("/");
  link.href = addressOf(service.name);
  setText(namespace, service.name.slice(0, slash + 1));
  setText(name, service.name.slice(slash + 1));
  setText(cells.type, service.type);
  setText(cells.address, service.address);
  setText(cells.ports, service.ports);
  cells.ports.title = service.ports;
  const [colour, words] = STATES[service.state] ?? ["warn", service.state];
  element.dataset.colour = colour;
  setText(cells.endpoints, service.state === "no-rules" ? "–" : `${service.ready}/${service.total}${words ? `  ${words}` : ""}`);
  cells.endpoints.title = service.detail;
  const shown = store.hasRates ? [rate, bytes, rate] : [() => "–", () => "–", () => "–"];
  ["c", "b", "p"].forEach((key, at) => {
    setText(cells[key], shown[at](service.rates[at]));
    cells[key].classList.toggle("zero", service.rates[at] === 0);
  });
}
