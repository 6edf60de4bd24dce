// What is behind a part of the picture: the decision in words, the field of the object, and the line that says so.

import { h } from "./dom.js";
import { percent } from "./format.js";

/** The children of the panel for the chosen part. */
export function behind(answer, part, group) {
  const found = part ? find(answer, part, group) : null;
  const title = found?.title ?? "Behind it";
  return [h("header", null, h("h2", null, title)), found ? body(found) : hint(answer)];
}

function hint({ object }) {
  return h("div", { class: "behind-body" },
    h("p", { class: "dim" }, "Choose an arrow or a box of the picture: the rule, the field of the object and its line appear here, and the mode's own objects are highlighted."),
    whereabouts(object));
}

function whereabouts(object) {
  if (!object) return null;
  const where = object.file ? `${object.file}:${object.line}` : object.command;
  return h("p", { class: "where" }, h("span", null, object.object), where ? h("code", null, where) : null);
}

function find(answer, part, group) {
  const of = (list, words) => {
    const it = answer[list].find(({ id }) => id === part);
    return it && { ...words(it), behind: it.behind ?? [] };
  };
  if (group && group.id === part) return { title: "Route", words: group.words, behind: merged(group.routes) };
  return of("routes", (it) => ({ title: `Route of ${it.origin}`, words: it.words }))
    ?? of("frontends", (it) => ({ title: "Frontend", words: `${it.kind} ${it.address}${it.sources?.length ? `, only from ${it.sources.join(", ")}` : ""}` }))
    ?? of("pools", (it) => ({ title: `Pool: ${it.kind}`, words: it.words }))
    ?? of("shares", (it) => ({ title: "Share", words: shareWords(answer, it) }))
    ?? of("endpoints", (it) => ({ title: "Endpoint", words: endpointWords(it) }))
    ?? of("clients", (it) => ({ title: "Clients", words: clientWords(it) }))
    ?? null;
}

function merged(routes) {
  const seen = new Map();
  for (const it of routes.flatMap((route) => route.behind ?? [])) seen.set(`${it.object} ${it.field} ${it.line}`, it);
  return [...seen.values()];
}

function shareWords(answer, { share, endpoint }) {
  const it = answer.endpoints.find(({ id }) => id === endpoint);
  return `${percent(share)} of the pool's new connections go to ${it?.address ?? "this endpoint"}`;
}

function endpointWords(it) {
  const states = [it.ready ? "ready" : "not ready", it.serving ? "serving" : "not serving", it.terminating ? "terminating" : null].filter(Boolean).join(", ");
  const totals = it.connections === null || it.connections === undefined ? "" : `; ${it.connections} connections counted`;
  return `${it.address}, ${states}: ${it.state}${it.because ? `, ${it.because}` : ""}${totals}`;
}

function clientWords({ origin }) {
  return {
    pod: "Packets from pods of this node, as the pod detector (--detect-local-mode) sees them.",
    node: "Packets from processes of the node itself and from pods in its network.",
    outside: "Packets from everything else: other nodes and clients outside of the cluster.",
  }[origin] ?? origin;
}

function body({ words, behind: fields }) {
  return h("div", { class: "behind-body" }, h("p", { class: "decision" }, words),
    fields.length ? h("ul", { class: "fields" }, fields.map(field)) : null);
}

function field(it) {
  const where = it.file ? `${it.file}:${it.line}` : null;
  return h("li", null,
    h("p", null, h("span", { class: "dim" }, it.object), " ", h("code", null, it.field), it.value === null || it.value === undefined ? null : [" = ", h("code", { class: "value" }, it.value)]),
    it.text ? h("pre", { class: "yaml" }, h("span", { class: "number", "aria-hidden": "true" }, it.line), h("span", null, it.text)) : null,
    where ? h("p", { class: "dim small mono where-line" }, where) : null);
}
