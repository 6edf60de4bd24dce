// Arrows between boxes: curves in an SVG picture that lies over them, drawn again when the boxes move.

import { put, s } from "./dom.js";

export class Arrows {
  element = s("svg", { class: "arrows" });
  #grid;
  #links = [];
  #boxes = new Map();
  #frame = 0;
  #observer;

  constructor(grid) {
    this.#grid = grid;
    this.#observer = new ResizeObserver(() => this.resize());
    this.#observer.observe(grid);
  }

  close() {
    this.#observer.disconnect();
  }

  set(links, boxes) {
    this.#links = links;
    this.#boxes = boxes;
    put(this.element, links.map((link) => {
      link.line = s("path", { class: "arrow-line" });
      link.head = s("path", { class: "arrow-head" });
      link.hit = s("path", { class: "arrow-hit" });
      link.text = s("text", { class: "arrow-text" });
      const isPart = link.column !== undefined;
      link.element = s("g", {
        class: `arrow ${link.kind} ${link.origin ?? ""}`, "data-part": link.part, "data-ends": `${link.from} ${link.to}`,
        ...(isPart ? { role: "button", tabindex: "-1", "data-column": link.column, "aria-label": link.label, "aria-pressed": "false" } : { "aria-hidden": "true" }),
      }, s("title", null, link.label ?? ""), link.hit, link.line, link.head);
      return link.element;
    }));
    this.resize();
  }

  resize() {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#draw();
    });
  }

  #draw() {
    const origin = this.#grid.getBoundingClientRect();
    if (!origin.width) return;
    const places = new Map();
    for (const [id, box] of this.#boxes) {
      const { left, right, top, bottom } = box.getBoundingClientRect();
      places.set(id, { left: left - origin.left, right: right - origin.left, top: top - origin.top, bottom: bottom - origin.top });
    }
    const starts = spread(this.#links, "from", "to", places);
    const ends = spread(this.#links, "to", "from", places);
    for (const link of this.#links) {
      const from = places.get(link.from);
      const to = places.get(link.to);
      if (from && to) curve(link, from.right, starts.get(link), to.left, ends.get(link));
    }
  }
}

/** Where on the side of its box each arrow starts or ends: in the order of the other ends, around the middle. */
function spread(links, end, other, places) {
  const byBox = Map.groupBy(links.filter((link) => places.has(link.from) && places.has(link.to)), (link) => link[end]);
  const heights = new Map();
  for (const [id, list] of byBox) {
    const { top, bottom } = places.get(id);
    const middle = (link) => (places.get(link[other]).top + places.get(link[other]).bottom) / 2;
    list.sort((a, b) => middle(a) - middle(b));
    const step = Math.min(11, (bottom - top - 12) / list.length);
    list.forEach((link, at) => heights.set(link, (top + bottom) / 2 + (at - (list.length - 1) / 2) * step));
  }
  return heights;
}

function curve({ line, head, hit, share }, x1, y1, x2, y2) {
  const tip = x2 - 2;
  const bend = Math.max(18, (tip - x1) * 0.5);
  const path = `M${x1} ${y1}C${x1 + bend} ${y1} ${tip - bend} ${y2} ${tip - 5} ${y2}`;
  line.setAttribute("d", path);
  hit.setAttribute("d", path);
  head.setAttribute("d", `M${tip} ${y2}l-7.5 -3.8v7.6z`);
  if (share !== undefined) line.setAttribute("stroke-width", (1.2 + 3.4 * share).toFixed(2));
}
