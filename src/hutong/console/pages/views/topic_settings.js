/** The settings of a topic: each with where its value comes from, and what a reset brings back. */

import { api } from "../core/api.js";
import { confirm, openDialog } from "../core/dialog.js";
import { h, replace } from "../core/dom.js";
import { form } from "../core/form.js";
import { bytes, duration } from "../core/format.js";
import { badge, button, loading, text } from "../core/parts.js";
import { link } from "../core/paths.js";
import { setQuery } from "../core/router.js";
import { canChange } from "../core/session.js";
import { table } from "../core/table.js";
import { toast } from "../core/toast.js";
import { topicHead } from "./topic_head.js";

/**
 * @typedef {{name: string, value: string | null, source: string, inherited: string | null, is_default: boolean,
 *   is_read_only: boolean, is_sensitive: boolean}} Setting
 */

/** @type {import("../core/router.js").View} */
export const view = {
  title: (params) => `${params.name} settings`,
  async open(container, params, query, signal) {
    const name = params.name ?? "";
    const path = link`/api/topics/${name}/settings`;
    const body = h("div", { class: "view" }, loading("settings"));
    replace(container, topicHead(name, "settings"), body);
    const ask = async () => list.update((await api.get(path, { signal })).settings);
    const list = settingTable(query, signal, canChange() ? (setting) => actionsOf(setting, path, ask) : null);
    await ask();
    replace(body, list.element);
  },
};

/**
 * A table of settings, for topics and brokers.
 * @param {URLSearchParams} query
 * @param {AbortSignal} signal
 * @param {((setting: Setting) => import("../core/dom.js").Child[]) | null} actions of a setting; null: nothing changes
 */
export function settingTable(query, signal, actions) {
  /** @type {import("../core/table.js").Column<Setting>[]} */
  const columns = [
    { title: "Setting", cell: (each) => text(each.name), sort: (each) => each.name, is_mono: true },
    { title: "Value", cell: valueOf, sort: (each) => each.value, is_mono: true },
    { title: "Meaning", cell: (each) => meaning(each.name, each.value) },
    { title: "Source", cell: (each) => badge(each.source, each.source === "topic" ? "accent" : "plain"), sort: (each) => each.source },
  ];
  if (actions) columns.push({ title: "Changes", cell: actions, is_action: true });
  return table({
    caption: "Settings",
    columns,
    key: (each) => each.name,
    signal,
    search: (each) => `${each.name} ${each.value ?? ""} ${each.source}`,
    filter_label: "Filter settings",
    noun: "setting",
    filter: query.get("filter") ?? "",
    onFilter: (filter) => setQuery({ filter }),
    sort_by: 0,
  });
}

/** @param {Setting} setting */
function valueOf(setting) {
  if (setting.is_sensitive) return badge("secret");
  if (setting.value === null) return "–";
  return setting.value === "" ? h("span", { class: "quiet" }, "empty") : text(setting.value);
}

/**
 * A value in words, where its unit is in the name.
 * @param {string} name
 * @param {string | null} value
 */
export function meaning(name, value) {
  const number = value === null || !/^-?\d{1,19}$/.test(value) ? null : Number(value);
  if (number === null) return "";
  const unit = name.split(".").at(-1);
  if (unit !== "ms" && unit !== "bytes") return "";
  if (number < 0) return "no limit";
  if (number >= 9.2e18) return "never";
  return unit === "ms" ? duration(number) : bytes(number);
}

/**
 * @param {Setting} setting
 * @param {string} path
 * @param {() => Promise<void>} ask
 */
function actionsOf(setting, path, ask) {
  if (setting.is_read_only) return [badge("read only")];
  const edit = button("Edit", () => void editSetting(setting, path, ask));
  edit.setAttribute("aria-label", `Edit ${setting.name}`);
  if (setting.source !== "topic") return [edit];
  const reset = button("Reset", () => void resetSetting(setting, path, ask));
  reset.setAttribute("aria-label", `Reset ${setting.name}`);
  return [reset, " ", edit];
}

/**
 * @param {Setting} setting
 * @param {string} path
 * @param {() => Promise<void>} ask
 */
function editSetting(setting, path, ask) {
  const inherited = setting.source === "topic" ? setting.inherited : setting.value;
  const hint = inherited === null ? "" : `Without a value of its own: ${inherited === "" ? "empty" : inherited}`;
  return openDialog(`Edit ${setting.name}`, (close) =>
    form({
      fields: [{ name: "value", label: "Value", value: setting.value ?? "", is_mono: true, required: true, ...(hint ? { hint } : {}) }],
      action: "Save",
      cancel: close,
      submit: async ({ value }) => {
        await api.patch(path, { set: { [setting.name]: value } });
        close();
        toast(`${setting.name} is ${value}.`);
        await ask();
      },
    }),
  );
}

/**
 * @param {Setting} setting
 * @param {string} path
 * @param {() => Promise<void>} ask
 */
async function resetSetting(setting, path, ask) {
  const back = setting.inherited === null ? "the broker's own value" : setting.inherited || "empty";
  const is_done = await confirm({
    title: `Reset ${setting.name}`,
    body: h("p", null, "The value goes from ", h("strong", { class: "mono" }, setting.value ?? ""), " to ", h("strong", { class: "mono" }, back), "."),
    action: "Reset",
    run: () => api.patch(path, { reset: [setting.name] }),
  });
  if (!is_done) return;
  toast(`${setting.name} is reset.`);
  await ask();
}
