// node sockjs_node.js CLIENT URL TRANSPORT: the scenario with an npm package's client; prints the result as the last line.
const scenario = require('./sockjs_scenario.js');

const [, , client, url, transport] = process.argv;
scenario(require(client), url, transport, (word) => console.log(word)).then(
  (result) => { console.log(JSON.stringify(result)); process.exit(0); },
  (error) => { console.error(error); process.exit(1); },
);
