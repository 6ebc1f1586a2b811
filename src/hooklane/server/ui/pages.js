// A list that is read page by page, and shown as one.

import { useState } from "./kit.js";
import { useLoad } from "./live.js";

/**
 * What *fetchPage(cursor)* answers, with the items of as many pages as were asked for: {value, error, again, more}. They
 * are fetched anew together: a first page that has moved on would leave a hole before the second. Long lists are fetched
 * less often, and not at each of the news *on*.
 */
export function usePages(fetchPage, what, { everyMs, on = [] } = {}) {
  const about = JSON.stringify(what);
  const [asked, setAsked] = useState({ about, many: 1 });
  const many = asked.about === about ? asked.many : 1;
  async function fetchAll() {
    const first = await fetchPage();
    const items = [...first.items];
    let { next } = first;
    for (let n = 1; n < many && next !== null; n++) {
      const page = await fetchPage(next);
      items.push(...page.items);
      next = page.next;
    }
    return { ...first, items, next };
  }
  const load = useLoad(fetchAll, [what, many], { everyMs: everyMs && everyMs * many, on: many === 1 ? on : [] });
  return { ...load, more: () => setAsked({ about, many: many + 1 }) };
}
