/** Settings of one broker, as it tells them to any client that may ask. */

import { api } from "../core/api.js";
import { h, replace } from "../core/dom.js";
import { loading } from "../core/parts.js";
import { link } from "../core/paths.js";
import { settingsHead } from "./settings.js";
import { settingTable } from "./topic_settings.js";

/** @type {import("../core/router.js").View} */
export const view = {
  title: (params) => `Settings of broker ${params.broker}`,
  async open(container, params, query, signal) {
    const broker = Number(params.broker);
    const body = h("div", { class: "view" }, loading("settings"));
    replace(container, settingsHead([], broker), body);
    const { brokers } = await api.get("/api/settings/brokers", { signal });
    replace(container, settingsHead(brokers, broker), body);
    const told = await api.get(link`/api/settings/brokers/${params.broker ?? ""}`, { signal });
    const list = settingTable(query, signal, null);
    list.update(told.settings);
    replace(body, list.element);
  },
};
