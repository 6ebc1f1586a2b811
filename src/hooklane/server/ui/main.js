// Start: the table of screens, the keyboard, the stream. A screen is one line here and one module beside.

import { start, html } from "./kit.js";
import { open } from "./live.js";
import { listenToKeys, Overlay } from "./palette.js";
import { register } from "./route.js";
import { Shell } from "./shell.js";

register(
  { path: "/", load: () => import("./lanes.js") },
  { path: "/lanes", name: "Lanes", icon: "n-lanes", letter: "l", tab: true, load: () => import("./lanes.js") },
  { path: "/play", name: "Playground", icon: "n-play", letter: "p", group: "Learn", load: () => import("./play.js") },
);

listenToKeys();
open();
start(() => html`<${Shell} Overlay=${Overlay} />`, document.getElementById("app"));
