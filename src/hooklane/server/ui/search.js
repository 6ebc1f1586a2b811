// What a search box says: `type:order.* state:dead order:17` as parameters of the API. Pure.

const NAMES = ["id", "type", "key", "endpoint", "state", "after", "before"];

/** {type, key, state, …}; words without a name stand for a key, which may hold colons itself. */
export function parseSearch(text) {
  const found = {};
  const rest = [];
  for (const word of text.trim().split(/\s+/).filter(Boolean)) {
    const at = word.indexOf(":");
    const name = word.slice(0, at);
    if (at > 0 && NAMES.includes(name)) found[name] = word.slice(at + 1);
    else rest.push(word);
  }
  if (rest.length) found.key ??= rest.join(" ");
  return found;
}
