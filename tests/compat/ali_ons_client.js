// ali-ons, as its documentation shows it; one JSON object per line of output.
//
// ali_ons_client.js produce ADDRESS TOPIC              sends messages and prints what became of each
// ali_ons_client.js consume ADDRESS TOPIC GROUP OPTIONS COUNT   prints COUNT messages. OPTIONS are JSON: `expression`, `settings` of the
//                                                      consumer, and `failing`: messages with this body fail at the first time
const httpclient = require('urllib')
const { Consumer, Message, Producer } = require('ali-ons')

const [what, nameSrv, topic, group, options, count] = process.argv.slice(2)
const nothing = () => {}
const logger = { debug: nothing, info: nothing, warn: nothing, error: nothing }
const common = { httpclient, nameSrv, logger }
const tell = fields => console.log(JSON.stringify(fields))

async function produce() {
  const producer = new Producer({ ...common, producerGroup: 'producers' })
  producer.on('error', error => tell({ error: error.message }))
  const large = new Message(topic, 'blue', 'x'.repeat(10000)) // over 4 KiB: compressed
  const plain = new Message(topic, 'red', 'grün')
  plain.keys = ['order-1', 'order-2']
  plain.properties.color = 'grün'
  for (const message of [plain, large]) {
    const { sendStatus, msgId, queueOffset, messageQueue } = await producer.send(message)
    tell({ status: sendStatus, id: msgId, offset: queueOffset, queue: messageQueue.queueId })
  }
  await producer.close()
}

async function consume() {
  const { expression = '*', settings = {}, failing } = JSON.parse(options)
  const consumer = new Consumer({ ...common, consumerGroup: group, consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET', ...settings })
  consumer.on('error', error => tell({ error: error.message }))
  let left = Number(count)
  await new Promise(resolve => {
    consumer.subscribe(topic, expression, async message => {
      const { msgId, queueId, queueOffset, tags, keys, reconsumeTimes, properties, body } = message
      const text = body.toString()
      tell({ id: msgId, queue: queueId, offset: queueOffset, tags, keys, times: reconsumeTimes, color: properties.color, size: body.length, body: text.slice(0, 100) })
      if (--left <= 0) setImmediate(resolve) // when it has noted that this one is done
      return text === failing && reconsumeTimes === 0 ? Consumer.ACTION_RETRY : undefined
    })
  })
  await consumer.close() // commits
}

const run = { produce, consume }[what]
run().then(() => process.exit(0), error => { console.error(error); process.exit(1) })
