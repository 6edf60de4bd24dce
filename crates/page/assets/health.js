// The health of the node, for the bar at the top and for Overview.

/** One word for the health of the node. */
export function healthOf({ source, health }) {
  if (source === "manifests") return { word: "plan only", colour: "", long: "Plan only" };
  if (health.last_error) return { word: "failing", colour: "bad", long: "Syncs fail" };
  if (!health.is_healthy) return { word: "unhealthy", colour: "bad", long: "Unhealthy" };
  if (!health.is_ready) return { word: "starting", colour: "warn", long: "Not ready yet" };
  return { word: "healthy", colour: "good", long: "Healthy" };
}
