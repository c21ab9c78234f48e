/** ACLs: who may do what with which topic, group or the cluster. */

import { api } from "../core/api.js";
import { confirm, openDialog } from "../core/dialog.js";
import { h, replace } from "../core/dom.js";
import { form } from "../core/form.js";
import { number } from "../core/format.js";
import { badge, button, emptyState, loading, note, text } from "../core/parts.js";
import { canChange } from "../core/session.js";
import { table } from "../core/table.js";
import { toast } from "../core/toast.js";
import { securityHead } from "./security.js";

/**
 * @typedef {{principal: string, operation: string, resource: string, name: string, pattern: string, permission: string,
 *   host: string}} Acl
 */

const ACLS = "/api/security/acls";
const CLUSTER = "kafka-cluster";
const OPERATIONS = ["read", "write", "describe", "create", "alter", "delete", "describe_configs", "alter_configs", "cluster_action", "idempotent_write", "all"];
const RESOURCES = [
  { value: "topic", label: "Topic" },
  { value: "group", label: "Group" },
  { value: "transactional_id", label: "Transactional id" },
  { value: "cluster", label: "The cluster" },
];

/** @type {import("../core/router.js").View} */
export const view = {
  title: "ACLs",
  async open(container, _params, _query, signal) {
    const ask = async () => {
      const told = await api.get(ACLS, { signal });
      replace(problem, told.truncated ? note("warn", `Only the first ${number(told.acls.length)} ACLs are listed.`) : null);
      list.update(told.acls);
    };
    const add = canChange() ? button("Add ACL", () => void addAcl(ask), { kind: "main", icon: "plus" }) : null;
    const body = h("div", { class: "view" }, loading("ACLs"));
    replace(container, securityHead("acls", [add]), body);
    const problem = h("div");
    const list = aclTable(signal, ask);
    await ask();
    replace(body, problem, list.element);
  },
};

/**
 * @param {AbortSignal} signal
 * @param {() => Promise<void>} ask
 */
function aclTable(signal, ask) {
  /** @type {import("../core/table.js").Column<Acl>[]} */
  const columns = [
    { title: "Principal", cell: (acl) => text(acl.principal), sort: (acl) => acl.principal, is_mono: true },
    { title: "Permission", cell: (acl) => badge(acl.permission, acl.permission === "deny" ? "bad" : "good"), sort: (acl) => acl.permission },
    { title: "Operation", cell: (acl) => words(acl.operation), sort: (acl) => acl.operation },
    { title: "Resource", cell: (acl) => words(acl.resource), sort: (acl) => acl.resource },
    { title: "Name", cell: nameOf, sort: (acl) => acl.name, is_mono: true },
    { title: "Host", cell: (acl) => (acl.host === "*" ? "any" : text(acl.host)), sort: (acl) => acl.host },
  ];
  if (canChange()) columns.push({ title: "Changes", cell: (acl) => deletion(acl, ask), is_action: true });
  return table({
    caption: "ACLs",
    columns,
    key: (acl) => JSON.stringify(acl),
    signal,
    search: (acl) => Object.values(acl).join(" "),
    filter_label: "Filter ACLs",
    noun: "ACL",
    sort_by: 0,
    empty: () => emptyState("There are no ACLs.", ["Brokers that authorize nothing let everybody do everything; others let super users alone in. Hutong authorizes with ", h("code", null, "security.authorize = true"), "."]),
  });
}

/** @param {Acl} acl */
function nameOf(acl) {
  if (acl.resource === "cluster") return h("span", { class: "quiet" }, "the cluster");
  if (acl.pattern === "prefixed") return [...text(acl.name), h("span", { class: "quiet" }, "…")];
  return acl.name === "*" ? h("span", { class: "quiet" }, "all") : text(acl.name);
}

/** @param {string} word */
function words(word) {
  return word.replaceAll("_", " ");
}

/**
 * @param {Acl} acl
 * @param {() => Promise<void>} ask
 */
function deletion(acl, ask) {
  const remove = button("Delete", () => void deleteAcl(acl, ask));
  remove.setAttribute("aria-label", `Delete the ACL of ${acl.principal}: ${acl.permission} ${words(acl.operation)} ${words(acl.resource)} ${acl.name}`);
  return remove;
}

/**
 * @param {Acl} acl
 * @param {() => Promise<void>} ask
 */
async function deleteAcl(acl, ask) {
  const who = h("strong", { class: "mono" }, ...text(acl.principal));
  const what = h("strong", { class: "mono" }, ...text(acl.name));
  const body = h("p", null, who, ` loses the rule: ${acl.permission} ${words(acl.operation)} on the ${words(acl.resource)} `, what, ". Clients notice at their next request.");
  const is_done = await confirm({ title: "Delete ACL", body, action: "Delete ACL", is_dangerous: true, run: () => api.post(`${ACLS}/deletion`, acl) });
  if (!is_done) return;
  toast("The ACL is deleted.");
  await ask();
}

/** @param {() => Promise<void>} ask */
function addAcl(ask) {
  return openDialog("Add ACL", (close) =>
    form({
      fields: fields(),
      action: "Add ACL",
      cancel: close,
      submit: async (values) => {
        const is_cluster = values.resource === "cluster";
        const acl = { ...values, name: is_cluster ? CLUSTER : values.name, pattern: is_cluster ? "literal" : values.pattern, host: values.host ?? "*" };
        await api.post(ACLS, acl);
        close();
        toast("The ACL holds from now on.");
        await ask();
      },
    }),
  );
}

/** @returns {import("../core/form.js").Field[]} */
function fields() {
  const operations = OPERATIONS.map((each) => ({ value: each, label: words(each) }));
  return [
    { name: "principal", label: "Principal", required: true, is_mono: true, value: "User:", hint: "User:NAME; User:* is everybody", check: (value) => (/^[A-Za-z]+:./.test(value) ? null : "Write User:NAME.") },
    { name: "permission", label: "Permission", type: "select", value: "allow", choices: [{ value: "allow", label: "allow" }, { value: "deny", label: "deny, whatever else allows it" }] },
    { name: "operation", label: "Operation", type: "select", value: "read", choices: operations },
    { name: "resource", label: "Resource", type: "select", value: "topic", choices: RESOURCES },
    { name: "name", label: "Name", required: true, is_mono: true, value: "*", hint: "* is all; of no use for the cluster" },
    { name: "pattern", label: "The name is", type: "select", value: "literal", choices: [{ value: "literal", label: "the whole name" }, { value: "prefixed", label: "how names begin" }] },
    { name: "host", label: "Host", hint: "An IP address. Empty: from anywhere" },
  ];
}
