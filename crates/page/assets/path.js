// The path of one packet: two lanes, the plan's decisions and what the packet meets in the objects, which lead to one outcome
// and from there to the endpoints. A mark moves along the lanes step by step; every step is text.

import { h, put, s, wantsNoMotion } from "./dom.js";
import { duration, percent } from "./format.js";

const STEP = 620;

export class Path {
  #packet;
  #stops = [];
  #at = 0;
  #timer = 0;
  #button;
  #lanes;
  #merge = s("svg", { class: "merge-lines", "aria-hidden": "true" });
  #fan = s("svg", { class: "fan", "aria-hidden": "true" });
  #observer;

  constructor(root, packet) {
    this.#packet = packet;
    this.#button = h("button", { class: "button small", type: "button", onclick: () => this.#toggle() }, "Play");
    this.#lanes = [lane("The plan decides", packet.decisions, "plan"), lane(`Met in ${packet.objects_from}`, packet.objects, packet.disagreement ? "kernel bad" : "kernel")];
    const element = h("section", { class: `panel path ${packet.disagreement ? "disagrees" : ""}`, "aria-label": "The path of the packet" },
      this.#head(), this.#warning(), h("div", { class: "lanes" }, this.#lanes.map((it) => it.element)), this.#outcome());
    put(root, element);
    this.#stops = this.#order();
    this.#observer = new ResizeObserver(() => this.#draw());
    this.#observer.observe(element);
    if (wantsNoMotion()) this.#go(this.#stops.length);
    else this.#play(0);
  }

  close() {
    clearTimeout(this.#timer);
    this.#observer.disconnect();
  }

  #head() {
    const { packet, source_name: source, destination_name: destination, service } = this.#packet;
    const [from, to] = packet.split(" -> ");
    const place = (name, address) => h("span", { class: "end" }, name ? h("strong", null, name) : null, h("span", { class: "mono" }, address));
    const command = `portolan explain ${source ?? from} ${destination ?? to}`;
    return h("header", null, h("div", { class: "ends" }, place(source, from), h("span", { class: "to", "aria-hidden": "true" }, "→"), place(destination, to)),
      service ? h("a", { class: "chip accent", href: `#/service/${service.split(":")[0].split("/").map(encodeURIComponent).join("/")}` }, service) : null,
      h("span", { class: "push player" }, h("code", { class: "dim command", title: "The same in a terminal" }, command),
        h("button", { class: "button small", type: "button", "aria-label": "One step back", onclick: () => this.#step(-1) }, "‹"), this.#button,
        h("button", { class: "button small", type: "button", "aria-label": "One step on", onclick: () => this.#step(1) }, "›")));
  }

  #warning() {
    const { disagreement } = this.#packet;
    return disagreement ? h("p", { class: "notice bad disagreement", role: "alert" }, h("strong", null, "Plan and kernel disagree. "), disagreement) : null;
  }

  #outcome() {
    const { fate, explanation, advice, candidates, notes, reason, disagreement } = this.#packet;
    const colour = disagreement ? "bad" : { forward: "good", pass: "" }[fate] ?? "bad";
    const [what, why] = sentence(explanation);
    const details = [this.#packet.algorithm && `by the algorithm ${this.#packet.algorithm}`,
      this.#packet.affinity_seconds && `a client stays with its endpoint for ${duration(this.#packet.affinity_seconds)}`].filter(Boolean);
    this.outcome = h("div", { class: `outcome ${colour} stop` }, h("strong", null, what), reason ? h("span", { class: "chip mono" }, reason) : null,
      why ? h("p", null, why) : null, details.map((text) => h("p", { class: "dim" }, text)),
      advice.length ? h("div", { class: "advice" }, h("h2", null, "What to look at"), h("ul", null, advice.map((text) => h("li", null, text)))) : null);
    this.candidates = candidates.map(candidate);
    return h("div", { class: "end-of-path" }, this.#merge, this.outcome, candidates.length ? this.#fan : null,
      candidates.length ? h("ul", { class: "path-endpoints" }, this.candidates) : null,
      notes.length ? h("ul", { class: "notes dim" }, notes.map((note) => h("li", null, note))) : null);
  }

  /** Steps of both lanes in turn, then the outcome, then all endpoints at once. */
  #order() {
    const stops = [];
    const [plan, kernel] = this.#lanes.map((it) => it.steps);
    for (let at = 0; at < Math.max(plan.length, kernel.length); at += 1) stops.push([plan[at], kernel[at]].filter(Boolean));
    stops.push([this.outcome]);
    if (this.candidates.length) stops.push(this.candidates);
    return stops;
  }

  #play(from) {
    this.#go(from);
    this.#tick();
  }

  #tick() {
    clearTimeout(this.#timer);
    if (this.#at >= this.#stops.length) {
      this.#button.textContent = "Replay";
      return;
    }
    this.#button.textContent = "Pause";
    this.#timer = setTimeout(() => {
      this.#go(this.#at + 1);
      this.#tick();
    }, STEP);
  }

  #toggle() {
    if (this.#button.textContent === "Pause") this.#stop();
    else this.#play(this.#at >= this.#stops.length ? 0 : this.#at);
  }

  #stop() {
    clearTimeout(this.#timer);
    this.#button.textContent = this.#at >= this.#stops.length ? "Replay" : "Play";
  }

  #step(by) {
    this.#go(Math.min(this.#stops.length, Math.max(0, this.#at + by)));
    this.#stop();
  }

  key(event) {
    const onButton = event.target.closest("button, a");
    if (event.key === "ArrowRight") this.#step(1);
    else if (event.key === "ArrowLeft") this.#step(-1);
    else if (event.key === " " && !onButton) this.#toggle();
    else return;
    event.preventDefault();
  }

  /** Shows the first `at` stops as passed, and the last of them as the present one. */
  #go(at) {
    this.#at = at;
    this.#stops.forEach((elements, index) => {
      for (const element of elements) {
        element.classList.toggle("passed", index < at);
        element.classList.toggle("present", index === at - 1 && at < this.#stops.length);
      }
    });
    this.#merge.classList.toggle("passed", at >= this.#stops.indexOf(this.#stops.find((it) => it[0] === this.outcome)) + 1);
    this.#fan.classList.toggle("passed", at >= this.#stops.length);
    this.#draw();
  }

  /** The lines from both lanes to the outcome, and from there to the endpoints of the first row. */
  #draw() {
    const to = middle(this.outcome);
    lines(this.#merge, this.#lanes.map(({ element, steps }) => {
      const start = steps.length ? spine(steps[0]) : middle(element);
      return { from: start, to, kind: element.classList.contains("bad") ? "bad" : "", width: 2 };
    }));
    const top = this.candidates[0]?.getBoundingClientRect().top;
    const row = this.candidates.filter((it) => it.getBoundingClientRect().top === top);
    lines(this.#fan, row.map((element, at) => {
      const { probability, masquerade } = this.#packet.candidates[at];
      return { from: to, to: middle(element), kind: masquerade ? "masqueraded" : "", width: 1.3 + 4 * probability };
    }));
  }
}

