// kafkajs, used as its documentation shows. Arguments: bootstrap, name, scenario...
// Each scenario is named after the feature that it shows and works on topics and groups of its own, called NAME-SCENARIO.
// Prints one line of JSON per scenario: {"scenario": ..., "error": ...}, where no error means that all was as it must be.
const assert = require('node:assert')
const { Kafka, logLevel, CompressionTypes, ConfigResourceTypes, AssignerProtocol, PartitionAssigners } = require('kafkajs')

const [bootstrap, prefix, ...wanted] = process.argv.slice(2)
const kafka = new Kafka({ clientId: 'compat', brokers: [bootstrap], logLevel: logLevel.NOTHING })
const quick = { sessionTimeout: 6000, heartbeatInterval: 200, maxWaitTimeInMs: 200 }
const HOUR_MS = 3600000

const numbered = (count, start = '') => Array.from({ length: count }, (_, number) => `${start}${number}`)
const valued = (values, partition = 0) => values.map(value => ({ partition, value }))
const text = message => message.value === null ? null : message.value.toString()

async function using(thing, work) {
  await thing.connect()
  try { return await work(thing) } finally { await thing.disconnect() }
}

const admin = work => using(kafka.admin(), work)
const producing = (settings, work) => using(kafka.producer(settings), work)
const send = (topic, values, partition = 0) => producing({}, producer => producer.send({ topic, messages: valued(values, partition) }))

async function created(topic, numPartitions = 1) {
  await admin(it => it.createTopics({ topics: [{ topic, numPartitions }], waitForLeaders: true }))
  return topic
}

async function until(holds, what) {
  for (const end = Date.now() + 30000; !(await holds()); await new Promise(resolve => setTimeout(resolve, 20))) {
    assert(Date.now() < end, `${what} did not happen`)
  }
}

async function refused(promise, type) {
  await assert.rejects(promise, error => {
    const told = [error, error.cause, ...(error.errors || []), ...(error.groups || []).map(one => one.error)].filter(Boolean).map(one => `${one.type} ${one.message}`).join('; ')
    assert(told.includes(type), told)
    return true
  })
}

// A member of a group: what it owns, what it has seen; `each` is called with every message.
class Member {
  constructor(groupId, topic, settings = {}, each = async () => {}) {
    Object.assign(this, { groupId, topic, each, seen: [], owned: [], generation: null, error: null })
    this.consumer = kafka.consumer({ groupId, ...quick, ...settings })
  }

  async start() {
    await this.consumer.connect()
    await this.consumer.subscribe({ topics: [this.topic], fromBeginning: true })
    this.consumer.on(this.consumer.events.GROUP_JOIN, ({ payload }) => {
      this.owned = payload.memberAssignment[this.topic] || []
      this.memberId = payload.memberId
    })
    this.consumer.on(this.consumer.events.CRASH, ({ payload }) => { this.error = payload.error })
    await this.consumer.run({
      autoCommit: false,
      eachMessage: async told => {
        this.seen.push(told.message)
        await this.each(told, this)
      },
    })
    return this
  }

  values() { return this.seen.map(text) }
  stop() { return this.consumer.disconnect() }
}

// The first `count` messages of a topic's partitions.
async function read(topic, count, settings = {}) {
  const member = await new Member(`${topic}-reader-${Math.random()}`, topic, settings).start()
  await until(() => member.seen.length >= count, `${count} messages`)
  await member.stop()
  return member.seen
}

