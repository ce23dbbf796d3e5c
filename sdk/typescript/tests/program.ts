// The program by which internal/test/examples tests the SDK against a server: node dist/tests/program.js scenario|killed.
// The programs of all SDKs print the same lines, which are in sdk/testdata/scenario.txt.

import process from 'node:process'
import { setTimeout as sleep } from 'node:timers/promises'
import { Abort, attach, Client, Problem, Refused, Unsuccessful, Waits, type Work } from '../recourse.js'

const world = process.env.WORLD // the mock services
const key = process.env.KEY
const say = (...what: unknown[]) => console.log(what.map((part) => (typeof part === 'string' ? part : JSON.stringify(part ?? null))).join(' '))

// post sends a request to the mock services with an idempotency key, as an own step does.
async function post(path: string, body: unknown, key: string): Promise<string> {
  const answer = await fetch(world + path, { method: 'POST', body: JSON.stringify(body), headers: { 'Content-Type': 'application/json', 'Idempotency-Key': key } })
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`)
  return ((await answer.json()) as { id: string }).id
}

const refundOf = (charge: string) => ({ use: 'refund-charge', with: { charge } })

// problem prints the code of the problem, or the status of the failure, that work throws.
async function problem(what: string, work: () => Promise<unknown>) {
  try {
    await work()
    say(what, 'no problem')
  } catch (error) {
    if (error instanceof Problem) say(what, error.status, error.code, error.detail !== '')
    else if (error instanceof Unsuccessful) say(what, error.status, error.code)
    else if (error instanceof Waits) say(what, 'waits')
    else say(what, (error as Error).message)
  }
}

async function calls(client: Client) {
  let session = await client.open('sdk', ['refund', 'refund-charge'], { key: `${key}-calls`, lease: '5s', input: { n: 1 } })
  say('life', session.life, (await session.get()).input.n)
  const first = await session.call('refund', { order: 'o-1', amount: 100 })
  const again = await session.call('refund', { amount: 100, order: 'o-1' })
  say('call', first.path, first.status, again.path, again.replayed, first.key === again.key)
  const charge = await post('/pay/charges', { amount: 5 }, `of-${first.key}`)
  say('once', (await session.call('refund-charge', { charge }, { once: 'a' })).path)
  await problem('failed', () => session.call('refund-charge', { charge: 'none' }))
  await problem('bad input', () => session.call('refund', { order: 1 }))
  await problem('no action', () => session.call('refunds', {}))
  await problem('approval', () => session.call('refund', { order: 'o-2', amount: 20000 }, { patience: 0 }))
  await session.undo(first.path)
  await session.detach()
  session = await client.attach(session.id)
  try {
    await session.call('refund', { order: 'o-1', amount: 100 }) // the first answer is that it is undone, unless that is lost
  } catch (error) {
    if (!(error instanceof Unsuccessful && error.status === 'undone')) throw error
  }
  say('life', session.life, (await session.call('refund', { order: 'o-1', amount: 100 })).path)
  await session.abort('enough')
  say('ended', (await client.wait(session.id)).status)
  await problem('aborted', () => session.call('refund', { order: 'o-3', amount: 100 }))
}

async function steps(client: Client) {
  const done: number[] = []
  const keys: string[] = []
  const charge = async (work: Work) => {
    done.push(work.attempt)
    work.cost = '0.02'
    return { charge: await post('/pay/charges', { amount: 7 }, work.key) }
  }
  const broken = (work: Work) => {
    done.push(work.attempt)
    keys.push(work.key)
    if (work.attempt === 1) throw new Error('broken')
    return { 'same key': keys.at(-1) === keys.at(-2) }
  }
  const refused = (work: Work): never => {
    done.push(work.attempt)
    throw new Refused('no_such_page', 'there is no page 7')
  }
  const undo = (output: { charge: string }) => refundOf(output.charge)
  const session = await client.open('sdk', ['refund', 'refund-charge'], { key: `${key}-steps`, lease: '5s', budget: '5.00 EUR' })
  await session.run(async () => {
    const once = await session.step('charge', charge, { undo })
    const twice = await session.step('charge', charge, { undo })
    say('step', once.charge === twice.charge, done)
    await problem('broken', () => session.step('sum', broken, { effect: 'none' }))
    say('done', await session.step('sum', broken, { effect: 'none' }), done)
    await problem('refused', () => session.step('page', refused))
    await problem('refused', () => session.step('page', refused))
    await problem('other input', () => session.step('page', refused, { input: 7 }))
    say('done', done)
    await problem('doubt', () => session.step('mail', broken))
    await problem('doubt', () => session.step('mail', broken, { patience: 0 }))
    await session.undo('own.charge')
    await problem('undone', () => session.step('charge', charge, { undo }))
    throw new Abort('a person has to decide')
  })
  say('spent', (await session.get()).cost.spent)
  const other = await client.open('sdk', ['refund'], { key: `${key}-commit`, lease: '5s' })
  await other.run(async () => other.commit({ refunds: [await other.step('none', () => 1, { effect: 'none' })] }))
  const view = await client.wait(other.id)
  say('committed', view.status, view.output)
}

async function held(client: Client) {
  const session = await client.open('sdk', ['refund'], { key: `${key}-held`, lease: '5s' })
  await sleep(6000) // heartbeats keep it
  await problem('held', () => client.attach(session.id, 0))
  await session.abort()
  const refused: boolean[] = []
  for (const [url, key] of [['htp://127.0.0.1', ''], [client.url, 'a\nb']]) {
    try {
      await new Client(url, key).get('x')
    } catch (error) {
      refused.push(error instanceof TypeError)
    }
  }
  say('unsendable', refused)
}

async function sagas(client: Client) {
  const double = (work: Work) => {
    const { n } = work.input
    if (n === 1) throw new Refused('odd', '1 is odd')
    if (n === 2 && work.attempt === 1) throw new Refused('later', 'not now', true)
    if (n === 4 && work.attempt === 1) throw new Error('broken')
    work.cost = '0.01'
    return { double: 2 * n }
  }
  const stop = new AbortController()
  const worker = client.work(['sdk.double'], double, { parallel: 2, stop: stop.signal })
  for (const n of [1, 2, 3, 4]) {
    const saga = await client.start('sdk-double', { n }, { key: `${key}-${n}` })
    const view = await client.wait(saga.id)
    const kinds: string[] = []
    for await (const record of client.watch(saga.id)) kinds.push(record.kind)
    const output = view.output as { double: number } | undefined
    say('saga', n, view.status, output?.double, view.reason?.error, view.cost.spent, kinds.at(0), kinds.at(-1))
    say('same', (await client.start('sdk-double', { n }, { key: `${key}-${n}` })).id === saga.id, (await client.get(saga.id)).seq === kinds.length)
  }
  stop.abort()
  await worker
  await problem('no saga', () => client.start('none'))
  const waiting = await client.start('sdk-double', { n: 5 }, { key: `${key}-5` })
  say('waiting', (await client.wait(waiting.id, 1000)).status)
}

// killed is killed in the middle of a step, after it, and in the middle of a step that a person decides about.
async function killed() {
  const session = attach()
  const die = () => process.kill(process.pid, 'SIGKILL')
  say(`life ${session.life}: begins as process ${process.pid}`)
  await session.run(async () => {
    const charge = async (work: Work) => {
      const id = await post('/pay/charges', { amount: 7 }, work.key)
      if (session.life === 1) die()
      return id
    }
    await session.step('charge', charge, { in_doubt: 'retry', undo: refundOf })
    await session.call('refund', { order: 'o-1', amount: 100 })
    if (session.life === 2) die()
    const mail = async (work: Work) => {
      await post('/mail/send', { to: 'ann@shop.example' }, work.key) // it ignores the key
      die()
    }
    await session.step('mail', mail, { patience: 0 })
    say('done')
  })
}

if (process.argv[2] === 'killed') {
  await killed()
} else {
  const client = new Client(process.env.RECOURSE_SERVER)
  await calls(client)
  await steps(client)
  await held(client)
  await sagas(client)
}
