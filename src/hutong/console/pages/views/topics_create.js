/** The dialog that makes a topic: name, partitions, replicas, and the settings most often wanted. */

import { api } from "../core/api.js";
import { openDialog } from "../core/dialog.js";
import { form } from "../core/form.js";
import { link } from "../core/paths.js";
import { goTo } from "../core/router.js";
import { toast } from "../core/toast.js";

const NAME_CHARACTERS_MAX = 249;
const PARTITIONS_MAX = 10_000;

/**
 * Ask for a new topic; once it is there, its page opens.
 * @returns {Promise<void>}
 */
export async function createTopic() {
  let made = "";
  await openDialog("Create topic", (close) =>
    form({
      fields: fields(),
      action: "Create topic",
      cancel: close,
      submit: async (values) => {
        await api.post("/api/topics", bodyOf(values));
        made = values.name;
        close();
      },
    }),
  );
  if (!made) return;
  toast(`Topic ${made} is there.`);
  goTo(link`/topics/${made}`);
}

/** @returns {import("../core/form.js").Field[]} */
function fields() {
  return [
    { name: "name", label: "Name", required: true, is_mono: true, check: nameFault, hint: "Letters, digits, dots, dashes and underscores" },
    { name: "partitions", label: "Partitions", type: "number", min: 1, max: PARTITIONS_MAX, hint: "At most this many consumers of a group share the work. Empty: the broker's default" },
    { name: "replication", label: "Replicas", type: "number", min: 1, max: 100, hint: "Copies on different nodes. Empty: the broker's default" },
    { name: "cleanup_policy", label: "Old records", type: "select", value: "", choices: [
      { value: "", label: "As the broker does" },
      { value: "delete", label: "Delete by age or size" },
      { value: "compact", label: "Keep the latest of each key" },
      { value: "compact,delete", label: "Both" },
    ] },
    { name: "retention_h", label: "Keep records for (hours)", type: "number", min: 1, hint: "Empty: the broker's default" },
  ];
}

/** @param {string} name */
function nameFault(name) {
  if (name.length > NAME_CHARACTERS_MAX) return `A name has at most ${NAME_CHARACTERS_MAX} characters.`;
  if (name === "." || name === "..") return "A name is not . or ..";
  return /^[\w.-]+$/.test(name) ? null : "Use letters, digits, dots, dashes and underscores only.";
}

/** @param {import("../core/form.js").Values} values */
function bodyOf(values) {
  /** @type {Record<string, string>} */
  const settings = {};
  if (values.cleanup_policy) settings["cleanup.policy"] = values.cleanup_policy;
  if (values.retention_h) settings["retention.ms"] = String(values.retention_h * 3_600_000);
  return { name: values.name, partitions: values.partitions, replication: values.replication, settings };
}
