// Live updates: server-sent events while the page is looked at. A hidden tab holds no connection, and a lost one is
// opened again after a pause that grows.

const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 15_000;
const HIDDEN_FOR = 2_000;

export class Live {
  #address;
  #events;
  #hear;
  #state;
  #source = null;
  #pause = FIRST_PAUSE;
  #timer = 0;
  #ended = new AbortController();

  /** `hear(name, data)` gets each of the named events; `state(word, seconds)` follows the connection. */
  constructor(address, events, hear, state) {
    this.#address = address;
    this.#events = events;
    this.#hear = hear;
    this.#state = state;
    const options = { signal: this.#ended.signal };
    document.addEventListener("visibilitychange", () => this.#look(), options);
    // A page that a browser keeps for the Back button must not hold a connection either.
    addEventListener("pagehide", () => this.#close(), options);
    addEventListener("pageshow", () => this.#look(), options);
    this.#look();
  }

  end() {
    this.#ended.abort();
    this.#close();
  }

  #look() {
    clearTimeout(this.#timer);
    if (!document.hidden) {
      if (!this.#source) this.#open();
      return;
    }
    this.#timer = setTimeout(() => {
      this.#close();
      this.#state("paused");
    }, HIDDEN_FOR);
  }

  #open() {
    this.#close();
    this.#state("connecting");
    const source = new EventSource(this.#address);
    this.#source = source;
    source.onopen = () => {
      this.#pause = FIRST_PAUSE;
      this.#state("live");
    };
    source.onerror = () => this.#retry();
    for (const name of this.#events) {
      source.addEventListener(name, (event) => this.#hear(name, JSON.parse(event.data)));
    }
  }

  /** The browser's own reconnection gives up after some errors, so it is done here for all of them. */
  #retry() {
    this.#close();
    if (document.hidden) return;
    const pause = this.#pause * (0.8 + 0.4 * Math.random());
    this.#pause = Math.min(LONGEST_PAUSE, this.#pause * 2);
    this.#state("lost", pause / 1000);
    this.#timer = setTimeout(() => this.#open(), pause);
  }

  #close() {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#source = null;
  }
}
