/**
 * Facts that keep coming: server-sent events, and questions asked again while the page is seen.
 *
 * Strategy: the browser's EventSource reconnects by itself after a broken connection; after a refusal it gives up, and
 * then this opens a new one, later each time up to a bound. All ends with the signal of the view.
 */

import { api, LOGIN_NEEDED } from "./api.js";
import { session } from "./session.js";

const WAIT_MS_MIN = 500;
const WAIT_MS_MAX = 15_000;

/** @param {import("./session.js").Session} told */
function tellIfEnded(told) {
  if (told.csrf !== session().csrf) window.dispatchEvent(new Event(LOGIN_NEEDED));
}

/** @typedef {"connecting" | "live" | "waiting"} LiveState */

/**
 * Listen to a stream until `signal` aborts. Each handler gets the parsed JSON of one kind of event and its id.
 * @param {string} path
 * @param {Record<string, (data: any, id: string) => void>} handlers
 * @param {AbortSignal} signal
 * @param {(state: LiveState) => void} [onState]
 */
export function events(path, handlers, signal, onState = () => {}) {
  let wait_ms = WAIT_MS_MIN;
  /** @type {EventSource | null} */
  let source = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;

  const open = () => {
    onState("connecting");
    const opened = new EventSource(path, { withCredentials: false });
    source = opened;
    opened.addEventListener("open", () => {
      wait_ms = WAIT_MS_MIN;
      onState("live");
    });
    opened.addEventListener("error", () => {
      onState("waiting");
      if (signal.aborted || opened.readyState !== EventSource.CLOSED) return; // the view may want no other one
      // A stream does not say with which status it was refused: the session may have ended, which a question tells.
      api.get("/api/session", { signal }).then(tellIfEnded, () => {});
      timer = setTimeout(open, wait_ms);
      wait_ms = Math.min(wait_ms * 2, WAIT_MS_MAX);
    });
    for (const [name, handler] of Object.entries(handlers)) {
      opened.addEventListener(name, (event) => {
        if (event instanceof MessageEvent) handler(JSON.parse(event.data), event.lastEventId);
      });
    }
  };

  const stop = () => {
    clearTimeout(timer);
    source?.close();
  };
  if (signal.aborted) return;
  signal.addEventListener("abort", stop, { once: true });
  open();
}

/**
 * The time to the next question: what costs the brokers much is asked for less often, a tenth of the time at most.
 * @param {number} interval_ms
 * @param {number} took_ms
 */
export function waitAfter(interval_ms, took_ms) {
  return Math.max(interval_ms, 10 * took_ms);
}

/**
 * Call `question` again and again until `signal` aborts, `interval_ms` after each answer. A hidden tab asks nothing.
 * `first_ms`: the time before the first call, where a figure such as a rate needs a second look soon.
 * @param {() => Promise<unknown>} question which shows its own errors
 * @param {number} interval_ms
 * @param {AbortSignal} signal
 * @param {number} [first_ms]
 */
export function repeat(question, interval_ms, signal, first_ms = interval_ms) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const next = (/** @type {number} */ wait_ms) => {
    if (signal.aborted) return;
    clearTimeout(timer);
    timer = setTimeout(async () => {
      const began_ms = performance.now();
      if (!document.hidden) await question();
      next(waitAfter(interval_ms, performance.now() - began_ms));
    }, wait_ms);
  };
  signal.addEventListener("abort", () => clearTimeout(timer), { once: true });
  next(first_ms);
}
