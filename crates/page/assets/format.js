// Numbers, times and sizes for people. Digits that change are kept few, so that a live table stays calm.

const THIN = "\u202f";

export function count(value) {
  if (value === null || value === undefined) return "–";
  return Math.round(value).toString().replace(/\B(?=(\d{3})+(?!\d))/g, THIN);
}

/** A rate of events per second. */
export function rate(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  if (value < 0.1) return "<0.1";
  if (value < 10) return value.toFixed(1);
  if (value < 10_000) return count(value);
  return scaled(value, 1000, ["", "k", "M", "G"]);
}

/** Bytes, or bytes per second with a suffix. */
export function bytes(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  return scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
}

function scaled(value, step, units) {
  let unit = 0;
  while (value >= step && unit < units.length - 1) {
    value /= step;
    unit += 1;
  }
  const digits = value < 10 && unit > 0 ? value.toFixed(1) : Math.round(value).toString();
  return units[unit] ? `${digits}${THIN}${units[unit]}` : digits;
}

/** Seconds as a duration of two units at most. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 0.001) return `${Math.max(1, Math.round(seconds * 1e6))}${THIN}µs`;
  if (seconds < 1) return `${trim(seconds * 1000)}${THIN}ms`;
  if (seconds < 60) return `${trim(seconds)}${THIN}s`;
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const at = units.findIndex(([, size]) => seconds >= size);
  const [name, size] = units[at];
  const [nextName, nextSize] = units[at + 1];
  const rest = Math.floor((seconds % size) / nextSize);
  const head = `${Math.floor(seconds / size)}${THIN}${name}`;
  return rest ? `${head} ${rest}${THIN}${nextName}` : head;
}

const trim = (value) => (value < 10 ? value.toFixed(1) : Math.round(value).toString());

/** How long ago, for a time in seconds since 1970. */
export function ago(at, now = Date.now() / 1000) {
  const seconds = Math.max(0, now - at);
  if (seconds < 2) return "now";
  return `${duration(Math.round(seconds))} ago`;
}

export function clock(at) {
  const date = new Date(at * 1000);
  const two = (number) => String(number).padStart(2, "0");
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

export function date(at) {
  return new Date(at * 1000).toISOString().slice(0, 10);
}

export function percent(share) {
  if (share === null || share === undefined) return "–";
  const value = share * 100;
  return `${Number.isInteger(Math.round(value * 10) / 10) ? Math.round(value) : value.toFixed(1)}${THIN}%`;
}

export function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}
