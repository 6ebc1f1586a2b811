// One receipt of the inbox: what came, what became of it, and the proof; owe it to its handlers again, or try it dry.

import { call, get, part } from "./api.js";
import { CHIP, ICON, proof } from "./inbox.js";
import { html, useState } from "./kit.js";
import { useLoad } from "./live.js";
import { Act, Ago, Chip, Copy, Exactly, Failed, Icon, said, Skeleton } from "./parts.js";
import { href } from "./route.js";
import { Screen } from "./shell.js";
import { counted, number, span } from "./words.js";

export default function Receipt({ params }) {
  const load = useLoad(() => get(`inbox/${part(params.id)}`, {}, { exact: true }), [params.id], { everyMs: 3000 });
  const [dry, setDry] = useState(null);
  const row = load.value;
  async function replay() {
    const done = await call("POST", `inbox/${row.id}/replay`);
    said(`Owed again to ${counted(done.replayed ?? row.handlers.length, "handler")}; a worker of the application runs it.`);
    load.again();
  }
  return html`<${Screen} title=${row?.type ?? "Receipt"} name="receipt" sub=${row && html`<span class="mono">${row.event_id}</span>`}>
    <div class="bar"><p class="crumb grow"><a class="link" href=${href("/inbox")}><${Icon} name="left" />Inbox</a></p>
      ${row && html`<${Act} run=${async () => setDry(await call("POST", `inbox/${row.id}/replay?dry_run=1`))}>Dry run</${Act}><${Act} class="primary" run=${replay} disabled=${row.purged} title=${row.purged ? "The payload was removed by retention" : undefined}>Replay</${Act}>`}</div>
    ${load.error && html`<${Failed} error=${load.error} again=${load.again} what="This receipt" />`}
    ${!row && !load.error && html`<${Skeleton} rows=${6} />`}
    ${dry && html`<section class="card pad-all" role="status"><b>Dry run</b><p>It would be owed again to ${counted(dry.replayed ?? 0, "handler")}. Nothing was changed.</p></section>`}
    ${row && html`<div class="cols2"><section class="card"><div class="title"><${Chip} state=${CHIP[row.status] ?? "waiting"} icon=${ICON[row.status]}>${row.status.replaceAll("_", " ")}</${Chip}><span class="grow"></span><span class="faint">received <${Ago} time=${row.received_at} /></span></div>
        <div class="pad"><p class="why" data-state=${row.status === "dead" || row.status === "failed" ? "blocked" : "idle"}>${row.reason ?? (proof(row) || "Nothing more to say.")}</p>
        <dl class="kv"><dt>Source</dt><dd>${row.source}</dd><dt>Event id</dt><dd class="mono">${row.event_id}</dd><dt>Key</dt><dd class="mono">${row.key ?? "no key"}</dd><dt>Seq</dt><dd class="num">${row.seq ?? "–"}${row.prev_seq !== null ? ` after ${row.prev_seq}` : ""}</dd>
          ${row.stored_seq !== null && html`<dt>Last applied seq</dt><dd class="num">${row.stored_seq}</dd>`}
          <dt>Copies received</dt><dd class="num">${number(row.copies)}</dd>${row.first_receipt && html`<dt>First receipt</dt><dd><a class="link" href=${href(`/inbox/${row.first_receipt.id}`)}>${row.first_receipt.status.replaceAll("_", " ")}, ${span(Date.parse(row.received_at) - Date.parse(row.first_receipt.received_at))} earlier</a></dd>`}
          <dt>Happened</dt><dd><${Ago} time=${row.event_time} /></dd>${row.delivery_id && html`<dt>Delivery id</dt><dd class="mono">${row.delivery_id}</dd>`}</dl></div></section>
      <section class="card"><div class="title"><h2>Handlers</h2></div><div class="pad">${row.handlers.map((one) => html`<div class="handler"><p class="row-line"><${Chip} state=${CHIP[one.status] ?? "waiting"} icon=${ICON[one.status]}>${one.status.replaceAll("_", " ")}</${Chip}><b class="mono grow ell">${one.handler}</b><span class="faint">${counted(one.attempts, "try", "tries")}${one.settled_at ? html`, <${Exactly} time=${one.settled_at} />` : ""}</span></p>
        ${one.error && html`<p class="bad any">${one.error}</p>`}${one.traceback && html`<details><summary>Traceback</summary><div class="raw"><pre tabindex="0">${one.traceback}</pre></div></details>`}</div>`)}${!row.handlers.length && html`<p class="faint">It was given to no handler.</p>`}</div></section></div>
      <div class="cols2"><section class="card"><div class="title"><h2>Payload</h2></div><div class="pad">${row.purged ? html`<p class="faint">Removed by retention; the id stays, so copies are still recognised.</p>` : html`<${Raw} text=${row.payload_encoding === "json" ? JSON.stringify(row.payload, null, 2) : row.payload} />`}</div></section>
        <section class="card"><div class="title"><h2>Headers</h2></div><div class="pad"><${Raw} text=${row.headers.map((one) => `${one.name}: ${one.value}`).join("\n") || "none kept"} /></div></section></div>`}
  </${Screen}>`;
}

const Raw = ({ text }) => html`<div class="raw"><pre tabindex="0">${text}</pre><${Copy} text=${text} /></div>`;
