// The booking agent by the package openai: node openai.ts chat|stream|responses.

import process from 'node:process'
import OpenAI from 'openai'
import type { ChatCompletionMessageParam } from 'openai/resources/chat/completions'
import type { ResponseInput } from 'openai/resources/responses/responses'
import { call, instructions, jsonSchema, say, task, tools } from './tools.ts'

const client = new OpenAI() // reads OPENAI_BASE_URL, which ends with /v1, and OPENAI_API_KEY
const model = 'gpt-5-mini'

async function chat(stream: boolean) {
  const messages: ChatCompletionMessageParam[] = [
    { role: 'system', content: instructions },
    { role: 'user', content: task },
  ]
  const body = {
    model,
    messages,
    max_completion_tokens: 2000,
    tools: tools.map((t) => ({ type: 'function' as const, function: { name: t.name, description: t.description, parameters: jsonSchema(t) } })),
  }
  for (;;) {
    const answer = stream ? await client.chat.completions.stream(body).finalChatCompletion() : await client.chat.completions.create(body)
    const { role, content, tool_calls } = answer.choices[0].message
    if (!tool_calls?.length) return content
    messages.push({ role, content, tool_calls })
    const results = await Promise.all(tool_calls.map((c) => (c.type === 'function' ? call(c.function.name, JSON.parse(c.function.arguments)) : '')))
    tool_calls.forEach((c, i) => messages.push({ role: 'tool', tool_call_id: c.id, content: results[i] }))
  }
}

async function responses() {
  const input: ResponseInput = [{ role: 'user', content: task }]
  for (;;) {
    const answer = await client.responses
      .stream({
        model,
        instructions,
        input,
        store: false,
        max_output_tokens: 2000,
        tools: tools.map((t) => ({ type: 'function' as const, name: t.name, description: t.description, parameters: jsonSchema(t), strict: true })),
      })
      .finalResponse()
    const calls = answer.output.filter((item) => item.type === 'function_call')
    if (!calls.length) return answer.output_text
    for (const item of answer.output) {
      if (item.type === 'message') input.push(item)
      if (item.type === 'function_call') input.push({ type: item.type, call_id: item.call_id, name: item.name, arguments: item.arguments })
    }
    const results = await Promise.all(calls.map((c) => call(c.name, JSON.parse(c.arguments))))
    calls.forEach((c, i) => input.push({ type: 'function_call_output', call_id: c.call_id, output: results[i] }))
  }
}

const how = process.argv[2] ?? 'chat'
say(how === 'responses' ? await responses() : await chat(how === 'stream'))
