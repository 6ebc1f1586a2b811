// Holds the code of examples/node_consumer to the test vectors: `node check_vectors.mjs FILE` prints what disagrees.
import { readFile } from "node:fs/promises";
import { turnOf } from "../../../examples/node_consumer/receive.mjs";
import { isSigned, readKeys } from "../../../examples/node_consumer/signature.mjs";

const vectors = JSON.parse(await readFile(process.argv[2], "utf8"));

function passes({ headers, body, verify_with, now }) {
  const [id, timestamp, signature] = ["id", "timestamp", "signature"].map((name) => headers[`webhook-${name}`]);
  return isSigned({ id, timestamp, signature }, Buffer.from(body), readKeys(verify_with.join(" ")), now);
}

const wrong = [
  ...vectors.deliveries.filter((one) => !passes(one)).map((one) => `refused: ${one.name}`),
  ...vectors.refused.filter(passes).map((one) => `accepted: ${one.name}`),
  ...vectors.header_keys.filter((one) => decodeURIComponent(one.x_key) !== one.key).map((one) => `key: ${one.key}`),
  ...vectors.turns.filter((one) => turnOf(one, one.applied) !== one.turn).map((one) => `turn: ${JSON.stringify(one)}`),
];
console.log(JSON.stringify({ wrong, checked: Object.values(vectors).flat().length }));
