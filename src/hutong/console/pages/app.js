/**
 * The console: its list of pages, and the start.
 *
 * A page is one line here and one module in views/, loaded when it is first opened (README.md).
 */

import { api, LOGIN_NEEDED } from "./core/api.js";
import { h, replace } from "./core/dom.js";
import { listenForKeys } from "./core/keys.js";
import { errorState } from "./core/parts.js";
import { match } from "./core/paths.js";
import { Router } from "./core/router.js";
import { session, setSession } from "./core/session.js";
import { makeShell } from "./core/shell.js";
import { loginPage } from "./views/login.js";
import { view as notFound } from "./views/not_found.js";

const RENEW_MS_MIN = 5_000; // what is refused again soon after is no matter of the session

/** @type {import("./core/shell.js").Page[]} */
const pages = [
  { path: "/", load: () => import("./views/overview.js"), nav: { title: "Overview", section: "", icon: "overview", key: "h" } },
  { path: "/topics", load: () => import("./views/topics.js"), nav: { title: "Topics", section: "Log", icon: "topics", key: "t" } },
  { path: "/messages", load: () => import("./views/messages_topics.js"), nav: { title: "Messages", section: "Log", icon: "messages", key: "m" } },
  { path: "/topics/:name", load: () => import("./views/topic.js") },
  { path: "/topics/:name/messages", load: () => import("./views/messages.js") },
  { path: "/topics/:name/messages/:partition/:offset", load: () => import("./views/message.js") },
  { path: "/topics/:name/settings", load: () => import("./views/topic_settings.js") },
  { path: "/groups", load: () => import("./views/groups.js"), nav: { title: "Groups", section: "Log", icon: "groups", key: "o" } },
  { path: "/groups/:name", load: () => import("./views/group.js") },
  { path: "/dead-letters", load: () => import("./views/dead_letters.js"), nav: { title: "Dead letters", section: "Log", icon: "dead", key: "d" } },
  { path: "/dead-letters/:name", load: () => import("./views/dead_letter.js") },
  { path: "/schemas", load: () => import("./views/schemas.js"), nav: { title: "Schemas", section: "Log", icon: "schemas", key: "e" } },
  { path: "/schemas/:subject", load: () => import("./views/schema.js") },
  { path: "/trail", load: () => import("./views/trail.js"), nav: { title: "A record's way", section: "Log", icon: "trail", key: "w" } },
  { path: "/bus", load: () => import("./views/bus.js"), nav: { title: "Bus", section: "Programs", icon: "bus", key: "b" } },
  { path: "/services", load: () => import("./views/services.js"), nav: { title: "Services", section: "Programs", icon: "services", key: "s" } },
  { path: "/services/:address", load: () => import("./views/service.js") },
  { path: "/pipelines", load: () => import("./views/pipelines.js"), nav: { title: "Pipelines", section: "Programs", icon: "pipelines", key: "p" } },
  { path: "/nodes", load: () => import("./views/nodes.js"), nav: { title: "Nodes", section: "Cluster", icon: "nodes", key: "n" } },
  { path: "/nodes/this", load: () => import("./views/nodes_this.js") },
  { path: "/security", load: () => import("./views/security.js"), nav: { title: "Security", section: "Cluster", icon: "security", key: "u" } },
  { path: "/security/refused", load: () => import("./views/security_refused.js") },
  { path: "/security/acls", load: () => import("./views/security_acls.js") },
  { path: "/settings", load: () => import("./views/settings.js"), nav: { title: "Settings", section: "Cluster", icon: "settings", key: "c" } },
  { path: "/settings/brokers/:broker", load: () => import("./views/settings_broker.js") },
];

const root = /** @type {HTMLElement} */ (document.getElementById("app"));
/** @type {Router | null} */
let router = null;
let renewed_ms = -Infinity;

async function start() {
  // The first question is early.js's; after a failure it is asked again, which says what is wrong.
  const early = /** @type {any} */ (globalThis);
  const asked = early.hutongSession;
  early.hutongSession = null;
  // The page's module comes while the server looks for the session. A failure is the router's to show.
  pages.find((page) => match(page.path, location.pathname))?.load().catch(() => {});
  try {
    setSession((await asked) ?? (await api.get("/api/session")));
  } catch (error) {
    replace(root, h("main", { class: "main" }, errorState(error, start)));
    return;
  }
  if (session().needs_login && session().user === null) showLogin();
  else showPages();
}

function showLogin() {
  router?.close();
  document.title = "Sign in · Hutong";
  replace(root, loginPage(signedIn));
  /** @type {HTMLElement | null} */ (root.querySelector(".login-provider, input"))?.focus();
}

/** @param {import("./core/session.js").Session} told */
function signedIn(told) {
  // The login of another user may see other pages: all is drawn anew, at the address where the old one ended.
  if (router !== null) {
    location.reload();
    return;
  }
  setSession(told);
  showPages();
}

function showPages() {
  const shell = makeShell(pages, (href) => void router?.go(href), signOut);
  router = new Router(shell.outlet, pages, notFound, shell.mark);
  router.listen();
  replace(root, shell.element);
  void router.open();
}

async function signOut() {
  const told = await api.delete("/api/session");
  // The provider ends its own session, and leads back here.
  if (told !== null) return location.assign(told.logout_url);
  setSession(await api.get("/api/session"));
  showLogin();
}

/** A session ends unused: an open console gives a new one at once, others ask for the password again. */
async function renew() {
  if (router === null || root.querySelector(".login") || performance.now() - renewed_ms < RENEW_MS_MIN) return;
  renewed_ms = performance.now();
  setSession(await api.get("/api/session"));
  if (session().needs_login && session().user === null) showLogin();
  else void router.open();
}

window.addEventListener(LOGIN_NEEDED, () => void renew().catch(() => {}));
listenForKeys();
void start();