const scenarios = {
  async 'produce-acks'(name) {
    const topic = await created(name)
    for (const acks of [0, 1, -1]) {
      await producing({}, producer => producer.send({ topic, acks, messages: valued(numbered(50)) }))
    }
    const count = new Map()
    for (const value of (await read(topic, 150)).map(text)) count.set(value, (count.get(value) || 0) + 1)
    assert.deepStrictEqual(numbered(50).filter(value => count.get(value) !== 3), [])
  },

  async 'produce-idempotent'(name) {
    const topic = await created(name)
    await producing({ idempotent: true, maxInFlightRequests: 1 }, async producer => {
      for (const part of [0, 1, 2, 3]) await producer.send({ topic, messages: valued(numbered(100, `${part}/`)) })
    })
    assert.deepStrictEqual((await read(topic, 400)).map(text), [0, 1, 2, 3].flatMap(part => numbered(100, `${part}/`)))
  },

  async compression(name) {
    const topic = await created(name)
    const values = numbered(200, 'compressible '.repeat(50))
    await producing({}, producer => producer.send({ topic, messages: valued(values), compression: CompressionTypes.GZIP }))
    assert.deepStrictEqual((await read(topic, 200)).map(text), values)
  },

  async headers(name) {
    const topic = await created(name)
    const sent = { key: 'key', value: 'value', headers: { trace: ['1', '2'], from: 'kafkajs' }, timestamp: '1700000000123' }
    const [told] = await producing({}, producer => producer.send({ topic, messages: [sent] }))
    assert.strictEqual(told.baseOffset, '0')
    const [seen] = await read(topic, 1)
    assert.strictEqual(`${seen.key} ${seen.value} ${seen.timestamp}`, 'key value 1700000000123')
    assert.deepStrictEqual(seen.headers.trace.map(String), ['1', '2'])
    assert.strictEqual(`${seen.headers.from}`, 'kafkajs')
  },

  async nulls(name) {
    const topic = await created(name)
    await producing({}, producer => producer.send({ topic, messages: [{ key: 'tombstone', value: null }, { key: null, value: '' }] }))
    const seen = await read(topic, 2)
    assert.deepStrictEqual(seen.map(one => [one.key && one.key.toString(), text(one)]), [['tombstone', null], [null, '']])
  },

  async 'large-records'(name) {
    const topic = await created(name)
    const values = numbered(5, 'x'.repeat(900000))
    for (const value of values) await send(topic, [value])
    assert.deepStrictEqual((await read(topic, 5, { maxBytesPerPartition: 1000, maxBytes: 1000 })).map(text), values)
  },

  async 'produce-errors'(name) {
    const topic = await created(name)
    const retry = { retries: 0 }
    await refused(producing({ retry }, producer => producer.send({ topic, messages: valued(['x'.repeat(2 << 20)]) })), 'MESSAGE_TOO_LARGE')
    const strict = { retry, allowAutoTopicCreation: false }
    await refused(producing(strict, producer => producer.send({ topic: 'no topic!', messages: valued(['']) })), 'INVALID_TOPIC_EXCEPTION')
    await refused(producing(strict, producer => producer.send({ topic: `${topic}-unknown`, messages: valued(['']) })), 'UNKNOWN_TOPIC_OR_PARTITION')
    await send(topic, ['after'])
    assert.deepStrictEqual((await read(topic, 1)).map(text), ['after'])
  },

  async 'consume-range'(name) {
    const topic = await created(name)
    await send(topic, numbered(20))
    assert.deepStrictEqual((await read(topic, 20)).map(text), numbered(20))
    const consumer = kafka.consumer({ groupId: `${topic}-end`, ...quick })
    const seen = []
    await using(consumer, async () => {
      await consumer.subscribe({ topics: [topic] })
      await consumer.run({ autoCommit: false, eachMessage: async ({ message }) => { seen.push(text(message)) } })
      await until(async () => { await send(topic, ['new']); return seen.length }, 'a new message')
      assert.deepStrictEqual([...new Set(seen)], ['new'])
    })
  },

  async seek(name) {
    const topic = await created(name)
    await send(topic, numbered(10))
    const member = await new Member(topic, topic).start()
    await until(() => member.seen.length === 10, 'ten messages')
    member.consumer.seek({ topic, partition: 0, offset: '4' })
    await until(() => member.seen.length === 16, 'six messages again')
    await member.stop()
    assert.deepStrictEqual(member.values().slice(10), numbered(10).slice(4))
  },

  async 'offsets-for-times'(name) {
    const topic = await created(name)
    const begun = Date.now() - 10 * HOUR_MS
    for (const number of numbered(10)) {
      const timestamp = `${begun + Number(number) * HOUR_MS}`
      await producing({}, producer => producer.send({ topic, messages: [{ value: number, timestamp }] }))
    }
    await admin(async it => {
      for (const [after, offset] of [[-1, '0'], [0, '0'], [1, '1'], [5 * HOUR_MS, '5']]) {
        const [found] = await it.fetchTopicOffsetsByTimestamp(topic, begun + after)
        assert.strictEqual(found.offset, offset)
      }
    })
  },

  async 'out-of-range'(name) {
    const topic = await created(name)
    await send(topic, numbered(10))
    await admin(async it => {
      await it.setOffsets({ groupId: topic, topic, partitions: [{ partition: 0, offset: '1000' }] })
    })
    const member = await new Member(topic, topic).start()
    await until(() => member.seen.length === 10, 'a reset to the beginning')
    await member.stop()
  },

  async 'group-rebalance'(name) {
    const topic = await created(name, 4)
    const first = await new Member(topic, topic).start()
    await until(() => first.owned.length === 4, 'the first member owns all')
    const second = await new Member(topic, topic).start()
    await until(() => first.owned.length === 2 && second.owned.length === 2, 'an even share')
    for (const partition of [0, 1, 2, 3]) await send(topic, numbered(10, `${partition}/`), partition)
    await until(() => first.seen.length === 20 && second.seen.length === 20, 'all is read')
    const seen = [...first.values(), ...second.values()].sort()
    assert.deepStrictEqual(seen, [0, 1, 2, 3].flatMap(partition => numbered(10, `${partition}/`)).sort())
    await second.stop()
    await until(() => first.owned.length === 4, 'the first member owns all again')
    await first.stop()
    assert.strictEqual(first.error, null)
  },

  async 'group-commit'(name) {
    const topic = await created(name)
    await send(topic, numbered(30))
    const commit = async ({ partition, message }, member) => {
      if (member.seen.length === 10) {
        await member.consumer.commitOffsets([{ topic, partition, offset: `${Number(message.offset) + 1}`, metadata: 'noted' }])
      }
    }
    const first = await new Member(topic, topic, {}, commit).start()
    await until(() => first.seen.length >= 10, 'ten messages')
    await first.stop()
    const [told] = await admin(it => it.fetchOffsets({ groupId: topic, topics: [topic] }))
    assert.deepStrictEqual([told.partitions[0].offset, told.partitions[0].metadata], ['10', 'noted'])
    const second = await new Member(topic, topic).start()
    await until(() => second.seen.length === 20, 'the rest')
    await second.stop()
    assert.deepStrictEqual(second.values(), numbered(30).slice(10))
  },

  async topics(topic) {
    await admin(async it => {
      const config = { topics: [{ topic, numPartitions: 3, configEntries: [{ name: 'retention.ms', value: '3600000' }] }] }
      assert.strictEqual(await it.createTopics({ ...config, validateOnly: true, waitForLeaders: false }), true)
      assert.strictEqual(await it.createTopics(config), true)
      assert.strictEqual(await it.createTopics(config), false)
      assert((await it.listTopics()).includes(topic))
      const told = await it.fetchTopicMetadata({ topics: [topic] })
      assert.strictEqual(told.topics[0].partitions.length, 3)
      await it.deleteTopics({ topics: [topic] })
      await until(async () => !(await it.listTopics()).includes(topic), 'the topic is gone')
      await refused(it.deleteTopics({ topics: [topic] }), 'UNKNOWN_TOPIC_OR_PARTITION')
    })
  },

  async partitions(name) {
    const topic = await created(name)
    await admin(async it => {
      await it.createPartitions({ topicPartitions: [{ topic, count: 3 }] })
      await until(async () => (await it.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions.length === 3, 'three partitions')
      await refused(it.createPartitions({ topicPartitions: [{ topic, count: 2 }] }), 'INVALID_PARTITIONS')
    })
    await send(topic, ['new'], 2)
    assert.deepStrictEqual((await read(topic, 1)).map(text), ['new'])
  },

  async configs(name) {
    const topic = await created(name)
    const type = ConfigResourceTypes.TOPIC
    await admin(async it => {
      const value = async key => {
        const { resources } = await it.describeConfigs({ resources: [{ type, name: topic, configNames: [key] }] })
        return resources[0].configEntries[0].configValue
      }
      assert.strictEqual(await value('max.message.bytes'), '1048588')
      await it.alterConfigs({ resources: [{ type, name: topic, configEntries: [{ name: 'retention.ms', value: '60000' }] }] })
      await until(async () => await value('retention.ms') === '60000', 'retention.ms')
      const wrong = { resources: [{ type, name: topic, configEntries: [{ name: 'retention.ms', value: 'soon' }] }] }
      await refused(it.alterConfigs(wrong), 'INVALID_CONFIG')
    })
  },

  async cluster() {
    const { brokers, controller, clusterId } = await admin(it => it.describeCluster())
    assert.strictEqual(brokers.length, Number(process.env.TEST_BROKERS || 1))
    assert(brokers.some(one => one.nodeId === controller))
    assert(brokers.some(one => `${one.host}:${one.port}` === bootstrap))
    assert(clusterId)
  },

  async 'groups-described'(name) {
    const topic = await created(name)
    const member = await new Member(topic, topic).start()
    await until(() => member.owned.length === 1, 'an assignment')
    await admin(async it => {
      assert((await it.listGroups()).groups.some(one => one.groupId === topic && one.protocolType === 'consumer'))
      const { groups: [told] } = await it.describeGroups([topic])
      assert.deepStrictEqual([told.state, told.protocol, told.members.length], ['Stable', 'RoundRobinAssigner', 1])
      const [{ memberId, clientId, memberAssignment }] = told.members
      assert.deepStrictEqual([memberId, clientId], [member.memberId, 'compat'])
      assert.deepStrictEqual(AssignerProtocol.MemberAssignment.decode(memberAssignment).assignment, { [topic]: [0] })
    })
    await member.stop()
  },

  async 'groups-deleted'(name) {
    const topic = await created(name)
    const member = await new Member(topic, topic).start()
    await until(() => member.owned.length === 1, 'an assignment')
    await admin(async it => {
      await refused(it.deleteGroups([topic]), 'NON_EMPTY_GROUP')
      await member.stop()
      await it.setOffsets({ groupId: topic, topic, partitions: [{ partition: 0, offset: '0' }] })
      await it.deleteGroups([topic])
      assert(!(await it.listGroups()).groups.some(one => one.groupId === topic))
      await refused(it.deleteGroups([topic]), 'GROUP_ID_NOT_FOUND')
    })
  },

  async 'group-offsets'(name) {
    const topic = await created(name)
    await send(topic, numbered(10))
    await admin(async it => {
      const committed = async () => (await it.fetchOffsets({ groupId: topic, topics: [topic] }))[0].partitions[0].offset
      await it.setOffsets({ groupId: topic, topic, partitions: [{ partition: 0, offset: '7' }] })
      assert.strictEqual(await committed(), '7')
      await it.resetOffsets({ groupId: topic, topic, earliest: true })
      assert.strictEqual(await committed(), '-2') // its word for the earliest, which it commits as it is
    })
  },

  async 'delete-records'(name) {
    const topic = await created(name)
    await send(topic, numbered(10))
    await admin(async it => {
      await it.fetchTopicOffsets(topic) // it deletes only where it knows the leader already
      await it.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '4' }] })
      assert.strictEqual((await it.fetchTopicOffsets(topic))[0].low, '4')
    })
    assert.deepStrictEqual((await read(topic, 6)).map(text), numbered(10).slice(4))
  },

  async 'list-offsets'(name) {
    const topic = await created(name)
    await send(topic, numbered(10))
    const [told] = await admin(it => it.fetchTopicOffsets(topic))
    assert.deepStrictEqual([told.low, told.high, told.offset], ['0', '10', '10'])
  },

  async 'txn-commit'(name) {
    const topic = await created(name)
    await producing(transactional(name), async producer => {
      for (const start of ['a', 'b']) await transaction(producer, topic, numbered(10, start), it => it.commit())
    })
    const seen = await read(topic, 20)
    assert.deepStrictEqual(seen.map(text), [...numbered(10, 'a'), ...numbered(10, 'b')])
    assert.strictEqual(seen[10].offset, '11')
  },

  async 'txn-abort'(name) {
    const topic = await created(name)
    await producing(transactional(name), async producer => {
      await transaction(producer, topic, numbered(10, 'no'), it => it.abort())
      await transaction(producer, topic, numbered(10, 'yes'), it => it.commit())
      await transaction(producer, topic, numbered(10, 'no'), it => it.abort())
    })
    await send(topic, ['plain'])
    assert.deepStrictEqual((await read(topic, 11)).map(text), [...numbered(10, 'yes'), 'plain'])
    assert.strictEqual((await read(topic, 31, { readUncommitted: true })).length, 31)
  },

  async 'txn-offsets'(name) {
    const [topic, out] = [await created(name), await created(`${name}-out`)]
    await send(topic, numbered(20))
    await producing(transactional(name), async producer => {
      const move = async ({ partition, message }) => {
        for (const end of message.offset === '7' ? ['abort', 'commit'] : ['commit']) {
          await transaction(producer, out, [`V${text(message)}`], async it => {
            const offsets = [{ partition, offset: `${Number(message.offset) + 1}` }]
            await it.sendOffsets({ consumerGroupId: topic, topics: [{ topic, partitions: offsets }] })
            await it[end]()
          })
        }
      }
      const member = await new Member(topic, topic, {}, move).start()
      await until(() => member.seen.length === 20, 'all is read')
      await member.stop()
    })
    assert.deepStrictEqual((await read(out, 20)).map(text), numbered(20, 'V'))
    const [told] = await admin(it => it.fetchOffsets({ groupId: topic, topics: [topic] }))
    assert.strictEqual(told.partitions[0].offset, '20')
  },

  async 'txn-fencing'(name) {
    const topic = await created(name)
    await producing(transactional(name), async old => {
      const open = await old.transaction()
      await open.send({ topic, messages: valued(['old']) })
      await producing(transactional(name), young => transaction(young, topic, ['young'], it => it.commit()))
      await assert.rejects(open.commit(), error => /fenced|old epoch|newer producer/i.test(`${error.type} ${error.message}`))
    })
    assert.deepStrictEqual((await read(topic, 1)).map(text), ['young'])
  },
}

const transactional = name => ({ transactionalId: name, idempotent: true, maxInFlightRequests: 1, retry: { retries: 3 } })

async function transaction(producer, topic, values, end) {
  const open = await producer.transaction()
  await open.send({ topic, messages: valued(values) })
  await end(open)
}

async function main() {
  for (const scenario of wanted) {
    let error = ''
    await scenarios[scenario](`${prefix}-${scenario}`).catch(thrown => { error = thrown.stack || `${thrown}` })
    console.log(JSON.stringify({ scenario, error }))
  }
}

main().then(() => process.exit(0))
