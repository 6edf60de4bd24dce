// Questions to the server. Every answer is JSON, also an error, which has a sentence about what to do.

export class Refused extends Error {}

export async function ask(path, parameters = {}, signal = undefined) {
  const query = new URLSearchParams(parameters).toString();
  let answer;
  try {
    answer = await fetch(`api/${path}${query ? `?${query}` : ""}`, { signal, credentials: "same-origin" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("The server of this page does not answer. It may have ended or be restarting.");
  }
  const body = await answer.json().catch(() => ({ error: `The server answered with status ${answer.status}.` }));
  if (!answer.ok) throw new Refused(body.error ?? `The server answered with status ${answer.status}.`);
  return body;
}
