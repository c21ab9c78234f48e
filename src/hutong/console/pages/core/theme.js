/**
 * Dark or light: as the system has it, or as the reader chose on this machine.
 *
 * Loaded as a plain script in the head, before anything is drawn, so that no page flashes in the other theme.
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
})();
