/** One record at its own address. */

import { replace } from "../core/dom.js";
import { pageHead } from "../core/parts.js";
import { link } from "../core/paths.js";
import { openedRecord } from "./messages_record.js";

/** @type {import("../core/router.js").View} */
export const view = {
  title: (params) => `Record ${params.offset} of ${params.name}`,
  async open(container, params, _query, signal) {
    const topic = params.name ?? "";
    const place = { partition: Number(params.partition), offset: Number(params.offset) };
    const trail = [
      { label: "Topics", href: "/topics" },
      { label: topic, href: link`/topics/${topic}` },
      { label: "Messages", href: link`/topics/${topic}/messages` },
    ];
    const head = pageHead({ title: `Record ${params.offset} of partition ${params.partition}`, trail });
    replace(container, head, openedRecord(topic, place, { key_form: "", value_form: "" }, signal));
  },
};
