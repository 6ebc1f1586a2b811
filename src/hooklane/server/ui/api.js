// Calls of the API. The key, where the server asks for one, stays in this tab.

const KEY = "hooklane-key";

export class Refused extends Error {
  constructor(status, problem) {
    super(problem?.detail ?? `The server answered ${status}`);
    this.status = status;
    this.code = problem?.code ?? "";
  }
}

export function setKey(key) {
  sessionStorage.setItem(KEY, key);
}

export function headers(more = {}) {
  const key = sessionStorage.getItem(KEY);
  return key ? { authorization: `Bearer ${key}`, ...more } : more;
}

/** The JSON that the server answers; a problem is thrown. */
export async function call(method, path, body) {
  const response = await fetch(`api/v1/${path}`, {
    method,
    headers: headers(body === undefined ? {} : { "content-type": "application/json" }),
    body: body === undefined ? undefined : JSON.stringify(body),
    cache: "no-store",
  });
  const value = response.status === 204 ? null : await response.json().catch(() => null);
  if (!response.ok) throw new Refused(response.status, value);
  return value;
}
