// kafkajs at a secured node: jobs as lines of `key=value` words on standard input, an error (or none) as a line for each.
const fs = require('node:fs')
const assert = require('node:assert')
const { Kafka, logLevel } = require('kafkajs')

const RECORDS = 20
const MAX_MS = 30000
const file = path => fs.readFileSync(path, 'utf8')
const numbered = count => Array.from({ length: count }, (_, number) => `${number}`)

function clientOf(job) {
  const settings = { clientId: 'secured', brokers: [job.bootstrap], logLevel: logLevel.NOTHING, connectionTimeout: 10000, reauthenticationThreshold: 300 }
  if (job.authority) settings.ssl = { ca: [file(job.authority)] }
  if (job.certificate) Object.assign(settings.ssl, { cert: file(job.certificate), key: file(job.key) })
  if (job.mechanism) settings.sasl = { mechanism: job.mechanism.toLowerCase(), username: job.user, password: job.password }
  return new Kafka({ ...settings, retry: { retries: job.action === 'work' || job.action === 'stay' ? 5 : 0 } })
}

async function using(thing, work) {
  try {
    await thing.connect()
    return await work(thing)
  } finally { await thing.disconnect() }
}

// Hands each value of the topic to `each` until that returns true.
async function consume(kafka, topic, groupId, each) {
  const consumer = kafka.consumer({ groupId, sessionTimeout: 6000, heartbeatInterval: 200, maxWaitTimeInMs: 200 })
  await using(consumer, () => new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
    const limit = setTimeout(() => reject(new Error('records did not come')), MAX_MS)
    const eachMessage = async ({ message }) => {
      if (await each(`${message.value}`)) {
        clearTimeout(limit)
        resolve()
      }
    }
    consumer.subscribe({ topics: [topic], fromBeginning: true })
      .then(() => consumer.run({ autoCommitThreshold: 1, eachMessage }))
      .catch(reject)
  }))
}

const actions = {
  async work(kafka, { name }) {
    await using(kafka.admin(), async admin => {
      await admin.createTopics({ topics: [{ topic: name, numPartitions: 2 }], waitForLeaders: true })
      await using(kafka.producer(), producer => producer.send({ topic: name, messages: numbered(RECORDS).map(value => ({ value })) }))
      const seen = []
      await consume(kafka, name, name, async value => seen.push(value) === RECORDS)
      assert.deepStrictEqual(seen.sort(), numbered(RECORDS).sort())
      const [{ partitions }] = await admin.fetchOffsets({ groupId: name, topics: [name] })
      assert.strictEqual(partitions.reduce((sum, { offset }) => sum + Math.max(0, Number(offset)), 0), RECORDS)
      await admin.deleteTopics({ topics: [name] })
    })
  },
  knock: kafka => using(kafka.admin(), admin => admin.listTopics()),
  write: (kafka, { name }) => using(kafka.producer(), producer => producer.send({ topic: name, messages: [{ value: '0' }] })),
  read: (kafka, { name }) => consume(kafka, name, `${name}-group`, async () => true),
  create: (kafka, { name }) => using(kafka.admin(), admin => admin.createTopics({ topics: [{ topic: name, numPartitions: 1 }] })),
  async stay(kafka, { name, seconds }) {
    const end = Date.now() + Number(seconds) * 1000
    let number = 0
    await using(kafka.producer(), async producer => {
      const send = () => producer.send({ topic: name, messages: [{ value: `${++number}` }] })
      await send()
      await consume(kafka, name, name, async value => {
        assert.strictEqual(value, `${number}`)
        if (Date.now() > end) return true
        await send()
      })
    })
  },
}

function told(error) {
  const parts = []
  for (let found = error; found && parts.length < 5; found = found.cause) {
    const first = (found.errors || [])[0]
    parts.push(`${found.name} ${found.code || ''} ${found.type || ''}: ${found.message}${first ? ` (${first.type}: ${first.message})` : ''}`)
  }
  return parts.join(' < ').replaceAll('\n', ' ')
}

async function main() {
  for await (const line of require('node:readline').createInterface({ input: process.stdin })) {
    const job = Object.fromEntries(line.split('\t').map(word => [word.slice(0, word.indexOf('=')), word.slice(word.indexOf('=') + 1)]))
    const error = await actions[job.action](clientOf(job), job).then(() => '', told)
    console.log(error)
  }
  process.exit(0)
}

main()
