// node tutorial_page.js CHROMIUM PAGE SCRIPTS PNG: opens the page of the tutorial from its file, and uses it as a reader would.
// SCRIPTS is the node_modules folder from which the two scripts of the network come. Prints what the page shows.
const path = require('path');
const { chromium } = require('playwright-core');

const [, , executablePath, page, scripts, png] = process.argv;

async function main() {
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
  try {
    const tab = await browser.newPage({ viewport: { width: 640, height: 360 } });
    const told = [];
    tab.on('pageerror', (error) => told.push(String(error)));
    tab.on('console', (message) => { if (message.type() === 'error') told.push(message.text()); });
    await tab.route('https://cdn.jsdelivr.net/npm/**', (route) => {
      const [name, ...rest] = new URL(route.request().url()).pathname.replace('/npm/', '').split('/');
      return route.fulfill({ path: path.join(scripts, name.split('@')[0], ...rest) });
    });
    const opened = tab.waitForEvent('websocket', { predicate: (socket) => socket.url().endsWith('/websocket') });
    await tab.goto(`file://${page}`);
    await opened;
    await tab.waitForFunction(() => bus.state === EventBus.OPEN);
    await tab.getByText('Espresso').click();
    await tab.locator('li').first().waitFor();
    await tab.getByText('Tea').click();
    await tab.locator('li').nth(1).waitFor();
    await tab.waitForFunction(() => document.getElementById('sold').textContent === '1');
    await tab.screenshot({ path: png });
    console.log(JSON.stringify({ answers: await tab.locator('li').allTextContents(), told }));
  } finally {
    await browser.close();
  }
}

main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
