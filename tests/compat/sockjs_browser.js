// node sockjs_browser.js CHROMIUM PAGE URL TRANSPORT: the scenario in a page of a headless browser; prints the result.
const { chromium } = require('playwright-core');

const [, , executablePath, page, url, transport] = process.argv;

async function main() {
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
  try {
    const tab = await browser.newPage();
    const told = [];
    tab.on('pageerror', (error) => told.push(String(error)));
    await tab.exposeFunction('tell', (word) => console.log(word));
    await tab.goto(page);
    const result = await tab.evaluate(
      ([where, how]) => sockjsScenario(EventBus, where, how, window.tell), [url, transport],
    );
    console.log(JSON.stringify({ ...result, told }));
  } finally {
    await browser.close();
  }
}

main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