const middle = (element) => { const { left, width } = element.getBoundingClientRect(); return left + width / 2; };

/** Where the line of a lane is: at the side of its steps that has the room for it. */
function spine(step) {
  const { left, right } = step.getBoundingClientRect();
  return parseFloat(getComputedStyle(step).paddingLeft) > 0 ? left + 10 : right - 10;
}

/** Curves from the upper edge of a drawing to its lower edge, each with an arrowhead. */
function lines(drawing, list) {
  const { left, width, height } = drawing.getBoundingClientRect();
  if (!width || !height) return;
  drawing.setAttribute("viewBox", `0 0 ${width} ${height}`);
  put(drawing, list.map(({ from, to, kind, width: stroke }) => {
    const [x1, x2] = [from - left, to - left];
    return [s("path", { class: `fan-line ${kind}`, d: `M${x1} 0C${x1} ${height * 0.6} ${x2} ${height * 0.35} ${x2} ${height - 7}`, "stroke-width": stroke.toFixed(2) }),
      s("path", { class: `fan-head ${kind}`, d: `M${x2} ${height}l-4 -8h8z` })];
  }));
}

/** What happens, and why: `dropped without an answer: no endpoint …`. */
function sentence(text) {
  const [what, ...why] = text.split(": ");
  return [what.charAt(0).toUpperCase() + what.slice(1), why.join(": ")];
}

function lane(title, steps, kind) {
  const items = steps.map(({ met, because }) => h("li", { class: "stop step" }, h("p", { class: "met" }, met), h("p", { class: "because" }, because.replace(/^ : /, ""))));
  const element = h("section", { class: `lane ${kind}` }, h("h2", null, title), items.length ? h("ol", null, items) : h("p", { class: "dim pad" }, "nothing"));
  return { element, steps: items };
}

function candidate({ endpoint, probability, masquerade, pod }) {
  const used = h("span", { class: "bar-used" });
  used.style.width = `${probability * 100}%`;
  return h("li", { class: "stop endpoint-row" }, h("span", { class: "line" }, h("strong", null, pod ? pod.split("/").at(-1) : endpoint), h("span", { class: "share" }, percent(probability))),
    h("span", { class: "line dim small" }, h("span", { class: "mono" }, endpoint), h("span", null, masquerade ? "sees the node's address" : "sees the client's address")),
    h("span", { class: "bar", "aria-hidden": "true" }, used));
}
