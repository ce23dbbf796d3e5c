// The tools of the booking agents, and the way to recourse: each tool calls an action in the agent's session.

import process from 'node:process'
import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'

const base = `${process.env.RECOURSE_URL}/v1/sessions/${process.env.RECOURSE_SESSION}`
// The headers contain the token: never print them.
const headers = { Authorization: `Bearer ${process.env.RECOURSE_TOKEN}`, 'Content-Type': 'application/json' }

const parked = 75 // the exit code by which `recourse agent run` runs the agent again once a person has decided

export const instructions =
  'You book trips. For each trip book the flight and the hotel, then send the traveller one mail. Use each tool once per trip, then say that you are done.'
export const task = `Please book these trips: ${process.env.RECOURSE_INPUT}`

const trip = z.string().describe('the id of the trip')
const remark = z.string().describe('a friendly remark for the provider')

export const tools = [
  {
    name: 'book_flight',
    description: 'Book the flight of a trip',
    schema: z.object({ trip, origin: z.string(), destination: z.string(), date: z.string().describe('the day of departure, such as 2027-03-01'), remark }),
  },
  {
    name: 'book_hotel',
    description: 'Book the hotel of a trip',
    schema: z.object({ trip, destination: z.string(), nights: z.number().int(), remark }),
  },
  {
    name: 'send_mail',
    description: 'Send a mail to the traveller',
    schema: z.object({ trip, email: z.string(), subject: z.string(), text: z.string() }),
  },
]

export const jsonSchema = (tool: (typeof tools)[number]) => z.toJSONSchema(tool.schema) as Record<string, unknown>

export const say = (...what: unknown[]) => console.log(`life ${process.env.RECOURSE_LIFE}:`, ...what)

// request repeats a request until the server answers it. That is safe: two calls with the same
// input are the same call.
async function request(method: string, path: string, body?: object) {
  for (let pause = 100; ; pause = Math.min(2 * pause, 2000)) {
    try {
      const answer = await fetch(base + path, { method, headers, body: body && JSON.stringify(body), signal: AbortSignal.timeout(40_000) })
      const document = await answer.json()
      if (answer.status !== 429 && answer.status < 500) return { status: answer.status, document }
    } catch {
      // The server is away, or the connection has ended early: is it restarting?
    }
    await sleep(pause)
  }
}

// call runs a tool as an action, and returns what the model is told. The text is the same in each
// life, so that the conversation is, too: it has nothing, such as `replayed`, that tells lives apart.
export async function call(name: string, input: unknown): Promise<string> {
  const action = name.replaceAll('_', '-')
  let { status, document } = await request('POST', '/calls', { action, input, wait: '10s' })
  while (status === 202) {
    if (document.waits_for) {
      say('parked:', document.path, 'waits for', document.waits_for)
      process.exit(parked)
    }
    ;({ status, document } = await request('GET', `/calls/${encodeURIComponent(document.path)}?wait=10s`))
  }
  if (status !== 200) {
    const code = String(document.type).split(':').at(-1)
    say(name, 'is refused:', code, document.detail)
    if (code === 'superseded') process.exit(1) // another process has followed, and this one must not do anything
    return JSON.stringify({ status: 'refused', error: { code, detail: document.detail } })
  }
  say(document.path, document.status, document.replayed ? '(from the journal)' : '')
  return JSON.stringify({ status: document.status, output: document.output, error: document.error })
}

say('begins as process', process.pid)
