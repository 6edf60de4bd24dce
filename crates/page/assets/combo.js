// A text field with completion from the server, as the ARIA pattern of a combobox has it.

import { ask } from "./api.js";
import { h, put } from "./dom.js";

const PAUSE = 90;
const SHOWN = 12;

export class Combo {
  #list;
  #for;
  #candidates = [];
  #current = -1;
  #timer = 0;
  #asked = null;

  constructor({ id, label, side, placeholder, value }) {
    this.#for = side;
    this.input = h("input", {
      class: "field mono", id, role: "combobox", placeholder, value: value ?? "", autocomplete: "off", spellcheck: "false", autocapitalize: "off",
      "aria-expanded": "false", "aria-controls": `${id}-list`, "aria-autocomplete": "list",
      oninput: () => this.#later(), onfocus: () => this.#later(), onblur: () => this.#close(), onkeydown: (event) => this.#key(event),
    });
    this.#list = h("ul", { class: "candidates", id: `${id}-list`, role: "listbox", "aria-label": label, hidden: true });
    this.element = h("div", { class: "combo" }, h("label", { for: id }, label), this.input, this.#list);
  }

  get value() {
    return this.input.value.trim();
  }

  set value(text) {
    this.input.value = text;
  }

  #later() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#ask(), PAUSE);
  }

  async #ask() {
    this.#asked?.abort();
    this.#asked = new AbortController();
    try {
      const answer = await ask("candidates", { text: this.value, for: this.#for, limit: SHOWN }, this.#asked.signal);
      this.#show(answer.candidates);
    } catch { /* Without completion the field still takes any text. */ }
  }

  #show(candidates) {
    if (document.activeElement !== this.input) return;
    this.#candidates = candidates;
    this.#current = -1;
    put(this.#list, candidates.map((it, at) => h("li", {
      role: "option", id: `${this.#list.id}-${at}`, "aria-selected": "false",
      onmousedown: (event) => { event.preventDefault(); this.#take(at); },
    }, h("span", { class: "mono" }, it.value), h("span", { class: "dim" }, it.detail))));
    const isOnlyItself = candidates.length === 1 && candidates[0].value === this.value;
    this.#setOpen(candidates.length > 0 && !isOnlyItself);
  }

  #setOpen(isOpen) {
    this.#list.hidden = !isOpen;
    this.input.setAttribute("aria-expanded", isOpen);
    if (!isOpen) this.input.removeAttribute("aria-activedescendant");
  }

  #close() {
    clearTimeout(this.#timer);
    this.#asked?.abort();
    this.#setOpen(false);
  }

  #take(at) {
    this.input.value = this.#candidates[at].value;
    this.#close();
  }

  #key(event) {
    const isOpen = !this.#list.hidden;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") this.#move(event.key === "ArrowDown" ? 1 : -1);
    else if (event.key === "Enter" && isOpen && this.#current >= 0) this.#take(this.#current);
    else if (event.key === "Escape" && isOpen) this.#setOpen(false);
    else return;
    event.preventDefault();
  }

  #move(step) {
    if (this.#list.hidden) {
      this.#ask();
      return;
    }
    const count = this.#candidates.length;
    this.#current = this.#current < 0 && step < 0 ? count - 1 : (this.#current + step + count) % count;
    [...this.#list.children].forEach((it, at) => it.setAttribute("aria-selected", at === this.#current));
    const option = this.#list.children[this.#current];
    this.input.setAttribute("aria-activedescendant", option.id);
    option.scrollIntoView({ block: "nearest" });
  }
}
