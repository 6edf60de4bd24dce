// A long table of which only the visible rows exist. Rows have one height, and elements are used again while scrolling, so
// that ten thousand rows cost as much as forty. The list scrolls inside itself; arrow keys move the current row.

import { h } from "./dom.js";

const SPARE = 6;

export class Rows {
  #height;
  #make;
  #open;
  #items = [];
  #shown = new Map();
  #free = [];
  #current = -1;
  #space;
  #frame = 0;

  /**
   * `make()` returns `{ element, fill(item) }`, `open(item)` is called for a click or Enter. `label` is read by a screen
   * reader.
   */
  constructor({ label, height, make, open, columns }) {
    this.#height = height;
    this.#make = make;
    this.#open = open;
    this.id = `rows-${Math.random().toString(36).slice(2)}`;
    this.#space = h("div", { class: "rows-space", role: "presentation" });
    this.element = h("div", {
      class: "rows", role: "grid", tabindex: "0", "aria-label": label, "aria-colcount": columns,
      onscroll: () => this.#later(), onkeydown: (event) => this.#key(event), onclick: (event) => this.#click(event),
      onfocus: () => this.#focus(),
    }, this.#space);
    this.observer = new ResizeObserver(() => this.#later());
    this.observer.observe(this.element);
  }

  get items() {
    return this.#items;
  }

  get currentItem() {
    return this.#items[this.#current];
  }

  /** Shows these items; the current row stays with its item's key. */
  set(items, keyOf = (item) => item) {
    const key = this.#current >= 0 && this.#items[this.#current] ? keyOf(this.#items[this.#current]) : null;
    this.#items = items;
    this.#current = key === null ? -1 : items.findIndex((item) => keyOf(item) === key);
    this.#space.style.height = `${items.length * this.#height}px`;
    this.element.style.setProperty("--content", this.#space.style.height);
    this.element.setAttribute("aria-rowcount", items.length);
    for (const row of this.#shown.values()) row.index = -1;
    this.draw();
  }

  /** Fills the visible rows again, after their items have changed in place. */
  refresh() {
    for (const [index, row] of this.#shown) row.fill(this.#items[index], index);
  }

  #later() {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.draw();
    });
  }

  draw() {
    const top = this.element.scrollTop;
    const first = Math.max(0, Math.floor(top / this.#height) - SPARE);
    const room = Math.ceil((this.element.clientHeight || 600) / this.#height) + 2 * SPARE;
    const last = Math.min(this.#items.length, first + room);
    for (const [index, row] of this.#shown) {
      if (index < first || index >= last) this.#release(index, row);
    }
    for (let index = first; index < last; index += 1) this.#show(index);
    this.#mark();
  }

  #release(index, row) {
    this.#shown.delete(index);
    row.element.hidden = true;
    this.#free.push(row);
  }

  #show(index) {
    let row = this.#shown.get(index);
    if (!row) {
      row = this.#free.pop() ?? this.#create();
      this.#shown.set(index, row);
      row.index = -1;
    }
    if (row.index === index) return;
    row.index = index;
    row.element.hidden = false;
    row.element.id = `${this.id}-${index}`;
    row.element.setAttribute("aria-rowindex", index + 1);
    row.element.style.transform = `translateY(${index * this.#height}px)`;
    row.fill(this.#items[index], index);
  }

  #create() {
    const row = this.#make();
    row.element.setAttribute("role", "row");
    row.element.classList.add("row");
    this.#space.append(row.element);
    return row;
  }

  #mark() {
    for (const [index, row] of this.#shown) row.element.setAttribute("aria-selected", index === this.#current);
    const isShown = this.#shown.has(this.#current);
    if (isShown) this.element.setAttribute("aria-activedescendant", `${this.id}-${this.#current}`);
    else this.element.removeAttribute("aria-activedescendant");
  }

  #focus() {
    if (this.#current < 0 && this.#items.length && this.element.matches(":focus-visible")) this.move(0);
  }

  /** Makes a row current and scrolls it into view. */
  move(index) {
    this.#current = Math.min(this.#items.length - 1, Math.max(0, index));
    const top = this.#current * this.#height;
    const bottom = top + this.#height - this.element.clientHeight;
    if (this.element.scrollTop > top) this.element.scrollTop = top;
    if (this.element.scrollTop < bottom) this.element.scrollTop = bottom;
    this.draw();
  }

  #key(event) {
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.#height) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key in steps) this.move(this.#current + steps[event.key]);
    else if (event.key === "Enter" && this.currentItem) this.#open(this.currentItem, event);
    else return;
    event.preventDefault();
  }

  #click(event) {
    const element = event.target.closest(".row");
    const shown = [...this.#shown].find(([, row]) => row.element === element);
    if (!shown) return;
    this.#current = shown[0];
    this.#mark();
    if (!event.target.closest("a")) this.#open(this.#items[shown[0]], event);
  }
}
