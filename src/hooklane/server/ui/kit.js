// What the screens are made of: Preact with templates (htm), hooks and signals. No other module imports from vendor/.

import { h, render } from "./vendor/preact.js";
import htm from "./vendor/htm.js";

export { useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "./vendor/hooks.js";
export { batch, signal } from "./vendor/signals.js";

/** Elements from a template: html`<b class=${name}>${text}</b>`. What stands in ${} is always text, never HTML. */
export const html = htm.bind(h);

export const start = (screen, element) => render(html`<${screen} />`, element);
