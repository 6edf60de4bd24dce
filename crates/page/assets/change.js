// A change in a few words, for the lists of Overview and Time.

import { plural } from "./format.js";

const COLOURS = { change: "accent", start: "good", settings: "good", repair: "warn", failure: "bad" };

export const colourOf = (change) => COLOURS[change.kind] ?? "accent";

/** What caused it. */
export function causeOf(change) {
  if (change.drift) return change.drift.what;
  const cause = change.causes[0];
  if (!cause) return { start: "The daemon started", settings: "Settings changed", failure: "A sync failed" }[change.kind] ?? "Synced";
  const more = change.causes.length - 1 + change.more_causes;
  return `${cause.name ? `${cause.kind} ${cause.name}: ` : ""}${cause.what}${more > 0 ? `, and ${more} more` : ""}`;
}

/** What it did. */
export function effectOf(change) {
  const services = change.services.length + change.more_services;
  if (!services) return `${plural(change.objects, "object")} written`;
  const names = change.services.slice(0, 2).join(", ");
  return services > 2 ? `${names} and ${services - 2} more` : names;
}
