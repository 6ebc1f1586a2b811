// The API's description as a page, drawn from the server's own OpenAPI document.

/** An element with attributes and children; text is always text. */
function h(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children.filter((child) => child !== null));
  return element;
}

const page = document.getElementById("docs");
const document_ = await (await fetch("openapi.json")).json();
const byTag = new Map();
for (const [path, calls] of Object.entries(document_.paths)) {
  for (const [method, call] of Object.entries(calls)) {
    const tag = call.tags[0];
    byTag.set(tag, [...(byTag.get(tag) ?? []), { path, method: method.toUpperCase(), ...call }]);
  }
}
for (const [tag, calls] of byTag) page.append(h("section", {}, h("h2", {}, tag), ...calls.map(shown)));
page.append(
  h(
    "section",
    {},
    h("h2", {}, "problem codes"),
    h(
      "div",
      { class: "call" },
      h(
        "table",
        {},
        ...Object.entries(document_["x-codes"]).map(([code, { status, title }]) =>
          h("tr", { id: code }, h("td", {}, code), h("td", {}, String(status)), h("td", {}, title)),
        ),
      ),
    ),
  ),
);

function shown(call) {
  const rows = call.parameters.map((one) => [`${one.name} (${one.in})`, one.description ?? ""]);
  const body = call.requestBody?.content["application/json"].schema.$ref.split("/").pop();
  const fields = body ? Object.entries(document_.components.schemas[body].properties ?? {}) : [];
  rows.push(...fields.map(([name, schema]) => [name, kind(schema)]));
  return h(
    "div",
    { class: "call" },
    h("h3", {}, h("span", { class: "method" }, call.method), ` ${call.path}`),
    h("p", {}, call.summary),
    rows.length ? h("table", {}, ...rows.map((row) => h("tr", {}, ...row.map((cell) => h("td", {}, cell))))) : null,
  );
}

function kind(schema) {
  if (schema.$ref) return kind(document_.components.schemas[schema.$ref.split("/").pop()]);
  if (schema.enum) return schema.enum.join(" | ");
  if (schema.anyOf) return schema.anyOf.map(kind).join(" | ");
  if (schema.type === "array") return `list of ${kind(schema.items ?? {})}`;
  return schema.type ?? "any JSON";
}
