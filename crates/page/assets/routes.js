// The routes of one Service port, joined where a frontend treats several clients alike: fewer boxes say the same.

export function groupRoutes(answer, port) {
  const frontends = answer.frontends.filter((it) => it.port === port);
  return frontends.flatMap((frontend) => {
    const groups = new Map();
    for (const route of answer.routes.filter((it) => it.frontend === frontend.id)) {
      const key = `${route.verdict} ${route.pool} ${route.masquerade} ${route.reason}`;
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push(route);
    }
    return [...groups.values()].map((routes) => group(frontend, routes));
  });
}

function group(frontend, routes) {
  const [first] = routes;
  const isForwarded = first.verdict === "forward";
  const kind = !isForwarded ? "refused" : first.masquerade ? "masqueraded" : "kept";
  const title = { refused: first.verdict === "drop" ? "dropped" : "rejected", masqueraded: "masqueraded", kept: "source kept" }[kind];
  return {
    id: `group:${first.id}`, frontend: frontend.id, routes, kind, title, pool: isForwarded ? first.pool : null,
    reason: first.reason, words: first.words, origins: routes.map(({ origin }) => origin),
  };
}
