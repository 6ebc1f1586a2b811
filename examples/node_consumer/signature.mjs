// Was this request signed by the sender, and recently? Standard Webhooks: `v1` (HMAC-SHA256) and `v1a` (Ed25519).
import { createHmac, createPublicKey, timingSafeEqual, verify } from "node:crypto";

const TOLERANCE_S = 300;
const SIGNATURES_MAX = 16;

/** Keys out of text: `whsec_…` and `whpk_…`, separated by spaces. While a secret is rotated there are two. */
export function readKeys(text) {
  const keys = text.split(" ").filter(Boolean).map(readKey);
  if (keys.length === 0) throw new Error("no key to verify with: expected whsec_… or whpk_…");
  return keys;
}

/**
 * Whether one of *keys* signed `{id}.{timestamp}.{body}`. *body* is the Buffer that came over the wire: JSON that was
 * parsed and written anew has other bytes, and no signature fits them.
 */
export function isSigned({ id, timestamp, signature }, body, keys, now_s = Date.now() / 1000) {
  if (!/^[\x21-\x7e]{1,256}$/.test(id ?? "") || !/^[0-9]{1,12}$/.test(timestamp ?? "")) return false;
  if (Math.abs(now_s - Number(timestamp)) > TOLERANCE_S) return false;
  const text = Buffer.concat([Buffer.from(`${id}.${timestamp}.`), body]);
  const given = (signature ?? "").split(" ").slice(0, SIGNATURES_MAX);
  let fits = false;
  // All of them, always: the time that the answer takes must not tell which one fits.
  for (const key of keys) for (const one of key(text, given)) fits = one || fits;
  return fits;
}

function readKey(secret) {
  if (secret.startsWith("whsec_")) return hmacKey(strictBase64(secret.slice(6)));
  if (secret.startsWith("whpk_")) return publicKey(strictBase64(secret.slice(5)));
  throw new Error("a key to verify with begins with whsec_ or whpk_");
}

function hmacKey(secret) {
  return (text, given) => {
    const expected = Buffer.from("v1," + createHmac("sha256", secret).update(text).digest("base64"));
    return given.map((one) => {
      const bytes = Buffer.from(one);
      return bytes.length === expected.length && timingSafeEqual(bytes, expected);
    });
  };
}

function publicKey(raw) {
  const key = createPublicKey({ format: "jwk", key: { kty: "OKP", crv: "Ed25519", x: raw.toString("base64url") } });
  return (text, given) =>
    given.map((one) => {
      const bytes = Buffer.from(one.slice(4), "base64");
      return one.startsWith("v1a,") && bytes.toString("base64") === one.slice(4) && verify(null, text, key, bytes);
    });
}

function strictBase64(text) {
  const raw = Buffer.from(text, "base64");
  // Buffer reads over what is no base64; a key that was copied badly would then verify nothing, without a word.
  if (raw.length < 24 || raw.toString("base64") !== text) throw new Error("a key is base64 of at least 24 bytes");
  return raw;
}
