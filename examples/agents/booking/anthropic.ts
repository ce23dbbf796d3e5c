// The booking agent by the package @anthropic-ai/sdk: `node anthropic.ts` or `node anthropic.ts stream`.

import process from 'node:process'
import Anthropic from '@anthropic-ai/sdk'
import { call, instructions, jsonSchema, say, task, tools } from './tools.ts'

const client = new Anthropic() // reads ANTHROPIC_BASE_URL, without /v1, and ANTHROPIC_API_KEY
const messages: Anthropic.MessageParam[] = [{ role: 'user', content: task }]
const body = {
  model: 'claude-haiku-4-5',
  max_tokens: 2000,
  system: instructions,
  messages,
  tools: tools.map((t) => ({ name: t.name, description: t.description, input_schema: jsonSchema(t) as Anthropic.Tool.InputSchema })),
}

for (;;) {
  const answer = process.argv[2] === 'stream' ? await client.messages.stream(body).finalMessage() : await client.messages.create(body)
  const uses = answer.content.filter((block) => block.type === 'tool_use')
  if (!uses.length) {
    say(answer.content.map((block) => (block.type === 'text' ? block.text : '')).join(''))
    break
  }
  messages.push({ role: answer.role, content: answer.content })
  const results = await Promise.all(uses.map((use) => call(use.name, use.input)))
  messages.push({ role: 'user', content: uses.map((use, i) => ({ type: 'tool_result', tool_use_id: use.id, content: results[i] })) })
}
