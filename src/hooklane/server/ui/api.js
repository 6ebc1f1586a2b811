// Calls of the API. Who calls is in a cookie that no script can read: a key is exchanged for it and then forgotten.

export class Refused extends Error {
  constructor(status, problem) {
    super(problem?.detail ?? `The server answered ${status}`);
    this.status = status;
    this.code = problem?.code ?? "";
  }
}

/** Log in with an API key, or with what stands behind the `#` of a portal link. Answers who that is. */
export function logIn(key) {
  return call("POST", "session", { key });
}

/** The JSON that the server answers; a problem is thrown. */
export async function call(method, path, body) {
  const response = await fetch(`api/v1/${path}`, {
    method,
    headers: body === undefined ? {} : { "content-type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
    cache: "no-store",
  });
  const value = response.status === 204 ? null : await response.json().catch(() => null);
  if (!response.ok) throw new Refused(response.status, value);
  return value;
}
