// What the agents do, whichever client they use: a model would decide on the calls instead.

import process from 'node:process'
import { setTimeout as sleep } from 'node:timers/promises'

// Client is what both packages have.
export interface Client {
  listTools(): Promise<{ tools: { name: string }[] }>
  callTool(params: { name: string; arguments: Record<string, unknown> }): Promise<{ isError?: boolean; content?: unknown; structuredContent?: unknown; _meta?: Record<string, unknown> }>
  close(): Promise<void>
}

export const say = (...what: unknown[]) => console.error(...what)

type Calls = [name: string, input: Record<string, unknown>][]

const input = JSON.parse(process.env.RECOURSE_INPUT ?? 'null') as { calls: Calls } | null
const calls: Calls = input?.calls ?? [
  ['book', { trip: 't-1', route: 'FRA-LIS', date: '2027-03-01' }],
  ['refund', { order: 'o-1', amount: 1910 }],
]

// work makes the calls, one after the other. A call without an answer is made again, over a new
// connection: it is the same call, because it has the same arguments.
export async function work(connect: () => Promise<Client>) {
  let client: Client | undefined
  for (const [name, input] of calls) {
    for (let pause = 5; ; pause = Math.min(2 * pause, 2000)) {
      try {
        client ??= await listed(connect)
        const answer = await client.callTool({ name, arguments: input })
        const call = answer.structuredContent as { path: string; status: string } | undefined
        if (answer.isError || call?.status !== 'succeeded') throw new Error(JSON.stringify(answer.content))
        say(`${call.path} ${call.status}${answer._meta?.['recourse/replayed'] ? ' (from the journal)' : ''}`)
        break
      } catch (e) {
        say(`${name}: no answer, so it is called again: ${e}`)
        await client?.close().catch(() => {}) // the connection may be broken already
        client = undefined
        await sleep(pause)
      }
    }
  }
  await client?.close()
}

// listed connects, and reads the list of tools, as a model's host does before it offers them: the
// package checks each schema.
async function listed(connect: () => Promise<Client>) {
  const client = await connect()
  const names = (await client.listTools()).tools.map((tool) => tool.name)
  const missing = calls.map(([name]) => name).filter((name) => !names.includes(name))
  if (missing.length) say(`there is no tool ${missing}: the tools are ${names}`)
  return client
}

// address and token are where the tools are, and the session: `recourse agent run` sets both.
export const address = new URL(process.env.RECOURSE_MCP_URL ?? 'http://127.0.0.1:8080/mcp')
export const headers = { Authorization: `Bearer ${process.env.RECOURSE_TOKEN}` }

// command is that of the stdio server, if the agent starts one: node modern.ts recourse mcp --actions actions
export const command = process.argv.slice(2)
export const environment = Object.fromEntries(Object.entries(process.env).filter(([, value]) => value !== undefined)) as Record<string, string>
