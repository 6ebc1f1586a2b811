// What the first screen needs is asked for before its modules are there: api.js and stream.js take these answers over.
(() => {
  const { root } = document.currentScript.dataset;
  const { pathname, search } = location;
  const stop = new AbortController();
  const ask = (path, signal) => fetch(new URL(`${root}api/v1/${path}`, location.href), { cache: "no-store", signal });
  if (/\/portal$/.test(pathname)) return; // who looks is known only when the link's token was exchanged
  const stream = ask("stream", stop.signal).then((response) => ({ response, at: performance.now() }));
  const answers = { session: ask("session") };
  // Asked for when the stream is joined: nothing moves between such an answer and the first word of the stream.
  const paths = ["overview"];
  if (/\/lanes$/.test(pathname) && !/[?&](q|state|endpoint)=/.test(search)) paths.push("lanes?order=attention&limit=200", "lanes?state=idle&limit=60");
  for (const path of paths) answers[path] = stream.then(() => ask(path));
  for (const one of [stream, ...Object.values(answers)]) one.catch(() => {}); // who takes it is told
  window.early = { stream, stop, answers };
})();
