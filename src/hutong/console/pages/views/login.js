/** The login: the same users and passwords as for Kafka clients. It draws over the whole window. */

import { api } from "../core/api.js";
import { h } from "../core/dom.js";
import { form } from "../core/form.js";

/**
 * @param {(told: any) => void} done gets the new session
 * @returns {HTMLElement}
 */
export function loginPage(done) {
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
  return h("main", { class: "login", id: "main" }, h("div", { class: "login-card" }, h("p", { class: "brand" }, "Hutong"), h("h1", null, "Sign in"), h("p", { class: "about" }, about), fields));
}
