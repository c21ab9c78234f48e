/**
 * What is around each page: navigation, theme, keys, the user.
 *
 * Strategy: drawn once from the list of views. Wide windows have the navigation on the left, narrow ones a bar with a
 * menu. The theme is the system's until the reader chooses one.
 */

import { openDialog } from "./dialog.js";
import { h, replace } from "./dom.js";
import { bind, bound } from "./keys.js";
import { icon } from "./parts.js";
import { session } from "./session.js";
import { toastRegion } from "./toast.js";

/**
 * A page of the navigation; without `nav` it is reached by links alone.
 * @typedef {import("./router.js").Route & {nav?: {title: string, section: string, icon: keyof typeof import("./icons.js").ICONS, key: string}}} Page
 */

const THEMES = /** @type {const} */ (["system", "light", "dark"]);

/**
 * @param {readonly Page[]} pages
 * @param {(href: string) => void} go
 * @param {() => void} signOut
 */
export function makeShell(pages, go, signOut) {
  const outlet = h("main", { id: "main", class: "main" });
  const listed = pages.filter((page) => page.nav);
  const list = h("div", { id: "navigation", class: "nav-lists" }, ...sections(listed), foot(signOut));
  const menu = h("button", { type: "button", class: "icon-button menu", "aria-label": "Menu", "aria-expanded": "false", "aria-controls": "navigation" }, icon("menu"));
  const show = (/** @type {boolean} */ is_open) => {
    menu.setAttribute("aria-expanded", String(is_open));
    list.classList.toggle("nav-open", is_open);
  };
  menu.addEventListener("click", () => show(menu.getAttribute("aria-expanded") !== "true"));
  list.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || menu.getAttribute("aria-expanded") !== "true") return;
    show(false);
    menu.focus();
  });
  const nav = h("nav", { class: "nav", "aria-label": "Pages" }, h("a", { class: "brand", href: "/" }, "Hutong"), menu, list);
  const skip = h("a", { class: "skip", href: "#main", on: { click: skipToMain } }, "Skip to the page");
  bindPages(listed, go);
  const mark = (/** @type {string} */ path) => {
    show(false);
    for (const anchor of list.querySelectorAll("a")) {
      const own = anchor.getAttribute("href") ?? "";
      const is_here = own === "/" ? path === "/" : path === own || path.startsWith(`${own}/`);
      if (is_here) anchor.setAttribute("aria-current", "page");
      else anchor.removeAttribute("aria-current");
    }
  };
  return { element: h("div", { class: "shell" }, skip, nav, outlet, toastRegion()), outlet, mark };
}

/** @param {readonly Page[]} pages */
function sections(pages) {
  /** @type {Map<string, HTMLElement[]>} */
  const links = new Map();
  for (const { path, nav } of pages) {
    if (!nav) continue;
    const item = h("li", null, h("a", { href: path }, icon(nav.icon), nav.title));
    links.set(nav.section, [...(links.get(nav.section) ?? []), item]);
  }
  return [...links].map(([title, items]) =>
    h("div", { class: "nav-section" }, title ? h("p", { class: "nav-title", "aria-hidden": "true" }, title) : null, h("ul", { "aria-label": title || null }, ...items)),
  );
}

/** @param {() => void} signOut */
function foot(signOut) {
  const { user, cluster_id, read_only } = session();
  const keys = h("button", { type: "button", class: "nav-button", on: { click: showKeys } }, icon("keyboard"), "Keys");
  const leave = user === null ? null : h("button", { type: "button", class: "nav-button", on: { click: signOut } }, icon("leave"), "Sign out");
  return h(
    "div",
    { class: "nav-foot" },
    read_only ? h("p", null, h("span", { class: "badge badge-warn" }, "Read only")) : null,
    cluster_id ? h("p", { class: "nav-fact", title: "The id of the cluster" }, h("span", { class: "mono" }, cluster_id)) : null,
    user === null ? null : h("p", { class: "nav-fact" }, "Signed in as ", h("strong", null, user)),
    h("div", { class: "nav-buttons" }, themeButton(), keys, leave),
  );
}

function themeButton() {
  const chosen = () => /** @type {typeof THEMES[number]} */ (document.documentElement.dataset.theme ?? "system");
  const pictures = /** @type {const} */ ({ system: "system", light: "sun", dark: "moon" });
  const made = h("button", { type: "button", class: "nav-button" });
  const label = () => replace(made, icon(pictures[chosen()]), "Theme: ", chosen());
  made.addEventListener("click", () => {
    const next = THEMES[(THEMES.indexOf(chosen()) + 1) % THEMES.length] ?? "system";
    if (next === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    keep(next);
    label();
  });
  label();
  return made;
}

/** @param {string} theme */
function keep(theme) {
  try {
    localStorage.setItem("hutong.theme", theme);
  } catch {
    // Storage may be forbidden: then the choice lasts as long as the page.
  }
}

/**
 * @param {readonly Page[]} pages
 * @param {(href: string) => void} go
 */
function bindPages(pages, go) {
  for (const { path, nav } of pages) {
    if (nav) bind(`g ${nav.key}`, `Go to ${nav.title}`, () => go(path), { group: "Pages" });
  }
  bind("?", "Show these keys", showKeys, { group: "Everywhere" });
}

function showKeys() {
  /** @type {Map<string, HTMLElement[]>} */
  const groups = new Map();
  const others = [
    { keys: "↑ ↓", does: "Go from row to row of a table", group: "Everywhere" },
    { keys: "Esc", does: "Close a dialog or the menu", group: "Everywhere" },
  ];
  for (const { keys, does, group } of [...bound(), ...others]) {
    const pressed = keys.split(" ").flatMap((key) => [h("kbd", null, key), " "]);
    groups.set(group, [...(groups.get(group) ?? []), h("div", null, h("dt", null, ...pressed), h("dd", null, does))]);
  }
  const lists = [...groups].map(([title, rows]) => h("section", null, h("h3", null, title), h("dl", { class: "keys" }, ...rows)));
  void openDialog("Keys", () => h("div", { class: "key-groups" }, ...lists), { is_wide: true });
}

/** @param {Event} event */
function skipToMain(event) {
  event.preventDefault();
  const heading = document.querySelector("main h1");
  if (heading instanceof HTMLElement) heading.focus();
}
