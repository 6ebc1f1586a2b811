// The live stream: server-sent events over fetch, because EventSource cannot say where to go on after a reload.

import { root } from "./api.js";

const WAIT_MS = [500, 1000, 2000, 5000];
const ASK_MS = 5000;
/** The server says every 15 s that it is still there: who hears nothing for so long is not connected any more. */
const SILENT_MS = 45_000;

/**
 * Calls tell(kind, value, since) for each event and status(word, waitMs, refused) when the connection changes, *refused*
 * being the status of an answer that was none of a stream; returns a function to stop. *since*: when a reset is one, what was asked for later (performance.now()) is not older than the stream.
 */
export function follow(tell, status) {
  let lastId = null;
  let joinedAt = null;
  let tries = 0;
  let stopped = false;
  let controller = null;
  let timer = null;

  async function connect() {
    const early = window.early?.stream && { stream: window.early.stream, stop: window.early.stop };
    if (early) delete window.early.stream;
    const mine = early ? early.stop : new AbortController();
    controller = mine;
    let refused;
    try {
      const { response, at } = await (early ? early.stream : join(mine.signal));
      if (response.status === 403 && !mine.signal.aborted) {
        // A caller that may not follow the stream: everything is asked for again now and then.
        status("live", 0);
        tell("reset", {});
        timer = setTimeout(connect, ASK_MS);
        return;
      }
      if (!response.ok) {
        refused = response.status;
        throw new Error(String(refused));
      }
      tries = 0;
      joinedAt = at;
      status("live", 0);
      await read(response.body.getReader());
      // Under WSGI a stream would hold a worker: what there is comes in one piece, and is asked for again.
      const pollMs = Number(response.headers.get("hooklane-poll-ms"));
      if (pollMs && !stopped && !mine.signal.aborted && !document.hidden) {
        timer = setTimeout(connect, pollMs);
        return;
      }
    } catch {
      if (stopped || mine.signal.aborted) return;
    }
    if (stopped || mine.signal.aborted || document.hidden) return;
    const wait = WAIT_MS[Math.min(tries++, WAIT_MS.length - 1)];
    status("reconnecting", wait, refused);
    timer = setTimeout(connect, wait);
  }

  async function join(signal) {
    const headers = lastId ? { "last-event-id": lastId } : {};
    const response = await fetch(`${root}api/v1/stream`, { headers, signal, cache: "no-store" });
    return { response, at: performance.now() };
  }

  async function read(reader) {
    const decoder = new TextDecoder();
    let text = "";
    for (;;) {
      const { done, value } = await heard(reader);
      if (done) return;
      text += decoder.decode(value, { stream: true });
      const blocks = text.split("\n\n");
      text = blocks.pop();
      for (const block of blocks) parse(block);
    }
  }

  /** The next piece, or after a silence the end: a connection that died on the way never says so. */
  async function heard(reader) {
    const silence = setTimeout(() => reader.cancel().catch(() => {}), SILENT_MS);
    try {
      return await reader.read();
    } finally {
      clearTimeout(silence);
    }
  }

  function parse(block) {
    const fields = {};
    for (const line of block.split("\n")) {
      const at = line.indexOf(": ");
      if (at > 0) fields[line.slice(0, at)] = line.slice(at + 2);
    }
    if (fields.id) lastId = fields.id;
    if (!fields.event) return;
    // A stream begins with a reset: what was asked for after it was joined need not be asked for again.
    tell(fields.event, JSON.parse(fields.data), joinedAt ?? performance.now());
    joinedAt = null;
  }

  // A hidden tab costs the server nothing; when it is looked at again the stream goes on where it was.
  function look() {
    if (stopped) return;
    clearTimeout(timer);
    controller?.abort();
    if (!document.hidden) connect();
  }

  document.addEventListener("visibilitychange", look);
  connect();
  return () => {
    stopped = true;
    document.removeEventListener("visibilitychange", look);
    clearTimeout(timer);
    controller?.abort();
  };
}
