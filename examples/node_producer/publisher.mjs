// Publishes over HTTP. An event whose answer never came is published again under the same Idempotency-Key: it counts once.

const TIMEOUT_MS = 10_000;
const WAIT_MS_MIN = 100;
const WAIT_MS_MAX = 5_000;

/** The server will never take this event as it is: *code* is stable, *message* is for people. */
export class Refused extends Error {
  constructor(status, problem) {
    super(`${status} ${problem.code ?? ""}: ${problem.detail ?? problem.title ?? "refused"}`);
    this.status = status;
    this.code = problem.code;
  }
}

export class Publisher {
  #url;
  #headers;
  #patience_ms;
  #lasts = new Map();

  /** *patience_ms*: for how long an event is tried again before `publish` gives up. */
  constructor(url, { apiKey, patience_ms = 15 * 60_000 } = {}) {
    this.#url = new URL("/api/v1/events", url);
    this.#headers = { "content-type": "application/json" };
    if (apiKey) this.#headers.authorization = `Bearer ${apiKey}`;
    this.#patience_ms = patience_ms;
  }

  /**
   * Publishes *event* (`{type, data, key?}`) under *name*, which must be the same whenever this event is published
   * again, after a crash too: take it from your own row. Resolves to the server's answer once the event is durable.
   *
   * Events of one key go out one after the other, in the order of the calls. When one of them fails, those behind it
   * fail as well and are not sent, so that none overtakes it.
   */
  publish(event, name) {
    const body = JSON.stringify(event); // once: what is repeated must have the same bytes
    if (event.key == null) return this.#untilKnown(body, name);
    const before = this.#lasts.get(event.key) ?? Promise.resolve();
    const mine = before.then(() => this.#untilKnown(body, name));
    this.#lasts.set(event.key, mine);
    // A key that is done is forgotten; one that failed is not, and whoever calls again starts with a new Publisher.
    mine.then(() => this.#lasts.get(event.key) === mine && this.#lasts.delete(event.key)).catch(() => {});
    return mine;
  }

  async #untilKnown(body, name) {
    const deadline = Date.now() + this.#patience_ms;
    for (let attempt = 1; ; attempt++) {
      const { answer, why, wait_ms } = await this.#once(body, name);
      if (answer) return answer;
      const backoff_ms = Math.min(WAIT_MS_MAX, WAIT_MS_MIN * 2 ** Math.min(attempt - 1, 20)) * (1 + Math.random() / 4);
      const pause_ms = Math.max(backoff_ms, wait_ms);
      if (Date.now() + pause_ms > deadline) throw new Error(`not known to be published after ${attempt} tries: ${why}`);
      await new Promise((resolve) => setTimeout(resolve, pause_ms));
    }
  }

  /** One request: the answer, or why there is none yet. Throws when trying again cannot help. */
  async #once(body, name) {
    let response, text;
    // Not AbortSignal.timeout, whose timer does not keep the process alive: after a lost connection nothing else may.
    const patience = new AbortController();
    const timer = setTimeout(() => patience.abort(), TIMEOUT_MS);
    try {
      response = await fetch(this.#url, {
        method: "POST",
        body,
        headers: { ...this.#headers, "idempotency-key": name },
        signal: patience.signal,
        redirect: "error",
      });
      text = await response.text();
      if (response.status === 202) return { answer: JSON.parse(text) };
    } catch (error) {
      // Refused, reset, timed out, or broken off inside the answer: the event may be stored or not.
      return { why: error.cause?.code ?? error.name, wait_ms: 0 };
    } finally {
      clearTimeout(timer);
    }
    if (response.status < 500 && ![408, 429].includes(response.status)) throw new Refused(response.status, problem(text));
    return { why: `status ${response.status}`, wait_ms: 1000 * Number(response.headers.get("retry-after") ?? 0) || 0 };
  }
}

function problem(text) {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}
