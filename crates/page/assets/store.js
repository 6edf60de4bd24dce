// What the page has heard so far. Views read it and listen for its events: overview, services, rates, changes, service, live,
// and `connected`, after which something may have changed unheard.

import { ask } from "./api.js";
import { Live } from "./live.js";

const KEPT_CHANGES = 1000;
const NO_RATES = Object.freeze([0, 0, 0]);

export class Store extends EventTarget {
  overview = null;
  /** Services sorted by name, and by name. */
  services = null;
  #byName = new Map();
  changes = [];
  hasRates = false;
  live = { state: "connecting" };
  #connection = null;
  #service = undefined;
  #loading = null;
  #servicesChange = 0;
  #isNewConnection = true;
  #started = null;

  /** Opens the stream of events, also for the endpoints of one Service. */
  follow(service = null) {
    if (service === this.#service) return;
    this.#service = service;
    this.#connection?.end();
    const address = service ? `api/events?service=${encodeURIComponent(service)}` : "api/events";
    const events = ["overview", "changes", "services", "rates", "service"];
    this.#connection = new Live(address, events, (name, data) => this.#hear(name, data), (state, seconds) => this.#follow(state, seconds));
  }

  #follow(state, seconds) {
    this.live = { state, seconds };
    if (state === "live") this.#isNewConnection = true;
    this.#tell("live");
  }

  /** What happened before the connection: a later change would be heard of. A server that was restarted counts from 1 again. */
  #catchUp({ change, started_unix_ms: started }) {
    this.#isNewConnection = false;
    const isRestarted = this.#started !== null && this.#started !== started;
    this.#started = started;
    if (isRestarted) this.changes = [];
    if (this.services && (isRestarted || this.#servicesChange !== change)) this.loadServices().catch(() => {});
    if (isRestarted || (this.changes.length && this.changes.at(-1).number !== change)) this.loadChanges().catch(() => {});
    this.#tell("connected", { isRestarted });
  }

  #hear(name, data) {
    if (name === "overview") this.overview = data;
    if (name === "changes") this.#addChanges(data.changes);
    if (name === "services") this.#changeServices(data);
    if (name === "rates") this.#setRates(data.services);
    this.#tell(name, data);
    if (name === "overview" && this.#isNewConnection) this.#catchUp(data);
  }

  #tell(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }

  async loadOverview() {
    this.overview = await ask("overview");
    this.#tell("overview");
  }

  /** Loads the table of Services; calls at the same time share one request. */
  loadServices() {
    this.#loading ??= ask("services").then((answer) => {
      const before = this.#byName;
      this.#servicesChange = answer.change;
      this.#byName = new Map();
      this.services = answer.services.map((row) => this.#add(row, before.get(row[0])?.rates));
      this.#tell("services");
    }).finally(() => { this.#loading = null; });
    return this.#loading;
  }

  #add([name, type, address, ports, ready, total, state, detail], rates = NO_RATES) {
    const text = `${name} ${type} ${address} ${ports} ${state} ${detail}`.toLowerCase();
    const service = { name, type, address, ports, ready, total, state, detail, text, rates };
    this.#byName.set(name, service);
    return service;
  }

  #changeServices({ rows, removed, reload, change }) {
    if (!this.services) return;
    if (reload) {
      this.loadServices().catch(() => {});
      return;
    }
    this.#servicesChange = change;
    for (const name of removed) this.#byName.delete(name);
    for (const row of rows) this.#add(row, this.#byName.get(row[0])?.rates);
    this.services = [...this.#byName.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  #setRates(rates) {
    this.hasRates = true;
    for (const service of this.#byName.values()) service.rates = rates[service.name] ?? NO_RATES;
  }

  async loadChanges() {
    const answer = await ask("changes", { after: this.changes.at(-1)?.number ?? 0, limit: KEPT_CHANGES });
    this.#addChanges(answer.changes);
    this.#tell("changes");
  }

  #addChanges(changes) {
    const newest = this.changes.at(-1)?.number ?? 0;
    this.changes.push(...changes.filter((change) => change.number > newest));
    this.changes.splice(0, Math.max(0, this.changes.length - KEPT_CHANGES));
  }
}
