// The customer portal: a link's token is exchanged for a session, and the page looks as the operator has set it.

import { get, logIn, root } from "./api.js";
import { me } from "./live.js";

/** Come in through a portal link (`portal#token`), and take the token out of the address at once. */
export async function enter() {
  if (location.pathname !== `${root}portal`) return;
  const token = location.hash.slice(1);
  history.replaceState(null, "", root);
  if (token) await logIn(token).catch(() => {}); // an old link: the page says that it asks for a key
}

/** Who looks? Which screens and acts there are depends on it, so the screens wait for this one answer. */
export async function recognise() {
  me.value = await get("session").catch(() => null);
  const accent = me.value?.look?.accent;
  if (accent) (await import("./accent.js")).useAccent(accent);
}
