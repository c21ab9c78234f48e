// vertx3-tcp-eventbus-client against a bridge: argv HOST PORT; prints what it saw as one JSON object.
const EventBus = require("vertx3-tcp-eventbus-client/lib/tcp-vertx-eventbus.js");

const [host, port] = process.argv.slice(2);
const seen = { errors: [] };
const bus = new EventBus(host, Number(port), { vertxbus_ping_interval: 20 });
bus.onerror = (error) => seen.errors.push(error.message);

const ask = (address, body, headers) =>
  new Promise((resolve) => bus.send(address, body, headers || {}, (error, message) => resolve({ error, message })));

const turn = () => ask("echo", "turn");

// Answers of other addresses may come later than those of echo.
const until = async (isSeen) => {
  while (!isSeen()) await turn();
};

bus.onopen = async () => {
  seen.echo = (await ask("echo", { text: "ünï\u2028😀", list: [1, 2.5, null, true] })).message.body;
  seen.failed = (await ask("fail", 1)).error;
  seen.nobody = (await ask("nobody", 1)).error;
  seen.denied = (await ask("secret", 1)).error;
  seen.headers = (await ask("headers", null, { a: "b", n: "5" })).message.body;
  seen.late = (await ask("silent", 1, { timeout: 30 })).error;

  // A service at this end, which answers, fails nobody, and asks back.
  bus.registerHandler("js.svc", (error, message) => {
    message.reply({ heard: message.body }, { by: "js" }, (failure, further) => (seen.further = further.body));
  });
  await turn();
  const answered = await ask("js.svc", "question");
  seen.answered = answered.message.body;
  seen.answerHeaders = answered.message.headers;
  // Not by message.reply: this client forgets the address where another frame has come with the message.
  bus.send(answered.message.replyAddress, "thanks");
  await until(() => "further" in seen);

  seen.news = [];
  const listener = (error, message) => seen.news.push([message.body, message.send]);
  bus.registerHandler("news", listener);
  bus.publish("news", 1);
  bus.send("news", 2);
  await until(() => seen.news.length === 2);
  bus.unregisterHandler("news", listener);
  bus.publish("news", 3);
  await turn();
  await turn();

  bus.registerHandler("forbidden", () => {});
  await turn();
  console.log(JSON.stringify(seen));
  bus.transport.destroy();
};
