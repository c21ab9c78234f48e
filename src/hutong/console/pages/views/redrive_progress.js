/** A redrive while it runs: how far it is, pause, resume, cancel; and the outcome. */

import { api, ApiError } from "../core/api.js";
import { h, replace } from "../core/dom.js";
import { counted, number, rate } from "../core/format.js";
import { events } from "../core/live.js";
import { badge, button, note, text } from "../core/parts.js";
import { link } from "../core/paths.js";
import { canChange } from "../core/session.js";
import { toast } from "../core/toast.js";

/** @typedef {import("./redrive.js").Redrive} Redrive */

const TONES = /** @type {const} */ ({ done: "good", failed: "bad", cancelled: "warn", waiting: "warn", paused: "warn" });

export class RedrivePanel {
  /**
   * @param {string} topic
   * @param {AbortSignal} signal
   * @param {() => Promise<void>} onEnd
   */
  constructor(topic, signal, onEnd) {
    this.topic = topic;
    this.signal = signal;
    this.onEnd = onEnd;
    this.element = h("div");
    this.following = new AbortController();
    signal.addEventListener("abort", () => this.following.abort(), { once: true });
  }

  /** Follow a redrive that runs already, begun in another tab or before a reload. */
  async find() {
    const told = await api.get(link`/api/dead-letters/${this.topic}/redrives`, { signal: this.signal });
    const running = /** @type {Redrive[]} */ (told.redrives).find((one) => !one.is_over && !one.wish.is_dry);
    if (running) this.follow(running);
  }

  /** @param {Redrive} redrive */
  follow(redrive) {
    this.following.abort();
    const following = new AbortController();
    this.following = following;
    this.draw(redrive);
    const told = (/** @type {Redrive} */ now) => {
      this.draw(now);
      if (!now.is_over) return;
      following.abort();
      void this.onEnd();
    };
    events(`/api/redrives/${redrive.number}/progress`, { redrive: told }, following.signal);
  }

  /** @param {Redrive} now */
  draw(now) {
    const tone = TONES[/** @type {keyof typeof TONES} */ (now.state)] ?? "accent";
    const all = now.sent + now.left + now.remaining;
    const bar = h("progress", { class: "redrive-bar", max: Math.max(all, 1), value: now.sent + now.left, "aria-label": "Letters that are done" });
    const seconds = Math.max(0.001, (Date.now() - now.begun_ms) / 1_000);
    const pace = now.is_over ? null : h("span", null, `${rate(now.sent / seconds)} on average`);
    const counts = [
      h("strong", null, `${counted(now.sent, "letter")} sent back`),
      now.left ? h("span", null, `${number(now.left)} left where they are`) : null,
      now.done_before ? h("span", null, `${number(now.done_before)} were sent back before`) : null,
      now.is_over ? null : h("span", null, `about ${number(now.remaining)} to go`),
      pace,
    ];
    const causes = now.by_cause.map((one) => h("li", null, `${number(one.count)}: `, ...text(one.name)));
    const problem = now.problem && now.state !== "done" ? note(now.state === "failed" ? "warn" : "plain", ...text(now.problem)) : null;
    const had = document.activeElement instanceof HTMLElement && this.element.contains(document.activeElement) ? document.activeElement.textContent : null;
    replace(
      this.element,
      h(
        "section",
        { class: "panel", "aria-label": "Redrive" },
        h("h2", null, "Redrive ", badge(now.state, tone)),
        bar,
        h("p", { class: "redrive-counts", role: "status" }, ...counts),
        causes.length ? h("ul", { class: "about" }, ...causes) : null,
        problem,
        this.steering(now),
      ),
    );
    // The buttons are drawn anew with each event: the focus stays on the one that had it.
    if (had) [...this.element.querySelectorAll("button")].find((one) => one.textContent === had)?.focus();
  }

  /** @param {Redrive} now */
  steering(now) {
    if (!canChange() || now.is_over) return null;
    const steer = (/** @type {string} */ verb) => async () => {
      try {
        this.draw(await api.post(`/api/redrives/${now.number}/${verb}`));
      } catch (problem) {
        toast(problem instanceof ApiError ? problem.message : String(problem), { kind: "error" });
      }
    };
    const other = now.state === "paused" ? button("Resume", () => void steer("resume")()) : button("Pause", () => void steer("pause")());
    return h("div", { class: "form-actions" }, button("Cancel redrive", () => void steer("cancel")()), other);
  }
}
