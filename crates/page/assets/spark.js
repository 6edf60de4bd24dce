// Small charts as SVG, drawn without a library.

import { s } from "./dom.js";

/** A line with an area below it, and a dot at its last value. Values are `null` where there are none. */
export function sparkline(values, { width = 240, height = 44, label }) {
  const known = values.filter((value) => value !== null);
  const top = Math.max(...known, Number.EPSILON);
  const step = width / Math.max(1, values.length - 1);
  const y = (value) => height - 3 - (value / top) * (height - 8);
  const points = values.map((value, at) => [at * step, value]).filter(([, value]) => value !== null);
  const line = points.map(([x, value], at) => `${at ? "L" : "M"}${x.toFixed(1)} ${y(value).toFixed(1)}`).join("");
  const picture = s("svg", {
    class: "spark", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": label,
  });
  if (!points.length) return picture;
  const [lastX, lastValue] = points.at(-1);
  const [firstX] = points[0];
  picture.append(
    s("path", { class: "spark-area", d: `${line}L${lastX.toFixed(1)} ${height}L${firstX.toFixed(1)} ${height}Z` }),
    s("path", { class: "spark-line", d: line, "vector-effect": "non-scaling-stroke" }),
    s("circle", { class: "spark-dot", cx: lastX.toFixed(1), cy: y(lastValue).toFixed(1), r: 2.4 }),
  );
  return picture;
}

/** A bar from 0 to 1. */
export function meter(share, label) {
  const state = share > 0.9 ? "bad" : share > 0.75 ? "warn" : "good";
  return s("svg", { class: `meter ${state}`, viewBox: "0 0 100 6", preserveAspectRatio: "none", role: "img", "aria-label": label },
    s("rect", { class: "meter-rest", width: 100, height: 6, rx: 3 }),
    s("rect", { class: "meter-used", width: Math.max(1, Math.min(1, share) * 100).toFixed(1), height: 6, rx: 3 }));
}
