// The booking agent by the package @openai/agents, which uses the Responses API: `node agents.ts`.

import { Agent, run, tool } from '@openai/agents'
import { call, instructions, say, task, tools } from './tools.ts'

const agent = new Agent({
  name: 'booking',
  model: 'gpt-5-mini',
  modelSettings: { maxTokens: 2000 },
  instructions,
  tools: tools.map((t) => tool({ name: t.name, description: t.description, parameters: t.schema, execute: (input: unknown) => call(t.name, input) })),
})

const result = await run(agent, task, { maxTurns: 100 })
say(result.finalOutput)
