/**
 * Questions to the server: JSON there and back, the CSRF token with each change, and errors in plain words.
 *
 * Strategy: one function sends. Whatever goes wrong becomes an ApiError with a sentence to show; an aborted question
 * raises AbortError, which views leave alone. A 401 asks the shell for a login.
 */

import { withQuery } from "./paths.js";
import { session } from "./session.js";

/** @typedef {{signal?: AbortSignal, query?: Record<string, string | number | boolean | null | undefined>}} Options */

export const LOGIN_NEEDED = "hutong:login-needed";

/** A refusal of the server, or no answer at all (`status` 0). */
export class ApiError extends Error {
  /**
   * @param {number} status
   * @param {number} code
   * @param {string} message
   * @param {string | null} hint
   */
  constructor(status, code, message, hint = null) {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.code = code;
    this.hint = hint;
  }
}

export const api = {
  /**
   * @param {string} path
   * @param {Options} [options]
   */
  get: (path, options) => ask("GET", path, undefined, options),
  /**
   * @param {string} path
   * @param {unknown} [body]
   * @param {Options} [options]
   */
  post: (path, body, options) => ask("POST", path, body, options),
  /**
   * @param {string} path
   * @param {unknown} [body]
   * @param {Options} [options]
   */
  put: (path, body, options) => ask("PUT", path, body, options),
  /**
   * @param {string} path
   * @param {unknown} [body]
   * @param {Options} [options]
   */
  patch: (path, body, options) => ask("PATCH", path, body, options),
  /**
   * @param {string} path
   * @param {Options} [options]
   */
  delete: (path, options) => ask("DELETE", path, undefined, options),
};

/**
 * True for the error of a question that its page no longer waits for.
 * @param {unknown} error
 */
export function isAborted(error) {
  return error instanceof DOMException && error.name === "AbortError";
}

/**
 * @param {string} method
 * @param {string} path
 * @param {unknown} body
 * @param {Options} [options]
 * @returns {Promise<any>} the JSON of the answer, or null
 */
async function ask(method, path, body, options = {}) {
  /** @type {Record<string, string>} */
  const headers = { Accept: "application/json" };
  const token = session().csrf;
  if (method !== "GET" && token !== null) headers["X-Hutong-Csrf"] = token;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const sent = { method, headers, body: body === undefined ? null : JSON.stringify(body), signal: options.signal ?? null };
  let answer;
  try {
    answer = await fetch(withQuery(path, options.query ?? {}), { ...sent, credentials: "same-origin" });
  } catch (error) {
    if (isAborted(error)) throw error;
    throw new ApiError(0, 0, "The console does not answer.", "Look whether its process is running, then try again.");
  }
  const text = await answer.text();
  if (!answer.ok) throw refusal(answer.status, text, path);
  return text === "" ? null : JSON.parse(text);
}

/**
 * @param {number} status
 * @param {string} text
 * @param {string} path
 */
function refusal(status, text, path) {
  const told = errorOf(text);
  // The login page's own refusal stays on that page.
  if (status === 401 && path !== "/api/session") window.dispatchEvent(new Event(LOGIN_NEEDED));
  const message = told?.message ?? `The console answered with status ${status}.`;
  return new ApiError(status, told?.code ?? status, message, told?.hint ?? null);
}

/**
 * @param {string} text
 * @returns {{code?: number, message?: string, hint?: string | null} | undefined}
 */
function errorOf(text) {
  try {
    return JSON.parse(text)?.error;
  } catch {
    return undefined; // a proxy's page, not the console's JSON
  }
}
