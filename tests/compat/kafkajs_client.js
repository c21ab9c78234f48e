// kafkajs, used as its documentation shows. Arguments: bootstrap, topic. Prints what the test expects, as JSON.
const { Kafka, logLevel, CompressionTypes } = require('kafkajs')

const [bootstrap, topic] = process.argv.slice(2)
const kafka = new Kafka({ clientId: 'compat', brokers: [bootstrap], logLevel: logLevel.ERROR })

async function produce() {
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  const plain = Array.from({ length: 50 }, (_, n) => ({ key: `k${n}`, value: `v${n}`, headers: { from: 'kafkajs' } }))
  const packed = Array.from({ length: 50 }, (_, n) => ({ key: `k${n + 50}`, value: `v${n + 50}`, headers: { from: 'kafkajs' } }))
  await producer.send({ topic, messages: plain })
  await producer.send({ topic, messages: packed, compression: CompressionTypes.GZIP })
  await producer.disconnect()
}

// Reads `count` records as a member of a group, commits after the last one and leaves.
async function consume(count) {
  const consumer = kafka.consumer({ groupId: topic, sessionTimeout: 6000, heartbeatInterval: 500 })
  const seen = []
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, event => reject(event.payload.error))
    consumer.run({
      autoCommit: false,
      eachMessage: async ({ partition, message }) => {
        if (seen.length >= count) return
        seen.push(`${message.offset} ${message.key} ${message.value} ${message.headers.from}`)
        if (seen.length === count) {
          await consumer.commitOffsets([{ topic, partition, offset: (Number(message.offset) + 1).toString() }])
          resolve()
        }
      },
    }).catch(reject)
  })
  await consumer.disconnect()
  return seen
}

async function main() {
  const admin = kafka.admin()
  await admin.connect()
  await admin.createTopics({ topics: [{ topic, numPartitions: 1 }], waitForLeaders: true })
  await produce()
  const first = await consume(60)
  const committed = await admin.fetchOffsets({ groupId: topic, topics: [topic] })
  const second = await consume(40)
  const ends = await admin.fetchTopicOffsets(topic)
  const topics = await admin.listTopics()
  await admin.deleteTopics({ topics: [topic] })
  await admin.disconnect()
  return { seen: first.concat(second), committed: committed[0].partitions[0].offset, end: ends[0].high, listed: topics.includes(topic) }
}

main().then(result => console.log(JSON.stringify(result)), error => { console.error(error); process.exit(1) })
