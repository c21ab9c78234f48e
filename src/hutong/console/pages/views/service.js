/** One service: what its methods take and give, and a form to call each of them. */

import { api } from "../core/api.js";
import { openDialog } from "../core/dialog.js";
import { h, replace } from "../core/dom.js";
import { duration, number } from "../core/format.js";
import { form } from "../core/form.js";
import { badge, button, emptyState, facts, loading, pageHead, text } from "../core/parts.js";
import { link } from "../core/paths.js";
import { canChange } from "../core/session.js";

/**
 * @typedef {{name: string, signature: string, kind: string, documentation: string, arguments_schema: any, result_schema: any}} MethodDetails
 */

/** @type {import("../core/router.js").View} */
export const view = {
  title: "Service",
  async open(container, params, _query, signal) {
    const address = /** @type {string} */ (params.address);
    const body = h("div", { class: "view" }, loading("the service"));
    const trail = [{ label: "Services", href: "/services" }];
    replace(container, pageHead({ title: address, trail, is_name: true }), body);
    const told = await api.get(link`/api/services/${address}`, { signal });
    const figures = new Map(told.statistics.methods.map((/** @type {any} */ one) => [one.name, one]));
    const methods = told.details.methods.map((/** @type {MethodDetails} */ one) => methodPanel(address, one, figures.get(one.name)));
    replace(
      body,
      facts([
        ["Name", text(told.details.name)],
        ["Version", text(told.details.version || "none")],
        ["Instances", number(told.statistics.instances)],
        ["Unknown methods", number(told.statistics.unknown_actions_total)],
      ]),
      told.details.documentation ? h("p", null, ...text(told.details.documentation, { lines: true })) : null,
      ...(methods.length ? methods : [emptyState("The service has no methods.")]),
      errorList(told.details.errors),
    );
  },
};

/**
 * @param {string} address
 * @param {MethodDetails} method
 * @param {any} figures
 */
function methodPanel(address, method, figures) {
  const call = canChange() ? button("Call", () => void callMethod(address, method), { title: `Call ${method.name}` }) : null;
  const counted = `${number(figures?.requests_total)} calls, mean ${duration(figures?.processing_ms_average)}, ${number(figures?.errors_total)} failed`;
  return h(
    "section",
    { class: "panel" },
    h("div", { class: "toolbar" }, h("h2", { class: "mono" }, ...text(method.name)), badge(method.kind), h("span", { class: "space" }), call),
    h("pre", { class: "value" }, ...text(method.signature, { lines: true })),
    method.documentation ? h("p", null, ...text(method.documentation, { lines: true })) : null,
    h("p", { class: "quiet" }, counted),
  );
}

/** @param {{code: number, name: string, documentation: string}[]} errors */
function errorList(errors) {
  if (errors.length === 0) return null;
  const items = errors.map((one) => h("li", null, badge(String(one.code), "warn"), " ", ...text(`${one.name}: ${one.documentation}`)));
  return h("section", null, h("h2", null, "Errors of its own"), h("ul", null, ...items));
}

/**
 * @param {string} address
 * @param {MethodDetails} method
 */
function callMethod(address, method) {
  return openDialog(`Call ${method.name}`, (close) => {
    const outcome = h("div", { role: "status" });
    const fields = form({
      fields: [{ name: "arguments", label: "Arguments", type: "textarea", is_mono: true, rows: 6, value: example(method.arguments_schema), hint: "By name, as a JSON object", check: wrongArguments }],
      action: "Call",
      cancel: close,
      submit: async (values) => {
        replace(outcome);
        const body = { arguments: JSON.parse(values.arguments || "{}") };
        replace(outcome, shownOutcome(await api.post(link`/api/services/${address}/methods/${method.name}`, body)));
      },
    });
    return [h("p", { class: "mono" }, ...text(method.signature)), fields, outcome];
  });
}

/** @param {any} told */
function shownOutcome(told) {
  const took = ` after ${duration(told.took_ms)}`;
  if (told.failure) {
    const code = told.failure.code === null ? "" : ` code ${told.failure.code}`;
    return h("div", { class: "note note-bad" }, h("p", null, badge(told.failure.type, "bad"), `${code}${took}`), h("p", null, ...text(told.failure.message)));
  }
  return h("div", { class: "note note-good" }, h("p", null, badge("result", "good"), took), h("pre", { class: "value" }, ...text(JSON.stringify(told.result, null, 2), { lines: true })));
}

/** @param {string} value */
function wrongArguments(value) {
  try {
    const given = JSON.parse(value);
    return typeof given === "object" && given !== null && !Array.isArray(given) ? null : "Give a JSON object: names and values.";
  } catch (error) {
    return `This is no JSON: ${error instanceof Error ? error.message : error}`;
  }
}

/**
 * Arguments to begin with: each name with an empty value of its type.
 * @param {any} schema JSON Schema of the arguments
 */
export function example(schema) {
  const found = resolved(schema, schema);
  const names = Object.entries(found?.properties ?? {});
  const values = names.map(([name, one]) => [name, emptyOf(resolved(one, schema))]);
  return JSON.stringify(Object.fromEntries(values), null, 2);
}

/**
 * @param {any} one
 * @param {any} whole
 */
function resolved(one, whole) {
  const name = typeof one?.$ref === "string" ? one.$ref.replace("#/$defs/", "") : null;
  return name === null ? one : whole.$defs?.[name];
}

/** @param {any} schema */
function emptyOf(schema) {
  if (schema?.default !== undefined) return schema.default;
  /** @type {Record<string, unknown>} */
  const empty = { string: "", integer: 0, number: 0, boolean: false, array: [], object: {} };
  return empty[schema?.type] ?? null;
}
