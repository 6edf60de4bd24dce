// Open connections of a Service, on demand: who answers which client.

import { ask } from "./api.js";
import { h, put } from "./dom.js";
import { bytes, duration, plural } from "./format.js";

const SHOWN = 200;

export class Connections {
  #name;
  #body = h("div");

  constructor(name) {
    this.#name = name;
    this.element = h("section", { class: "panel connections", "aria-label": "Open connections" },
      h("header", null, h("h2", null, "Open connections"), h("span", { class: "push" },
        h("button", { class: "button small", type: "button", onclick: () => this.load() }, "Show"))), this.#body);
  }

  async load() {
    try {
      this.#show(await ask("connections", { service: this.#name, limit: SHOWN }));
    } catch (error) {
      put(this.#body, h("p", { class: "empty" }, error.message));
    }
  }

  #show({ connections, total, gone, notes }) {
    const head = ["Client", "Frontend", "Endpoint", "Age", "From client", "To client", "State"].map((title) => h("th", { scope: "col" }, title));
    const table = h("table", null, h("thead", null, h("tr", null, head)), h("tbody", null, connections.map(row)));
    const words = `${plural(total, "connection")}${gone ? `, ${gone} to endpoints that are gone` : ""}${total > connections.length ? `; ${connections.length} shown` : ""}`;
    put(this.#body, h("p", { class: "dim pad", role: "status" }, words), notes.map((note) => h("p", { class: "dim pad" }, note)),
      connections.length ? h("div", { class: "scroll-x" }, table) : null);
  }
}

function row(it) {
  const cell = (value, pod = null) => h("td", { class: "mono" }, value ?? "–", pod ? h("span", { class: "dim" }, `  ${pod}`) : null);
  const isGone = it.endpoint_state === "gone";
  return h("tr", { class: isGone ? "bad-text" : "" }, cell(it.client, it.client_pod), cell(it.frontend), cell(it.endpoint, it.endpoint_pod),
    cell(duration(it.age_seconds)), cell(bytes(it.bytes_from_client)), cell(bytes(it.bytes_to_client)), h("td", null, isGone ? `${it.state}, endpoint gone` : it.state));
}
