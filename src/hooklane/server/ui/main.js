// Start: the table of screens, the keyboard, the stream. A screen is one line here and one module beside.

import { html, start } from "./kit.js";
import { open } from "./live.js";
import { enter, recognise } from "./portal.js";
import { listenToKeys, Overlay } from "./palette.js";
import { place, register, screenOf } from "./route.js";
import { Shell } from "./shell.js";

register(
  { path: "/", portal: true, name: "Overview", icon: "n-overview", letter: "o", tab: true, load: () => import("./overview.js") },
  { path: "/lanes", portal: true, name: "Lanes", icon: "n-lanes", letter: "l", tab: true, load: () => import("./lanes.js") },
  { path: "/events", portal: true, name: "Events", icon: "n-events", letter: "e", load: () => import("./events.js") },
  { path: "/events/:id", under: "/events", load: () => import("./story.js") },
  { path: "/dead", portal: true, name: "Dead letters", short: "Dead", icon: "n-dead", letter: "d", tab: true, load: () => import("./dead.js") },
  { path: "/endpoints", portal: true, name: "Endpoints", icon: "n-endpoints", letter: "p", tab: true, load: () => import("./endpoints.js") },
  { path: "/endpoints/:id", under: "/endpoints", load: () => import("./endpoint.js") },
  { path: "/inbox", name: "Inbox", icon: "n-inbox", letter: "i", load: () => import("./inbox.js") },
  { path: "/inbox/:id", under: "/inbox", load: () => import("./receipt.js") },
  { path: "/play", name: "Playground", icon: "n-play", letter: "y", group: "Learn", load: () => import("./play.js") },
  { path: "/audit", name: "Audit and keys", icon: "n-audit", letter: "a", group: "Record", load: () => import("./audit.js") },
);

// Its address is relative, and the page's own address changes from screen to screen.
const icon = document.querySelector("link[rel=icon]");
icon.href = icon.href;

await enter();
// The stream, the totals and the first screen come while the server is asked who looks.
open();
screenOf(place.value.path)?.screen.load();
await recognise();
listenToKeys();
start(() => html`<${Shell} Overlay=${Overlay} />`, document.getElementById("app"));
