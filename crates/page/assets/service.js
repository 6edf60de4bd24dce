// A Service: the picture, what is behind each of its parts, and the objects of the mode, or of every mode side by side.

import { ask } from "./api.js";
import { announce, h, patch, put } from "./dom.js";
import { bytes, count, duration, plural, rate } from "./format.js";
import { addressOf } from "./services.js";
import { behind } from "./behind.js";
import { Connections } from "./connections.js";
import { Listings } from "./listing.js";
import { Picture } from "./picture.js";
import { sparkline } from "./spark.js";

const KEPT_RATES = 90;

export function service(context) {
  const view = new ServiceView(context);
  view.load();
  return view;
}

class ServiceView {
  #context;
  #name;
  #isInEveryMode;
  #answer = null;
  #isLoading = false;
  #isOld = false;
  #port = null;
  #part;
  #rates = [];
  #listings;
  #picture;
  #connections;
  #head = h("header", { class: "service-head" });
  #ports = h("div", { class: "port-list", role: "group", "aria-label": "Ports" });
  #behind = h("section", { class: "panel behind", "aria-label": "Behind it", "aria-live": "polite" });
  #problem = h("div");
  #numbers = h("div", { class: "numbers" });

  constructor(context) {
    const { root, parts, parameters, on } = context;
    this.#context = context;
    this.#name = `${parts[0]}/${parts[1]}`;
    this.#isInEveryMode = parts[2] === "modes";
    this.#part = parameters.get("part");
    this.#port = parameters.get("port");
    this.#listings = new Listings(this.#isInEveryMode);
    this.#picture = new Picture((part) => this.#choose(part));
    this.#connections = new Connections(this.#name);
    root.classList.toggle("every-mode", this.#isInEveryMode);
    root.append(this.#head, this.#problem, h("section", { class: "panel picture-panel", "aria-label": "Picture" },
      h("header", null, h("h2", null, "The path of a connection"), this.#ports, legend()), this.#picture.element),
    h("div", { class: "evidence" }, this.#behind, this.#listings.element), this.#isInEveryMode ? null : this.#connections.element);
    on("services", ({ detail }) => this.#mayHaveChanged(detail));
    on("changes", ({ detail }) => this.#mayHaveChanged(detail));
    on("connected", ({ detail }) => { if (detail.isRestarted || this.#answer?.change !== context.store.overview.change) this.load(); });
    on("rates", ({ detail }) => this.#addRate(detail));
    on("service", ({ detail }) => this.#picture.rates(detail));
  }

  /** Asks again; while an answer is under way, the next question waits for it. */
  async load() {
    if (this.#isLoading) {
      this.#isOld = true;
      return;
    }
    this.#isLoading = true;
    this.#isOld = false;
    await this.#ask();
    this.#isLoading = false;
    if (this.#isOld) this.load();
  }

  async #ask() {
    const { signal } = this.#context;
    try {
      const [answer, modes] = await Promise.all([
        ask("service", { name: this.#name }, signal), ask("service/modes", { name: this.#name }, signal)]);
      this.#answer = answer;
      this.#listings.set(modes);
      put(this.#problem);
      this.#show();
    } catch (error) {
      if (error.name !== "AbortError") this.#fail(error);
    }
  }

  #fail(error) {
    this.#showHead();
    put(this.#problem, h("p", { class: "notice bad", role: "alert" }, error.message));
  }

  /** A change that names this Service: its picture is asked for again. */
  #mayHaveChanged(detail) {
    if (!detail) return;
    const names = [...(detail.rows ?? []).map((row) => row[0]), ...(detail.removed ?? []), ...(detail.changes ?? []).flatMap((change) => change.services)];
    const isMore = detail.reload || (detail.changes ?? []).some((change) => change.more_services > 0);
    if (names.includes(this.#name) || isMore) this.load();
  }

  follow(parameters) {
    this.#part = parameters.get("part");
    this.#port = parameters.get("port") ?? this.#port;
    if (this.#answer) this.#show();
  }

  key(event) {
    if (event.key === "m") location.hash = this.#address(!this.#isInEveryMode);
    if (event.key === "Escape") this.#choose(null);
  }

  close() {
    this.#picture.close();
  }

  #address(isInEveryMode) {
    const parameters = new URLSearchParams();
    if (this.#part) parameters.set("part", this.#part);
    if (this.#port && this.#answer?.ports.length > 1) parameters.set("port", this.#port);
    const query = parameters.toString();
    return `${addressOf(this.#name)}${isInEveryMode ? "/modes" : ""}${query ? `?${query}` : ""}`;
  }

  #show() {
    const { ports } = this.#answer;
    if (!ports.some(({ id }) => id === this.#port)) this.#port = ports[0]?.id ?? null;
    this.#showHead();
    this.#showPorts();
    this.#picture.set(this.#answer, this.#port);
    this.#mark();
  }

  #choose(part) {
    this.#part = part;
    history.replaceState(null, "", this.#address(this.#isInEveryMode));
    this.#mark();
  }

  /** Shows what is chosen in the picture, in the panel beside the objects, and in the objects. */
  #mark() {
    this.#picture.choose(this.#part);
    const { ids, title } = this.#picture.chosen();
    this.#listings.mark(ids);
    patch(this.#behind, behind(this.#answer, this.#part, this.#picture.group(this.#part)));
    if (title) announce(title);
  }

  #showHead() {
    const [namespace, name] = this.#name.split("/");
    const modes = h("a", { class: "button", href: this.#address(!this.#isInEveryMode), "aria-pressed": this.#isInEveryMode, title: "m" }, this.#isInEveryMode ? "Only this mode" : "In every mode");
    const explain = h("a", { class: "button", href: `#/explain?destination=${encodeURIComponent(`svc/${this.#name}`)}` }, "Explain a packet");
    put(this.#head,
      h("div", null, h("nav", { class: "crumbs", "aria-label": "Path" }, h("a", { href: "#/" }, "Services"), " / ", namespace),
        h("h1", null, name), this.#answer ? h("div", { class: "chips" }, chips(this.#answer)) : null),
      this.#numbers, h("div", { class: "actions" }, explain, modes));
    this.#showNumbers();
  }

  #showPorts() {
    const { ports } = this.#answer;
    const families = new Set(ports.map(({ family }) => family));
    const label = (port) => `${port.name ? `${port.name} ` : ""}${port.number}/${port.protocol}${families.size > 1 ? ` ${port.family}` : ""}`;
    const button = (port) => h("button", {
      class: "button small", type: "button", "aria-pressed": port.id === this.#port,
      onclick: () => { this.#port = port.id; this.#part = null; this.#show(); history.replaceState(null, "", this.#address(this.#isInEveryMode)); },
    }, label(port));
    put(this.#ports, ports.length > 1 ? ports.map(button) : ports.map((port) => h("span", { class: "chip mono" }, label(port))));
  }

  #addRate({ services }) {
    this.#rates.push(services[this.#name] ?? [0, 0, 0]);
    this.#rates.splice(0, this.#rates.length - KEPT_RATES);
    this.#showNumbers();
  }

  #showNumbers() {
    const last = this.#rates.at(-1);
    if (!last) {
      put(this.#numbers);
      return;
    }
    const chart = (at) => sparkline(this.#rates.map((rates) => rates[at]), { width: 120, height: 26, label: "the last minutes" });
    const number = (value, words, at) => h("div", { class: "number-tile" }, h("strong", null, value), h("span", { class: "dim" }, words), this.#rates.length > 2 ? chart(at) : null);
    put(this.#numbers, number(rate(last[0]), "new conn/s", 0), number(bytes(last[1]), "bytes/s", 1));
  }
}

function chips(answer) {
  const chip = (text, title = "", colour = "") => h("span", { class: `chip ${colour}`, title }, text);
  const endpoints = answer.endpoints.length + answer.omitted_endpoints;
  const inUse = answer.endpoints.filter(({ state }) => state === "in use").length;
  const port = answer.ports[0];
  return [
    chip(answer.type),
    answer.internal_policy === "Local" ? chip("internal: Local", "spec.internalTrafficPolicy", "accent") : null,
    answer.external_policy === "Local" ? chip("external: Local", "spec.externalTrafficPolicy", "accent") : null,
    port?.affinity_seconds ? chip(`affinity ${duration(port.affinity_seconds)}`, "spec.sessionAffinity") : null,
    port?.algorithm ? chip(port.algorithm, "how new connections are shared") : null,
    port?.health_check_port ? chip(`health check ${port.health_check_port}`, "spec.healthCheckNodePort") : null,
    answer.ports.length ? chip(answer.omitted_endpoints ? plural(endpoints, "endpoint") : `${count(inUse)} of ${plural(endpoints, "endpoint")} in use`, "", inUse ? "good" : "bad") : null,
    ...answer.conflicts.map((text) => chip(text, "", "bad")),
    ...answer.notes.map((text) => chip(text, "", "warn")),
  ];
}

function legend() {
  const item = (name, text) => h("span", { class: `legend-item ${name}` }, h("i", { "aria-hidden": "true" }), text);
  return h("span", { class: "legend push" }, item("kept", "source kept"), item("masqueraded", "masqueraded"), item("refused", "refused"));
}

