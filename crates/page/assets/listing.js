// Objects as the mode's own tool prints them, with the lines of what is chosen highlighted: of the active mode, or of every
// mode side by side.

import { h, put } from "./dom.js";
import { plural } from "./format.js";

// So few lines of other objects are left out without a number.
const FEW = 3;

export class Listings {
  element;
  #isOfAll;
  #shown = [];
  #ids = [];
  #text = null;

  constructor(isOfAll) {
    this.#isOfAll = isOfAll;
    this.element = h("div", { class: isOfAll ? "listings all" : "listings" });
  }

  /** Listings that have not changed keep their place. */
  set({ modes }) {
    const text = JSON.stringify(modes);
    if (text === this.#text) return;
    this.#text = text;
    const wanted = this.#isOfAll ? modes : modes.filter(({ is_active: isActive }) => isActive);
    this.#shown = wanted.map(listing);
    put(this.element, this.#shown.map(({ panel }) => panel));
    this.mark(this.#ids);
  }

  /** Highlights the lines that have one of these ids, and scrolls to the first in each listing. */
  mark(ids) {
    this.#ids = ids;
    const wanted = new Set(ids);
    for (const { lines, pre, note } of this.#shown) {
      const marked = lines.filter(({ tags, element }) => {
        const isMarked = tags.some((tag) => wanted.has(tag));
        element.classList.toggle("marked", isMarked);
        return isMarked;
      });
      note.textContent = ids.length ? (marked.length ? `${marked.length} highlighted` : "nothing of its own for this") : "";
      const first = marked[0]?.element;
      if (first) pre.scrollTop = Math.max(0, first.offsetTop - pre.clientHeight / 3);
    }
  }
}

function listing(mode) {
  const lines = mode.lines.map((line) => ({ tags: line.tags, element: lineOf(line) }));
  const pre = h("pre", { class: "listing", tabindex: "0", "aria-label": `${mode.mode} mode${mode.tool ? `: ${mode.tool}` : ""}` }, lines.map(({ element }) => element));
  const note = h("span", { class: "dim small", role: "status" });
  const panel = h("section", { class: "panel", "aria-label": `Objects of ${mode.mode} mode` },
    h("header", null, h("h3", null, mode.mode), mode.is_active ? h("span", { class: "chip accent" }, "active") : null,
      mode.missing ? h("span", { class: "chip warn", title: mode.missing }, "cannot run here") : null,
      mode.tool ? h("code", { class: "dim" }, mode.tool) : null, h("span", { class: "push" }, note)),
    lines.length ? pre : h("p", { class: "empty" }, "no objects"));
  return { panel, lines, pre, note };
}

function lineOf({ text, kind, count }) {
  const line = h("span", { class: `code-line ${kind}` });
  if (kind === "omitted") line.append(h("span", { title: text }, count > FEW ? `⋯ ${plural(count, "line")} of other objects` : "⋯"));
  else line.append(...colour(text.replaceAll("\t", "    ")));
  return line;
}

// Addresses and what leads onward are what the eye looks for in rules.
const TOKENS = /("[^"]*")|(\b\d{1,3}(?:\.\d{1,3}){3}(?:\/\d+)?(?::\d+)?\b|\b(?:[0-9a-f]{1,4}:){2,}[0-9a-f:]*)|(?<![\w-])(goto|jump|dnat|masquerade|drop|reject|REJECT|REDIRECT|DROP|DNAT|MASQUERADE|MARK)(?![\w-])/g;

function colour(text) {
  const parts = [];
  let end = 0;
  for (const match of text.matchAll(TOKENS)) {
    if (match.index > end) parts.push(text.slice(end, match.index));
    const name = match[1] ? "code-quote" : match[2] ? "code-address" : "code-verdict";
    parts.push(h("span", { class: name }, match[0]));
    end = match.index + match[0].length;
  }
  if (end < text.length || !parts.length) parts.push(text.slice(end) || " ");
  return parts;
}
