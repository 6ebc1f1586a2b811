// Elements, made from data. Text is always text: nothing that others wrote is ever parsed as HTML.

const base = document.body.dataset.static;

/** An element with attributes, listeners (on…) and children. */
export function h(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** An icon of the sprite; the word beside it says the same, so it is hidden from screen readers. */
export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `${base}/icons.svg#${name}`);
  svg.append(use);
  return svg;
}

/** Make *parent* hold exactly these children, moving those that are already there. */
export function arrange(parent, children) {
  children.forEach((child, at) => {
    if (parent.children[at] !== child) parent.insertBefore(child, parent.children[at] ?? null);
  });
  while (parent.children.length > children.length) parent.lastElementChild.remove();
}

/** Set the text of an element only when it differs, so that nothing is announced twice. */
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
