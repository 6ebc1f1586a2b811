// The customer portal: a link's token is exchanged for a session, and the page looks as the operator has set it.

import { get, logIn, root } from "./api.js";

/** What the operator has set: a colour, and the address of a logo. */
export const look = { accent: null, logo: null };

/** Come in through a portal link (`portal#token`), and take the token out of the address at once. */
export async function enter() {
  if (location.pathname === `${root}portal`) {
    const token = location.hash.slice(1);
    history.replaceState(null, "", root);
    if (token) await logIn(token).catch(() => {}); // an old link: the page says that it asks for a key
  }
  const me = await get("session").catch(() => null);
  Object.assign(look, me?.look);
  if (look.accent) document.documentElement.style.setProperty("--accent", look.accent);
}
