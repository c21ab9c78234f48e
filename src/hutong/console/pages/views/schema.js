/** One subject: its versions, the schema of one, the difference of two, its level; registration and soft deletion. */

import { api } from "../core/api.js";
import { confirm, openDialog } from "../core/dialog.js";
import { h, replace } from "../core/dom.js";
import { form } from "../core/form.js";
import { counted } from "../core/format.js";
import { bind } from "../core/keys.js";
import { button, card, cards, copyButton, errorNote, loading, note, pageHead, text } from "../core/parts.js";
import { link } from "../core/paths.js";
import { goTo } from "../core/router.js";
import { canChange } from "../core/session.js";
import { toast } from "../core/toast.js";
import { differencePanel, versionSelect } from "./schema_difference.js";
import { registerSchema } from "./schema_write.js";

/** @typedef {{name: string, subject: string, version: number}} Reference */
/**
 * @typedef {{subject: string, version: number, id: number, type: string, schema: string, is_cut: boolean,
 *   references: Reference[], extra: unknown}} Version
 */
/**
 * @typedef {{subject: string, versions: number[], truncated: boolean, own_level: string | null, level: string | null,
 *   latest: Version}} WholeSubject
 */

const LEVELS = ["BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE", "NONE"];

/** @type {import("../core/router.js").View} */
export const view = {
  title: (params) => params.subject ?? "Schemas",
  async open(container, params, _query, signal) {
    const subject = params.subject ?? "";
    const path = link`/api/schemas/${subject}`;
    const body = h("div", { class: "view" }, loading("the subject"));
    const head = (/** @type {import("../core/dom.js").Child[]} */ ...actions) => pageHead({ title: subject, trail: [{ label: "Schemas", href: "/schemas" }], actions, is_name: true });
    replace(container, head(), body);
    /** @type {WholeSubject} */
    let told = await api.get(path, { signal });
    const again = async () => {
      told = await api.get(path, { signal });
      show();
    };
    const register = async () => {
      const made = await registerSchema(subject, told.latest.is_cut ? { ...told.latest, schema: "" } : told.latest);
      if (made === null) return;
      toast(`Version ${made.version} is registered.`);
      await again();
    };
    const actions = canChange()
      ? [button("Register version", () => void register(), { kind: "main" }), button("Set compatibility", () => void setLevel(told, path, again)), button("Delete subject", () => void deleteSubject(told, path), { kind: "danger" })]
      : [];
    if (actions.length) bind("n", "Register a version", () => void register(), { signal });
    const show = () => replace(body, summary(told), versionPanel(told, path, signal, again), differencePanel(told.versions, path, signal));
    replace(container, head(...actions), body);
    show();
  },
};

/** @param {WholeSubject} told */
function summary(told) {
  return cards(
    card("Type", told.latest.type),
    card("Latest version", String(told.latest.version)),
    card("Its id", String(told.latest.id)),
    card("Versions", `${told.truncated ? "more than " : ""}${told.versions.length}`),
    card("Compatibility", told.own_level ?? told.level ?? "–", told.own_level === null ? { note: "that of all subjects" } : {}),
  );
}

/**
 * @param {WholeSubject} told
 * @param {string} path
 * @param {AbortSignal} signal
 * @param {() => Promise<void>} changed
 */
function versionPanel(told, path, signal, changed) {
  const place = h("div", { class: "view" });
  const choice = versionSelect("schema-version", told.versions, told.latest.version);
  const draw = async () => {
    try {
      const one = Number(choice.value) === told.latest.version ? told.latest : /** @type {Version} */ (await api.get(`${path}/versions/${choice.value}`, { signal }));
      replace(place, ...schemaOf(one, path, changed));
    } catch (error) {
      if (!signal.aborted) replace(place, h("div", { role: "alert" }, errorNote(error)));
    }
  };
  choice.addEventListener("change", () => void draw());
  void draw();
  const field = h("div", { class: "field" }, h("label", { class: "field-label", for: "schema-version" }, "Version"), choice);
  return h("section", { class: "panel", "aria-labelledby": "schema" }, h("h2", { id: "schema" }, "Schema"), h("div", { class: "form-inline" }, field), place);
}

/**
 * @param {Version} one
 * @param {string} path
 * @param {() => Promise<void>} changed
 */
function schemaOf(one, path, changed) {
  const remove = canChange() ? button(`Delete version ${one.version}`, () => void deleteVersion(one, path, changed), { kind: "danger" }) : null;
  const references = one.references.map((each) => h("li", null, h("span", { class: "mono" }, ...text(each.name)), " is ", h("a", { href: link`/schemas/${each.subject}`, class: "mono" }, ...text(each.subject)), ` ${each.version}`));
  return [
    h("p", { class: "quiet" }, `Version ${one.version} has the id ${one.id}.`),
    h("pre", { class: "value", tabindex: "0", role: "region", "aria-label": `Schema of version ${one.version}` }, ...text(one.schema, { lines: true })),
    one.is_cut ? note("warn", "The schema is longer than what is shown.") : null,
    references.length ? h("div", null, h("h3", null, "Imports"), h("ul", null, ...references)) : null,
    one.extra ? h("div", null, h("h3", null, "Metadata and rules"), h("pre", { class: "value", tabindex: "0", role: "region", "aria-label": "Metadata and rules" }, ...text(JSON.stringify(one.extra, null, 2), { lines: true }))) : null,
    h("div", { class: "actions" }, one.is_cut ? null : copyButton("Copy schema", () => one.schema), remove),
  ];
}

/**
 * @param {WholeSubject} told
 * @param {string} path
 * @param {() => Promise<void>} changed
 */
function setLevel(told, path, changed) {
  const choices = [{ value: "", label: told.level === null ? "that of all subjects" : `that of all subjects (${told.level})` }, ...LEVELS.map((level) => ({ value: level, label: level }))];
  return openDialog("Set compatibility", (close) =>
    form({
      fields: [{ name: "level", label: "Compatibility", type: "select", choices, value: told.own_level ?? "", hint: "BACKWARD: a new schema reads what the last one wrote. TRANSITIVE: all earlier ones count" }],
      action: "Set compatibility",
      cancel: close,
      submit: async (values) => {
        await api.put(`${path}/level`, { level: values.level || null });
        close();
        toast("The compatibility is set.");
        await changed();
      },
    }),
  );
}

/**
 * @param {Version} one
 * @param {string} path
 * @param {() => Promise<void>} changed
 */
async function deleteVersion(one, path, changed) {
  const is_done = await confirm({
    title: `Delete version ${one.version}`,
    body: h("p", null, "The version is deleted softly: readers still find it by its id, new producers do not use it."),
    action: "Delete version",
    is_dangerous: true,
    typed_name: `version ${one.version}`,
    run: () => api.delete(`${path}/versions/${one.version}`),
  });
  if (!is_done) return;
  toast(`Version ${one.version} is deleted.`);
  // The last version takes the subject with it.
  await changed().catch(() => goTo("/schemas"));
}

/**
 * @param {WholeSubject} told
 * @param {string} path
 */
async function deleteSubject(told, path) {
  const is_done = await confirm({
    title: "Delete subject",
    body: h("p", null, `${counted(told.versions.length, "version")} are deleted softly: readers still find each by its id.`),
    action: "Delete subject",
    is_dangerous: true,
    typed_name: told.subject,
    run: () => api.delete(path),
  });
  if (!is_done) return;
  toast(`Subject ${told.subject} is deleted.`);
  goTo("/schemas");
}
