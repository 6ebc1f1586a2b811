// Which screen is shown, and with what? The address is the state: every filter, selection and tab is in it.

import { queryText, root } from "./api.js";
import { signal } from "./kit.js";

const screens = [];

/** {path, query}: where we are, below where the dashboard is mounted. */
export const place = signal(read());

function read() {
  const path = `/${location.pathname.slice(root.length)}`;
  return { path, query: Object.fromEntries(new URLSearchParams(location.search)) };
}

/** Adds screens: {path, name, icon, letter, group, portal, load}; `path` may end with a parameter, as /events/:id. */
export function register(...more) {
  screens.push(...more);
}

/** The screens that have a name, for lists of them; *fits* says which. */
export const named = (fits = () => true) => screens.filter((screen) => screen.icon && fits(screen));

/** The screen of a path and the parameters in it, or undefined. */
export function screenOf(path) {
  for (const screen of screens) {
    const names = [];
    const pattern = screen.path.replace(/:(\w+)/g, (_, name) => (names.push(name), "([^/]+)"));
    const match = new RegExp(`^${pattern}/?$`).exec(path);
    if (match) return { screen, params: Object.fromEntries(names.map((name, at) => [name, meant(match[at + 1])])) };
  }
  return undefined;
}

/** A part of a path as text; what is no encoding (`%zz`) stands for itself. */
function meant(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The address of a screen, for links: href("/events", {key: "a"}). */
export const href = (path, query = {}) => `${root}${path.replace(/^\//, "")}${queryText(query)}`;

export function go(path, query = {}, { replace = false } = {}) {
  visit(href(path, query), replace);
}

/** Change some of the query, keep the rest; null takes a value out. */
export function setQuery(changes, { replace = false } = {}) {
  const { path, query } = place.value;
  go(path, { ...query, ...changes }, { replace });
}

function visit(address, replace = false) {
  if (address === location.pathname + location.search) return;
  const before = place.value.path;
  history[replace ? "replaceState" : "pushState"](null, "", address);
  place.value = read();
  if (place.value.path !== before) scrollTo(0, 0);
}

addEventListener("popstate", () => {
  place.value = read();
});

// A link to a screen is followed without loading the page anew; with a modifier key the browser does as it always does.
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href]");
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const url = new URL(link.href);
  if (url.hash && url.href.split("#")[0] === location.href.split("#")[0]) return; // a place on this page: the browser goes there
  if (link.target || link.hasAttribute("download") || url.origin !== location.origin || !url.pathname.startsWith(root)) return;
  if (!screenOf(`/${url.pathname.slice(root.length)}`)) return;
  event.preventDefault();
  visit(url.pathname + url.search);
});
