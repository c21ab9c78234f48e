/** The sentence on the whole, and the list of what is wrong, each with its remedy. */

import { h, replace } from "../core/dom.js";
import { duration } from "../core/format.js";
import { badge, text } from "../core/parts.js";

/**
 * @typedef {{alert: string, severity: "critical" | "warning" | "info", sentence: string, remedy: string, see: string | null,
 *   since_ms: number | null, is_alert: boolean, more: number}} Finding
 */

const TONES = /** @type {const} */ ({ critical: "bad", warning: "warn", info: "plain" });

/** The strip at the top: a tone, a sentence, and a word on where it comes from. */
export function healthStrip() {
  const sentence = h("p", { class: "health-sentence", role: "status" });
  const source = h("p", { class: "health-source" });
  const element = h("div", { class: "health" }, h("span", { class: "health-mark", "aria-hidden": "true" }), h("div", null, sentence, source));
  let origin = "";
  return {
    element,
    /**
     * @param {import("./overview.js").Health} health
     * @param {string} from
     */
    show(health, from) {
      origin = from;
      element.className = `health health-${health.tone}`;
      // A reader is told only when it changes.
      if (sentence.textContent !== health.sentence) replace(sentence, health.sentence);
      if (source.textContent !== from) replace(source, from);
    },
    /** @param {boolean} is_live */
    setLive(is_live) {
      element.classList.toggle("health-lost", !is_live);
      replace(source, is_live ? origin : "The console does not answer. Trying again …");
    },
  };
}

/** The list of what is wrong now. It is drawn anew only when something else is wrong, so that the focus stays. */
export function findingsList() {
  const list = h("ol", { class: "findings" });
  const heading = h("h2", { id: "findings" }, "What is wrong now, and what to do");
  const element = h("section", { "aria-labelledby": "findings", class: "findings-section", hidden: true }, heading, list);
  let drawn = "";
  return {
    element,
    /** @param {Finding[]} findings */
    show(findings) {
      const now = JSON.stringify(findings.map((one) => [one.sentence, one.is_alert, one.more, lasting(one)]));
      if (now === drawn) return;
      drawn = now;
      element.hidden = findings.length === 0;
      const focused = list.querySelector("a:focus")?.getAttribute("href");
      replace(list, ...byRule(findings).map(item));
      if (focused) [...list.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus();
    },
  };
}

/**
 * Findings of one rule, with its remedy once.
 * @param {Finding[]} findings at least one
 */
function item(findings) {
  const first = /** @type {Finding} */ (findings[0]);
  const tone = TONES[first.severity];
  const kind = first.is_alert ? badge(first.severity, tone) : badge("may pass");
  const more = findings.reduce((sum, one) => sum + one.more, 0);
  return h(
    "li",
    { class: `finding finding-${first.is_alert ? tone : "plain"}` },
    h("div", { class: "finding-head" }, kind, h("span", { class: "mono" }, first.alert)),
    h("ul", { class: "finding-things" }, ...findings.map(thing), more ? h("li", { class: "quiet" }, `and ${more} more like these`) : null),
    h("p", { class: "finding-remedy" }, ...withCode(first.remedy)),
  );
}

/** @param {Finding} one */
function thing(one) {
  const since = lasting(one);
  return h(
    "li",
    null,
    h("strong", null, ...text(one.sentence)),
    since ? h("span", { class: "quiet" }, ` ${since}`) : null,
    one.see ? h("a", { href: one.see }, `Open ${pageOf(one.see)}`) : null,
  );
}

/**
 * @param {Finding[]} findings
 * @returns {Finding[][]} those of one rule together, in the order of the first of each
 */
export function byRule(findings) {
  /** @type {Map<string, Finding[]>} */
  const rules = new Map();
  for (const one of findings) {
    const key = `${one.alert} ${one.is_alert}`;
    rules.set(key, [...(rules.get(key) ?? []), one]);
  }
  return [...rules.values()];
}

/** @param {Finding} finding */
function lasting(finding) {
  if (finding.since_ms === null) return "";
  const past_ms = Date.now() - finding.since_ms;
  // Minutes are enough, and change seldom.
  return past_ms < 60_000 ? "since a moment ago" : `for ${duration(Math.floor(past_ms / 60_000) * 60_000)}`;
}

/** @param {string} path */
function pageOf(path) {
  const [, page = "", name] = path.split("/");
  if (page === "nodes") return name === "this" ? "this node" : "nodes";
  return name ? `the ${page.replace(/s$/, "")}` : page;
}

/**
 * A remedy, whose commands and settings are between backticks.
 * @param {string} remedy
 */
export function withCode(remedy) {
  return remedy.split("`").map((part, index) => (index % 2 ? h("code", null, part) : part));
}
