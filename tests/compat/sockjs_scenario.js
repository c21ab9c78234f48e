// What a client of the SockJS bridge does in these tests, in Node.js and in a browser: returns what it saw.
// `tell(word)` gives a word to the test, which restarts the server when it reads `restart`.

async function sockjsScenario(EventBus, url, transport, tell) {
  const result = {};
  const bus = new EventBus(url, { transports: [transport], vertxbus_reconnect_delay_min: 50 });
  bus.onerror = (error) => { result.error = error.body; };
  await new Promise((resolve, reject) => {
    bus.onopen = resolve;
    bus.onclose = (event) => reject(new Error('closed: ' + JSON.stringify(event)));
  });
  bus.onclose = null;
  result.transport = bus.sockJSConn.transport;

  const ask = (address, body, headers) => new Promise((resolve) => {
    bus.send(address, body, headers || {}, (error, message) => resolve(error || message));
  });
  result.echo = (await ask('echo', { text: 'ü \u2028 \u{1f600}', list: [1, 2.5, null, true] })).body;
  result.headers = (await ask('headers', null, { a: '1' })).body;
  result.failure = await ask('fail', 1);
  result.nobody = await ask('nobody', 1);
  result.denied = await ask('secret', 1);

  const news = [];
  let enough;
  const all = new Promise((resolve) => { enough = resolve; });
  bus.registerHandler('news', (error, message) => { if (news.push(message.body) === 200) enough(); });
  bus.registerHandler('client.name', (error, message) => { message.reply('browser'); });
  result.asked = (await ask('ask-back', 'client.name')).body;
  for (let number = 0; number < 200; number++) bus.publish('news', number);
  await all;
  result.isInOrder = news.every((body, index) => body === index);
  result.large = (await ask('echo', 'x'.repeat(200000))).body.length;
  bus.registerHandler('secret', () => {});
  await ask('echo', 'after the refused registration');

  bus.enableReconnect(true);
  const again = new Promise((resolve) => { bus.onreconnect = resolve; });
  await tell('restart');
  await again;
  result.afterRestart = (await ask('echo', 'again')).body;
  const closed = new Promise((resolve) => { bus.onclose = resolve; });
  bus.close();
  await closed;
  return result;
}

if (typeof module !== 'undefined') module.exports = sockjsScenario;
