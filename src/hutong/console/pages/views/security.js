/** Users and rights at the brokers: SCRAM users, made and deleted, and the way to the ACLs. */

import { api } from "../core/api.js";
import { confirm, openDialog } from "../core/dialog.js";
import { h, replace } from "../core/dom.js";
import { form } from "../core/form.js";
import { number } from "../core/format.js";
import { badge, button, emptyState, loading, note, pageHead, tabs, text } from "../core/parts.js";
import { link } from "../core/paths.js";
import { canChange } from "../core/session.js";
import { table } from "../core/table.js";
import { toast } from "../core/toast.js";

/** @typedef {{name: string, mechanisms: {name: string, iterations: number}[]}} User */

const USERS = "/api/security/users";

/** @type {import("../core/router.js").View} */
export const view = {
  title: "Users",
  async open(container, _params, _query, signal) {
    const ask = async () => {
      const told = await api.get(USERS, { signal });
      replace(problem, told.truncated ? note("warn", `Only the first ${number(told.users.length)} users are listed.`) : null);
      list.update(told.users);
    };
    const add = canChange() ? button("Add user", () => void setPassword(null, ask), { kind: "main", icon: "plus" }) : null;
    const body = h("div", { class: "view" }, loading("users"));
    replace(container, securityHead("users", [add]), body);
    const problem = h("div");
    const list = userTable(signal, ask);
    await ask();
    replace(body, problem, list.element);
  },
};

/**
 * The head of all pages of security.
 * @param {"users" | "acls" | "refused"} tab
 * @param {import("../core/dom.js").Child[]} actions
 */
export function securityHead(tab, actions) {
  const items = [
    { label: "Users", href: "/security", is_current: tab === "users" },
    { label: "ACLs", href: "/security/acls", is_current: tab === "acls" },
    { label: "Refused", href: "/security/refused", is_current: tab === "refused" },
  ];
  const about = "Who may come in, and who may do what. The brokers check both.";
  return h("div", { class: "head-with-tabs" }, pageHead({ title: "Security", about, actions }), tabs("Pages of security", items));
}

/**
 * @param {AbortSignal} signal
 * @param {() => Promise<void>} ask
 */
function userTable(signal, ask) {
  /** @type {import("../core/table.js").Column<User>[]} */
  const columns = [
    { title: "User", cell: (user) => text(user.name), sort: (user) => user.name, is_mono: true },
    { title: "Logs in by", cell: (user) => user.mechanisms.flatMap((each) => [badge(each.name), " "]) },
    { title: "Iterations", cell: (user) => number(user.mechanisms[0]?.iterations), is_number: true, hint: "Of the hash of the password: more makes guessing slower" },
  ];
  if (canChange()) columns.push({ title: "Changes", cell: (user) => actionsOf(user, ask), is_action: true });
  return table({
    caption: "Users",
    columns,
    key: (user) => user.name,
    signal,
    search: (user) => user.name,
    filter_label: "Filter users",
    noun: "user",
    sort_by: 0,
    empty: () => emptyState("There are no users with passwords.", "Users of certificates and access tokens are not listed: the brokers know them by what they show."),
  });
}

/**
 * @param {User} user
 * @param {() => Promise<void>} ask
 */
function actionsOf(user, ask) {
  const change = button("Set password", () => void setPassword(user, ask));
  const remove = button("Delete", () => void deleteUser(user, ask));
  change.setAttribute("aria-label", `Set password of ${user.name}`);
  remove.setAttribute("aria-label", `Delete ${user.name}`);
  return [change, " ", remove];
}

/**
 * @param {User | null} user null: a new one
 * @param {() => Promise<void>} ask
 */
function setPassword(user, ask) {
  /** @type {import("../core/form.js").Field[]} */
  const fields = [
    { name: "password", label: "Password", type: "password", required: true, autocomplete: "new-password" },
    {
      name: "mechanism",
      label: "Mechanism",
      type: "select",
      value: user?.mechanisms[0]?.name ?? "SCRAM-SHA-512",
      choices: ["SCRAM-SHA-512", "SCRAM-SHA-256"].map((name) => ({ value: name, label: name })),
      hint: "As sasl.mechanism of the clients",
    },
  ];
  if (user === null) fields.unshift({ name: "name", label: "Name", required: true, is_mono: true });
  return openDialog(user === null ? "Add user" : `Set password of ${user.name}`, (close) =>
    form({
      fields,
      action: user === null ? "Add user" : "Set password",
      cancel: close,
      submit: async ({ name = user?.name, password, mechanism }) => {
        await api.post(USERS, { name, password, mechanism });
        close();
        toast(user === null ? `User ${name} may log in; ACLs say what it may do.` : `The password of ${name} is set.`);
        await ask();
      },
    }),
  );
}

/**
 * @param {User} user
 * @param {() => Promise<void>} ask
 */
async function deleteUser(user, ask) {
  const is_done = await confirm({
    title: "Delete user",
    body: h("p", null, "The user ", h("strong", { class: "mono" }, ...text(user.name)), " cannot log in any more. ACLs of that name stay until they are deleted."),
    action: "Delete user",
    is_dangerous: true,
    typed_name: user.name,
    run: async () => {
      for (const each of user.mechanisms) await api.delete(link`/api/security/users/${user.name}/${each.name}`);
    },
  });
  if (!is_done) return;
  toast(`User ${user.name} is deleted.`);
  await ask();
}
