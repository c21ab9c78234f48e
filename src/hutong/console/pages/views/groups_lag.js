/**
 * Lag of the groups whose rows are in sight: asked for in batches, and again while they stay there.
 *
 * Strategy: each row has a cell that is watched. Cells that come into sight are collected for a moment and asked for
 * together; what was told is kept, so that a row that is drawn anew shows it at once.
 */

import { api } from "../core/api.js";
import { h, replace } from "../core/dom.js";
import { number } from "../core/format.js";
import { repeat } from "../core/live.js";
import { badge } from "../core/parts.js";

/** @typedef {{lag: number | null, members: number | null, topics: number | null, problem: string | null}} GroupLag */

const BATCH_MAX = 50;
const COLLECT_MS = 60;
const AGAIN_MS = 5_000;

export class VisibleLags {
  /** @param {AbortSignal} signal */
  constructor(signal) {
    this.signal = signal;
    /** @type {Map<string, GroupLag>} */
    this.known = new Map();
    /** @type {Set<HTMLElement>} */
    this.seen = new Set();
    this.is_waiting = false;
    this.watcher = new IntersectionObserver((entries) => this.moved(entries), { rootMargin: "100px" });
    signal.addEventListener("abort", () => this.watcher.disconnect(), { once: true });
    repeat(() => this.ask([...this.seen]), AGAIN_MS, signal);
  }

  /**
   * A cell with the lag of a group, or with its members.
   * @param {string} group
   * @param {"lag" | "members"} figure
   */
  cell(group, figure) {
    const made = h("span", { data: { group, figure } });
    this.draw(made);
    this.watcher.observe(made);
    return made;
  }

  /** @param {string} group */
  lag(group) {
    return this.known.get(group)?.lag ?? null;
  }

  /** @param {IntersectionObserverEntry[]} entries */
  moved(entries) {
    for (const { target, isIntersecting } of entries) {
      const cell = /** @type {HTMLElement} */ (target);
      if (isIntersecting) this.seen.add(cell);
      else this.seen.delete(cell);
      // A row that was drawn anew has another cell.
      if (!cell.isConnected) this.watcher.unobserve(cell);
    }
    if (this.is_waiting) return;
    this.is_waiting = true;
    setTimeout(() => {
      this.is_waiting = false;
      void this.ask([...this.seen].filter((cell) => !this.known.has(cell.dataset.group ?? "")));
    }, COLLECT_MS);
  }

  /** @param {HTMLElement[]} cells */
  async ask(cells) {
    const groups = [...new Set(cells.filter((cell) => cell.isConnected).map((cell) => cell.dataset.group ?? ""))];
    for (let first = 0; first < groups.length && !this.signal.aborted; first += BATCH_MAX) {
      try {
        const told = await api.post("/api/groups/lags", { groups: groups.slice(first, first + BATCH_MAX) }, { signal: this.signal });
        for (const [group, lag] of Object.entries(told.lags)) this.known.set(group, lag);
      } catch {
        return; // the list itself says what is wrong; the next round asks again
      }
      for (const cell of this.seen) this.draw(cell);
    }
  }

  /** @param {HTMLElement} cell */
  draw(cell) {
    const told = this.known.get(cell.dataset.group ?? "");
    if (!told) replace(cell, "…");
    else if (told.problem) replace(cell, h("span", { title: told.problem }, cell.dataset.figure === "lag" ? badge("not shown", "warn") : number(null)));
    else replace(cell, number(cell.dataset.figure === "lag" ? told.lag : told.members));
  }
}
