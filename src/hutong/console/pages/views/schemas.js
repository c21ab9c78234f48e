/** Subjects of the schema registry, each with its latest version; a new one is registered here. */

import { api } from "../core/api.js";
import { h, replace } from "../core/dom.js";
import { NOTHING, number } from "../core/format.js";
import { bind } from "../core/keys.js";
import { button, emptyState, loading, note, pageHead, text } from "../core/parts.js";
import { link } from "../core/paths.js";
import { goTo } from "../core/router.js";
import { canChange } from "../core/session.js";
import { table } from "../core/table.js";
import { toast } from "../core/toast.js";
import { registerSchema } from "./schema_write.js";

/** @typedef {{subject: string, version: number, id: number, type: string, level: string | null}} Subject */
/** @typedef {{has_registry: boolean, subjects: Subject[], truncated: boolean}} Subjects */

/** @type {import("../core/router.js").View} */
export const view = {
  title: "Schemas",
  async open(container, _params, query, signal) {
    const body = h("div", { class: "view" }, loading("schemas"));
    replace(container, pageHead({ title: "Schemas" }), body);
    const told = /** @type {Subjects} */ (await api.get("/api/schemas", { signal }));
    if (!told.has_registry) {
      replace(body, emptyState("This console has no schema registry.", "A node keeps schemas with hutong serve --schema-registry HOST:PORT; hutong console --schema-registry URL shows those of any registry."));
      return;
    }
    const register = () => void registerNew();
    const add = canChange() ? button("Register schema", register, { kind: "main", icon: "plus" }) : null;
    if (add) bind("n", "Register a schema", register, { signal });
    replace(container, pageHead({ title: "Schemas", actions: [add] }), body);
    const more = told.truncated ? note("warn", `Only the first ${number(told.subjects.length)} subjects are listed.`) : null;
    replace(body, more, subjectTable(told, query.get("filter") ?? "", signal));
  },
};

/**
 * @param {Subjects} told
 * @param {string} filter
 * @param {AbortSignal} signal
 */
function subjectTable(told, filter, signal) {
  /** @type {import("../core/table.js").Column<Subject>[]} */
  const columns = [
    { title: "Subject", is_mono: true, sort: (one) => one.subject, cell: (one) => h("a", { href: link`/schemas/${one.subject}` }, ...text(one.subject)) },
    { title: "Type", sort: (one) => one.type, cell: (one) => text(one.type) },
    { title: "Latest version", is_number: true, sort: (one) => one.version, cell: (one) => number(one.version) },
    { title: "Id", is_number: true, sort: (one) => one.id, cell: (one) => String(one.id) },
    { title: "Compatibility", sort: (one) => one.level, cell: (one) => one.level ?? NOTHING },
  ];
  const empty = () => emptyState("No schema is registered that you may see.", "Serializers of producers register theirs; or paste one here.");
  return table({ caption: "Subjects", columns, rows: told.subjects, key: (one) => one.subject, search: (one) => one.subject, noun: "subject", sort_by: 0, filter, signal, empty }).element;
}

async function registerNew() {
  const made = await registerSchema(null, { type: "AVRO", schema: "", references: [], extra: null });
  if (made === null) return;
  toast(`Version ${made.version} of ${made.subject} is registered.`);
  goTo(link`/schemas/${made.subject}`);
}
