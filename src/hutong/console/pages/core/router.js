/**
 * One page after the other without loading the document anew.
 *
 * Strategy: links are real links; a click on one of this site changes the address and opens the view that its path
 * belongs to. Each view gets a signal that aborts when another opens: with it end its questions, streams and timers.
 * The focus goes to the new heading, so that a screen reader says where it is.
 */

import { isAborted } from "./api.js";
import { h, replace } from "./dom.js";
import { errorState, pageHead } from "./parts.js";
import { match, withQuery } from "./paths.js";

/** @typedef {Record<string, string>} Params */
/**
 * @typedef {{title: string | ((params: Params) => string),
 *   open: (container: HTMLElement, params: Params, query: URLSearchParams, signal: AbortSignal) => unknown}} View
 */
/** @typedef {{path: string, load: () => Promise<{view: View}>}} Route */

export class Router {
  /**
   * @param {HTMLElement} outlet
   * @param {readonly Route[]} routes the first that matches is taken
   * @param {View} fallback for a path of no route
   * @param {(path: string) => void} onOpen
   */
  constructor(outlet, routes, fallback, onOpen) {
    this.outlet = outlet;
    this.routes = routes;
    this.fallback = fallback;
    this.onOpen = onOpen;
    this.controller = new AbortController();
  }

  /** Follow links and the browser's buttons from now on. */
  listen() {
    document.addEventListener("click", (event) => this.clicked(event));
    window.addEventListener("popstate", () => this.open());
  }

  /**
   * Go to a path of this site.
   * @param {string} href
   * @param {{replace?: boolean}} [options]
   */
  go(href, options = {}) {
    if (options.replace) history.replaceState(null, "", href);
    else history.pushState(null, "", href);
    window.scrollTo(0, 0);
    return this.open();
  }

  /** Open the view of the address as it is. */
  async open() {
    this.controller.abort();
    const controller = new AbortController();
    this.controller = controller;
    const path = location.pathname;
    const found = this.find(path);
    this.onOpen(path);
    // A view of its own element: what a late answer still draws is not in the page any more.
    const container = h("div", { class: "view" });
    try {
      const view = found ? (await found.route.load()).view : this.fallback;
      if (controller.signal.aborted) return;
      const params = found?.params ?? {};
      document.title = `${typeof view.title === "string" ? view.title : view.title(params)} · Hutong`;
      replace(this.outlet, container);
      const opened = view.open(container, params, new URLSearchParams(location.search), controller.signal);
      focusHeading(container);
      await opened;
    } catch (error) {
      if (controller.signal.aborted || isAborted(error)) return;
      replace(this.outlet, container);
      showError(container, errorState(error, () => this.open()));
    }
  }

  /** End the view that is open. */
  close() {
    this.controller.abort();
    replace(this.outlet);
  }

  /** @param {string} path */
  find(path) {
    for (const route of this.routes) {
      const params = match(route.path, path);
      if (params) return { route, params };
    }
    return null;
  }

  /** @param {MouseEvent} event */
  clicked(event) {
    if (event.defaultPrevented || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    const anchor = event.target instanceof Element ? event.target.closest("a") : null;
    if (!anchor?.href || anchor.target || anchor.hasAttribute("download")) return;
    const url = new URL(anchor.href);
    if (url.origin !== location.origin || url.pathname.startsWith("/api/") || anchor.getAttribute("href")?.startsWith("#")) return;
    event.preventDefault();
    this.go(url.pathname + url.search + url.hash);
  }
}

/**
 * Put values into the query of the address without opening the view again, so that a link and a reload show the same.
 * @param {Record<string, string | number | boolean | null | undefined>} values null or empty: taken out
 */
export function setQuery(values) {
  const now = Object.fromEntries(new URLSearchParams(location.search));
  history.replaceState(history.state, "", withQuery(location.pathname, { ...now, ...values }));
}

/**
 * Go to a path of this site, as a click on a link would.
 * @param {string} href
 */
export function goTo(href) {
  const anchor = h("a", { href, hidden: true });
  document.body.append(anchor);
  anchor.click();
  anchor.remove();
}

/**
 * Put an error where the page still waits; its head stays.
 * @param {HTMLElement} container
 * @param {HTMLElement} error
 */
function showError(container, error) {
  const waiting = container.querySelector(".loading");
  if (waiting) waiting.replaceWith(error);
  else container.append(error);
  if (!container.querySelector("h1")) container.prepend(pageHead({ title: "This page could not be shown" }));
}

/** @param {HTMLElement} container */
function focusHeading(container) {
  const heading = container.querySelector("h1");
  heading?.focus({ preventScroll: true });
}
