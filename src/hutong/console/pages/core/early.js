/**
 * The things that cannot wait for the modules: the theme, and the question for the session.
 *
 * Loaded as a plain script in the head, before anything is drawn: no page flashes in the other theme, and the answer is
 * there by the time that the modules are.
 */

(() => {
  const chosen = (() => {
    try {
      return localStorage.getItem("hutong.theme");
    } catch {
      return null; // storage may be forbidden
    }
  })();
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
  /** @type {any} */ (globalThis).hutongSession = fetch("/api/session").then((answer) => (answer.ok ? answer.json() : null), () => null);
})();
