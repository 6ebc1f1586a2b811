// API keys: who may call the API, and for what; made here, shown once, taken back at once.

import { call, get } from "./api.js";
import { html, useState } from "./kit.js";
import { me, useLoad } from "./live.js";
import { Act, Ago, Chip, Copy, Dialog, Failed, Icon, Opener, said } from "./parts.js";
import { until } from "./words.js";

const SCOPES = [["publish", "publish events"], ["read", "look"], ["operate", "replay, skip, pause, test"], ["admin", "everything, keys too"]];

export function Keys() {
  const isAdmin = me.value?.scopes?.includes("admin");
  const load = useLoad(() => (isAdmin ? get("keys") : { items: [] }), [isAdmin]);
  const [dialog, setDialog] = useState(null);
  const items = load.value?.items ?? [];
  const close = () => (setDialog(null), load.again());
  return html`<section class="card"><div class="title"><h2 class="grow">Keys</h2>${isAdmin && html`<${Opener} class="small" open=${() => setDialog({ kind: "new" })}><${Icon} name="plus" />New key</${Opener}>`}</div>
    ${load.error && html`<${Failed} error=${load.error} again=${load.again} what="The keys" />`}
    ${!isAdmin ? html`<p class="pad-all mute">You are ${me.value?.name ?? "here"} as ${me.value?.role ?? "a guest"}; only an admin sees the keys.</p>` : !items.length ? html`<p class="pad-all mute">No keys besides the one of the settings, if there is one. A key says who calls, may do only what its scopes allow, and can be taken back at once.</p>`
      : html`<div class="tbl-wrap"><table class="tbl cards"><thead><tr><th>Name</th><th>May</th><th>Tenant</th><th class="r">Last used</th><th class="r">Ends</th><th><span class="vh">Act</span></th></tr></thead>
        <tbody>${items.map((key) => html`<tr key=${key.id}><td class="c-head"><b>${key.name}</b> <span class="mono faint">${key.id}</span></td><td class="c-main"><span class="row-line wrap">${key.scopes.map((scope) => html`<${Chip} state=${scope === "admin" ? "retrying" : "waiting"}>${scope}</${Chip}>`)}</span></td>
          <td data-k="tenant">${key.tenant ?? "all"}</td><td class="r" data-k="last used"><${Ago} time=${key.last_used_at} /></td><td class="r" data-k="ends">${!key.expires_at ? "never" : Date.parse(key.expires_at) <= Date.now() ? "expired" : until(key.expires_at, Date.now())}</td>
          <td class="r c-side"><${Opener} class="small" aria-label=${`Revoke… ${key.name}`} open=${() => setDialog({ kind: "revoke", key })}>Revoke…</${Opener}></td></tr>`)}</tbody></table></div>`}
    ${dialog?.kind === "new" && html`<${NewKey} close=${close} />`}${dialog?.kind === "revoke" && html`<${Revoke} key_=${dialog.key} close=${close} />`}</section>`;
}

function NewKey({ close }) {
  const [name, setName] = useState("");
  const [scopes, setScopes] = useState(["read"]);
  const [made, setMade] = useState(null);
  const [error, setError] = useState(null);
  async function make() {
    setError(null);
    try {
      setMade(await call("POST", "keys", { name, scopes }));
    } catch (problem) {
      setError(problem);
    }
  }
  if (made) {
    return html`<${Dialog} title=${`The key ${made.name}`} firm onClose=${close} foot=${html`<span class="grow"></span><button class="btn primary" type="button" onClick=${close}>I have kept it</button>`}>
      <p>It is shown this once; the server keeps only a digest of it.</p><div class="command"><code>${made.key}</code><${Copy} text=${made.key} /></div></${Dialog}>`;
  }
  return html`<${Dialog} title="New key" onClose=${close} foot=${html`<span class="grow"></span><button class="btn" type="button" onClick=${close}>Cancel</button><${Act} class="primary" disabled=${!name.trim() || !scopes.length} run=${make}>Make it</${Act}>`}>
    ${error && html`<p class="bad" role="alert">${error.message}</p>`}
    <label class="lab">Name, for people and the audit log<input class="input" value=${name} autofocus onInput=${(event) => setName(event.target.value)} /></label>
    <fieldset class="choices column"><legend>It may</legend>${SCOPES.map(([scope, text]) => html`<label class="tick"><input type="checkbox" checked=${scopes.includes(scope)} onChange=${(event) => setScopes(event.target.checked ? [...scopes, scope] : scopes.filter((one) => one !== scope))} /><b>${scope}</b> ${text}</label>`)}</fieldset></${Dialog}>`;
}

function Revoke({ key_: key, close }) {
  const revoke = async () => (await call("DELETE", `keys/${key.id}`), said(`Revoked ${key.name}.`), close());
  return html`<${Dialog} title=${`Revoke ${key.name}?`} onClose=${close} foot=${html`<span class="grow"></span><button class="btn" type="button" onClick=${close}>Cancel</button><${Act} class="danger" run=${revoke}>Revoke</${Act}>`}>
    <p>Calls with it are refused from now on, and sessions that it opened end. It cannot be undone; make another key instead.</p></${Dialog}>`;
}
