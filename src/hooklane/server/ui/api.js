// Calls of the API. Who calls is in a cookie that no script can read: a key is exchanged for it and then forgotten.

/** Where the dashboard is mounted, as an absolute path that ends with a slash. */
export const root = new URL(document.body.dataset.root || "./", location.href).pathname;
export const files = new URL(document.body.dataset.static, location.href).pathname;

class Refused extends Error {
  constructor(status, problem) {
    super(problem?.detail ?? problem?.title ?? `The server answered ${status}`);
    this.status = status;
    this.code = problem?.code ?? "";
    this.errors = problem?.errors ?? [];
  }
}

/** No answer at all: the server is away, or the network is. */
export class NoAnswer extends Error {
  constructor() {
    super("The server does not answer");
    this.status = 0;
    this.code = "no_answer";
  }
}

/** Log in with an API key, or with what stands behind the `#` of a portal link. Answers who that is. */
export const logIn = (key) => call("POST", "session", { key });

/** The answer to a call that early.js made already; each is taken once. */
function taken(path) {
  const answer = window.early?.answers[path];
  if (answer) delete window.early.answers[path];
  return answer;
}

/** A number that JavaScript would write otherwise (9007199254740993, 1.50) stays as it was written, where the browser can. */
const asWritten = (_, value, context) => (typeof value === "number" && JSON.rawJSON && String(value) !== context.source ? JSON.rawJSON(context.source) : value);

/** The JSON that the server answers; a problem is thrown. *exact*: its numbers are only shown, never reckoned with. */
export async function call(method, path, body, { signal, accept, exact } = {}) {
  const more = body === undefined ? {} : { "content-type": "application/json" };
  let response;
  try {
    response = await ((method === "GET" && taken(path)) || fetch(`${root}api/v1/${path}`, {
      method,
      headers: accept ? { ...more, accept } : more,
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
      signal,
    }));
  } catch (error) {
    throw error.name === "AbortError" ? error : new NoAnswer();
  }
  if (accept && response.ok) return response.blob();
  const value = response.status === 204 ? null : await (exact ? response.text().then((text) => JSON.parse(text, asWritten)) : response.json()).catch(() => null);
  // Mounted in an application whose session is over: the page is asked for anew, and the application shows its login.
  if (value?.code === "login_required") location.reload();
  if (!response.ok) throw new Refused(response.status, value);
  return value;
}

/** An id of the address as a part of a path. */
export const part = encodeURIComponent;

export const get = (path, query, options) => call("GET", `${path}${queryText(query)}`, undefined, options);

/** `?a=1&b=2` of what has a value. */
export function queryText(query = {}) {
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return pairs.length ? `?${new URLSearchParams(pairs)}` : "";
}

/** The path of a lane; a key may hold anything, slashes too. */
export const lanePath = (lane) => `lanes/${lane.endpoint}/${encodeURIComponent(lane.key)}`;
