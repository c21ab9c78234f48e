/** The page of an address that leads nowhere. */

import { h, replace } from "../core/dom.js";
import { emptyState, pageHead } from "../core/parts.js";

/** @type {import("../core/router.js").View} */
export const view = {
  title: "Page not found",
  open(container) {
    const back = h("a", { class: "button", href: "/" }, "Go to the first page");
    const next = "The address may be mistyped, or what it named is gone. The navigation leads to all pages.";
    replace(container, pageHead({ title: "Page not found" }), emptyState("There is no page at this address.", next, back));
  },
};
