// An event as something to run elsewhere: curl, the command line, a pytest test.

import { get } from "./api.js";
import { html, useRef, useState } from "./kit.js";
import { copyText, Icon, said } from "./parts.js";

const quoted = (text) => `'${String(text).replaceAll("'", `'\\''`)}'`;

function asCurl(event, origin) {
  const body = { type: event.type, ...(event.key === null ? {} : { key: event.key }), data: event.data };
  return `curl -X POST ${quoted(`${origin}api/v1/events`)} \\\n  -H 'content-type: application/json' \\\n  -d ${quoted(JSON.stringify(body))}`;
}

const asCommand = (event, letter) =>
  letter ? `hooklane dlq replay ${letter}` : `hooklane send ${quoted(event.type)} ${quoted(JSON.stringify(event.data))}${event.key === null ? "" : ` --key ${quoted(event.key)}`}`;

/** A test that gives the event to the inbox of an application five times at once, and expects one effect. */
const asTest = (event) => `import json


def test_${event.type.replace(/\W+/g, "_")}_counts_once(webhooks):
    """${event.id}, copied from the dashboard; "hooklane" is the name of your source."""
    data = json.loads(${JSON.stringify(JSON.stringify(event.data))})
    event = webhooks.event("hooklane", ${JSON.stringify(event.type)}, data, id=${JSON.stringify(event.id)}${event.key === null ? "" : `, key=${JSON.stringify(event.key)}`})
    webhooks.deliver(event, copies=5, concurrent=True)
    assert webhooks.applied(event) == 1
`;

/** *small*: only its icon, in a head that has no room. */
export function CopyAs({ event, letter, small }) {
  const [open, setOpen] = useState(false);
  const box = useRef();
  function close(event) {
    if (event.key !== "Escape" || !open) return;
    event.stopPropagation(); // the panel round it stays
    box.current.querySelector("button").focus();
    setOpen(false);
  }
  async function copy(make, word) {
    setOpen(false);
    try {
      const whole = await get(`events/${event}`, {}, { exact: true });
      await copyText(make(whole));
      said(`Copied as ${word}.`);
    } catch (error) {
      said(`Could not copy: ${error.message}`, { bad: true });
    }
  }
  const origin = () => new URL(document.body.dataset.root || "./", location.href).href;
  const options = [
    ["curl", (whole) => asCurl(whole, origin())],
    ["CLI", (whole) => asCommand(whole, letter)],
    ["pytest", asTest],
  ];
  return html`<span class="menu" ref=${box} onFocusOut=${(event) => !box.current.contains(event.relatedTarget) && setOpen(false)} onKeyDown=${close}>
    <button class=${`btn quiet ${small ? "small" : ""}`} type="button" aria-expanded=${String(open)} title=${small ? "Copy the event as" : undefined} onClick=${() => setOpen(!open)}><${Icon} name="copy" /><span class=${small ? "vh" : ""}>Copy as</span><${Icon} name="down" /></button>
    ${open && html`<span class=${`menu-list ${small ? "to-left" : ""}`}>${options.map(([word, make]) => html`<button type="button" onClick=${() => copy(make, word)}>${word}</button>`)}</span>`}</span>`;
}
