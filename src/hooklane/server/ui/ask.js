// Dialogs: a sentence, and at most one thing to fill in.

import { h } from "./dom.js";

const dialog = document.getElementById("dialog");

/** Show a sentence. */
export function tell(title, text) {
  return open(title, [h("p", {}, text)], [h("button", { class: "button primary", value: "close" }, "Close")]);
}

/** Ask for a note; null when the person thinks better of it. */
export async function askNote(title, sentences, word) {
  const note = h("textarea", { id: "note", rows: 3, required: true, "aria-describedby": "note-why" });
  const answer = await open(
    title,
    [
      ...sentences.map((text) => h("p", {}, text)),
      h("label", { for: "note" }, "Note (required)"),
      note,
      h("p", { class: "hint", id: "note-why" }, "It goes on record with the event."),
    ],
    [
      h("button", { class: "button", value: "cancel", formnovalidate: true }, "Cancel"),
      h("button", { class: "button danger", value: "ok" }, word),
    ],
  );
  return answer === "ok" ? note.value.trim() : null;
}

function open(title, content, buttons) {
  const form = h(
    "form",
    { method: "dialog" },
    h("h2", { id: "dialog-title" }, title),
    ...content,
    h("div", { class: "actions" }, buttons),
  );
  dialog.replaceChildren(form);
  dialog.returnValue = "";
  dialog.showModal();
  form.querySelector("textarea")?.focus();
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve(dialog.returnValue), { once: true }));
}
