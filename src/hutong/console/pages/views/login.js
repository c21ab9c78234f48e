/**
 * The login: the same users and passwords as for Kafka clients, or a provider's page. It draws over the whole window.
 */

import { api } from "../core/api.js";
import { h } from "../core/dom.js";
import { form } from "../core/form.js";
import { note } from "../core/parts.js";
import { withQuery } from "../core/paths.js";
import { session } from "../core/session.js";

const PROVIDER = "/api/session/provider";
/** @type {Readonly<Record<string, string>>} the address has one of these words; nothing else of it is shown */
const FAULTS = {
  expired: "The login took too long, or began in another window. Sign in again.",
  denied: "The provider did not sign you in.",
  refused: "The provider's answer was not accepted. The console's log says why.",
  unreachable: "The provider does not answer as it should. The console's log says why.",
  brokers: "The brokers do not accept the provider's token. The console's log says why.",
  busy: "Too many users sign in at the moment. Try again soon.",
};

/**
 * @param {(told: any) => void} done gets the new session
 * @returns {HTMLElement}
 */
export function loginPage(done) {
  const { provider, takes_passwords } = session();
  const card = h("div", { class: "login-card" }, h("p", { class: "brand" }, "Hutong"), h("h1", { tabindex: "-1" }, "Sign in"), fault());
  if (provider !== null) card.append(providerLink(provider));
  if (provider !== null && takes_passwords) card.append(h("p", { class: "login-or" }, "or with a user of the brokers"));
  if (takes_passwords) card.append(...passwords(done, provider === null));
  return h("main", { class: "login", id: "main" }, card);
}

function fault() {
  const word = new URLSearchParams(location.search).get("login") ?? "";
  const sentence = Object.hasOwn(FAULTS, word) ? FAULTS[word] : undefined;
  return sentence === undefined ? null : h("div", { role: "alert" }, note("bad", sentence));
}

/** @param {string} provider the name of its host */
function providerLink(provider) {
  const query = new URLSearchParams(location.search);
  query.delete("login");
  const path = location.pathname + (query.size ? `?${query}` : "");
  return h("a", { class: "button button-main login-provider", href: withQuery(PROVIDER, { path }) }, `Sign in with ${provider}`);
}

/**
 * @param {(told: any) => void} done
 * @param {boolean} is_only
 */
function passwords(done, is_only) {
  const fields = form({
    fields: [
      { name: "user", label: "User", required: true, autocomplete: "username" },
      { name: "password", label: "Password", type: "password", required: true, autocomplete: "current-password" },
    ],
    action: "Sign in",
    submit: async (values) => {
      const told = await api.post("/api/session", { user: values.user, password: values.password });
      done(told?.needs_login === undefined ? await api.get("/api/session") : told);
    },
  });
  const about = "Use the user and password that your Kafka clients use. You see and change what that user may.";
  return is_only ? [h("p", { class: "about" }, about), fields] : [fields];
}
