// What a search box says: `type:order.* http:5xx order:17` as parameters of the API. Pure.

const NAMES = ["id", "type", "key", "endpoint", "state", "seq", "http", "reason", "after", "before", "attempts"];

/** {type, http, …}; words without one of these *names* are the text `q`, since a key may hold colons itself. attempts:>3 is a bound. */
export function parseSearch(text, names = NAMES) {
  const found = {};
  const rest = [];
  for (const word of text.trim().split(/\s+/).filter(Boolean)) {
    const at = word.indexOf(":");
    const [name, value] = [word.slice(0, at), word.slice(at + 1)];
    const isNamed = at > 0 && names.includes(name);
    const bound = isNamed && name === "attempts" && /^(>=?)?(\d+)$/.exec(value);
    if (bound) found.attempts_min = String(Number(bound[2]) + (bound[1] === ">" ? 1 : 0));
    else if (isNamed && name !== "attempts") found[name] = value;
    else rest.push(word);
  }
  if (rest.length) found.q = rest.join(" ");
  return found;
}
