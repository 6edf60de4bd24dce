// Explain: where does this packet go, and why? The question is in the address, so that an answer can be shared.

import { ask } from "./api.js";
import { announce, h, put } from "./dom.js";
import { Combo } from "./combo.js";
import { Path } from "./path.js";

export function explain(context) {
  const view = new ExplainView(context);
  view.follow(context.parameters);
  return view;
}

class ExplainView {
  #signal;
  #source = new Combo({ id: "source", label: "From", side: "source", placeholder: "pod, node, address, client-ip" });
  #destination = new Combo({ id: "destination", label: "To", side: "destination", placeholder: "svc/default/web:http, 10.96.0.10:53/udp" });
  #answer = h("div", { class: "answer" });
  #path = null;
  #packets = [];
  #asked = 0;

  constructor({ root, signal }) {
    this.#signal = signal;
    this.#source.input.setAttribute("data-search", "");
    root.append(
      h("h1", { class: "hidden" }, "Explain"),
      h("form", { class: "panel question", role: "search", "aria-label": "A packet", onsubmit: (event) => this.#submit(event) },
        this.#source.element, h("span", { class: "to", "aria-hidden": "true" }, "→"), this.#destination.element,
        h("button", { class: "button primary", type: "submit" }, "Explain")),
      this.#answer);
  }

  follow(parameters) {
    this.#source.value = parameters.get("source") ?? "";
    this.#destination.value = parameters.get("destination") ?? "";
    if (this.#source.value && this.#destination.value) this.#ask(Number(parameters.get("packet") ?? 0));
    else this.#invite();
  }

  key(event) {
    this.#path?.key(event);
  }

  close() {
    this.#path?.close();
  }

  #invite() {
    const missing = this.#destination.value && !this.#source.value ? this.#source : this.#destination.value ? null : this.#source;
    const example = (source, destination) => h("li", null, h("a", { class: "mono", href: addressOf(source, destination) }, `${source} → ${destination}`));
    put(this.#answer, h("section", { class: "panel invite" },
      h("p", null, "A question is a source and a destination, by name or by address. The answer shows what the plan decides, what the packet meets in the mode's objects, and whether the two agree."),
      this.#destination.value ? h("ul", null, ["client-ip", "127.0.0.1"].map((source) => example(source, this.#destination.value))) : null));
    missing?.input.focus();
  }

  #submit(event) {
    event.preventDefault();
    if (!this.#source.value || !this.#destination.value) {
      (this.#source.value ? this.#destination : this.#source).input.focus();
      return;
    }
    const address = addressOf(this.#source.value, this.#destination.value);
    if (location.hash === address) this.#ask(0);
    else location.hash = address;
  }

  async #ask(chosen) {
    const asked = ++this.#asked;
    try {
      const answer = await ask("explain", { source: this.#source.value, destination: this.#destination.value }, this.#signal);
      if (asked === this.#asked) this.#show(answer, chosen);
    } catch (error) {
      if (error.name !== "AbortError" && asked === this.#asked) this.#fail(error);
    }
  }

  #fail(error) {
    this.#path?.close();
    this.#path = null;
    put(this.#answer, h("p", { class: "notice bad lines", role: "alert" }, error.message));
  }

  #show({ packets, omitted }, chosen) {
    this.#packets = packets;
    const at = Math.min(Math.max(0, chosen), packets.length - 1);
    const holder = h("div");
    const choices = packets.length > 1 ? h("div", { class: "packets", role: "group", "aria-label": "Packets" }, packets.map((packet, index) =>
      h("button", { class: "button small", type: "button", "aria-pressed": index === at, onclick: () => this.#show({ packets, omitted }, index) },
        h("span", { class: `state-dot ${outcomeColour(packet)}`, "aria-hidden": "true" }), packet.packet)), omitted ? h("span", { class: "dim" }, `${omitted} more not shown`) : null) : null;
    put(this.#answer, choices, holder);
    this.#path?.close();
    this.#path = new Path(holder, packets[at]);
    announce(packets[at].disagreement ?? packets[at].explanation);
  }
}

export function outcomeColour({ fate, disagreement }) {
  if (disagreement) return "bad";
  return { forward: "good", pass: "" }[fate] ?? "bad";
}

function addressOf(source, destination) {
  return `#/explain?${new URLSearchParams({ source, destination })}`;
}
