/**
 * The login that this tab has, as the server last told it.
 *
 * Strategy: one value, replaced as a whole. A read-only console or a missing right shows in what the server answers;
 * this only keeps buttons from view that would be refused anyway.
 */

/**
 * @typedef {{user: string | null, needs_login: boolean, csrf: string | null, read_only: boolean,
 *   cluster_id: string | null, has_node: boolean, takes_passwords: boolean, provider: string | null}} Session
 */

/** @type {Session} */
const NONE = { user: null, needs_login: true, csrf: null, read_only: true, cluster_id: null, has_node: false, takes_passwords: true, provider: null };

let now = NONE;

/** The session as it is now. */
export function session() {
  return now;
}

/** @param {Session | null} told null: there is none any more */
export function setSession(told) {
  now = told ?? NONE;
}

/** True where buttons that change something are of use. */
export function canChange() {
  return !now.read_only;
}
