// node firefox.mjs JSON: the console's pages and main tasks in stock Firefox, by WebDriver BiDi (npm: puppeteer-core).
// The JSON has `modules`, `firefox`, `console` (its URL), `shop` (one with a bus), and `paths`. Prints a line of JSON for
// each part: its name, and what was wrong with it.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const given = JSON.parse(process.argv[2]);
const loaded = await import(pathToFileURL(createRequire(`${given.modules}/`).resolve("puppeteer-core")).href);
const puppeteer = loaded.default.launch ? loaded.default : loaded.default.default;
const WAIT_MS = 20_000;

/** @param {any} page */
const shown = (page) => page.waitForFunction(() => document.querySelector("h1") && !document.querySelector(".loading"));
const says = (page, text) => page.waitForFunction((words) => document.body.innerText.includes(words), {}, text);
const named = (page, name, role) => page.locator(`::-p-aria([name="${name}"][role="${role}"])`);
const click = (page, name, role = "button") => named(page, name, role).click();
const send = (page) => page.locator("dialog .form-actions .button-main").click();

async function openAt(page, url) {
  await page.goto(url, { waitUntil: "load" });
  await shown(page);
}

function pagesIn(theme) {
  return async (page) => {
    await page.goto(given.console);
    await page.evaluate((chosen) => localStorage.setItem("hutong.theme", chosen), theme);
    const wrong = [];
    for (const path of given.paths) {
      await openAt(page, given.console + path);
      const wider_px = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      const is_dark = await page.evaluate(() => getComputedStyle(document.body).colorScheme.includes("dark"));
      if (wider_px > 0) wrong.push(`${path} scrolls sideways by ${wider_px} px`);
      if (is_dark !== (theme === "dark")) wrong.push(`${path} is not ${theme}`);
    }
    return wrong;
  };
}

const PARTS = {
  "pages in light": pagesIn("light"),
  "pages in dark": pagesIn("dark"),

  async topics(page) {
    await openAt(page, `${given.console}/topics`);
    await page.keyboard.press("n");
    await page.keyboard.type("made.in.firefox");
    await page.keyboard.press("Tab");
    await page.keyboard.type("3");
    await page.keyboard.press("Enter");
    await says(page, "Topic made.in.firefox is there.");
    await click(page, "Delete topic");
    await page.locator("dialog input").fill("made.in.firefox");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => location.pathname === "/topics");
  },

  async messages(page) {
    await openAt(page, `${given.console}/topics/users/messages`);
    await page.waitForSelector("tr.message");
    await page.keyboard.press("n");
    await page.waitForSelector("dialog textarea");
    await page.locator("dialog textarea[name=value], dialog textarea").fill('{"from": "firefox"}');
    await send(page);
    await page.waitForFunction(() => !document.querySelector("dialog[open]"));
    await says(page, '"from": "firefox"');
    await page.locator("tr.message button, tr.message a").click();
    await says(page, "users");
  },

  async groups(page) {
    await openAt(page, `${given.console}/groups`);
    await page.keyboard.press("/");
    await page.keyboard.type("in.fire");
    await click(page, "in.firefox", "link");
    await says(page, "Set offset");
    await page.keyboard.press("r");
    await page.locator("dialog select").fill("end");
    await click(page, "Preview reset");
    await click(page, "Reset 2 offsets");
    await says(page, "Undo");
    await click(page, "Undo");
    await says(page, "The reset is undone");
  },

  async "dead letters"(page) {
    await openAt(page, `${given.console}/dead-letters`);
    await click(page, "in.firefox.dead", "link");
    await click(page, "Redrive all");
    await says(page, "The dry run found 3 letters.");
    await click(page, "Redrive 3 letters");
    await says(page, "3 letters sent back");
  },

  async bus(page) {
    await openAt(page, `${given.shop}/bus`);
    await says(page, "shop.echo");
    await page.keyboard.press("n");
    await page.keyboard.type("shop.echo");
    await page.locator("dialog textarea").fill('{"n": 1}');
    await send(page);
    await says(page, '{"got":{"n":1}}');
  },
};

async function outcome(browser, part) {
  const context = await browser.createBrowserContext();
  const page = await context.newPage();
  page.setDefaultTimeout(WAIT_MS);
  await page.setViewport({ width: 1280, height: 800 });
  const wrong = [];
  page.on("console", (message) => message.type() === "error" && wrong.push(message.text()));
  page.on("pageerror", (error) => wrong.push(String(error)));
  try {
    wrong.push(...((await part(page)) ?? []));
  } catch (error) {
    const text = await page.evaluate(() => document.body.innerText).catch(() => "");
    wrong.push(`${error} at ${page.url()}: ${text.slice(-800)}`);
  }
  await context.close();
  return wrong;
}

const browser = await puppeteer.launch({ browser: "firefox", executablePath: given.firefox, headless: true });
for (const [name, part] of Object.entries(PARTS)) console.log(JSON.stringify([name, await outcome(browser, part)]));
await browser.close();
