// The booking agent by the package ai, streamed: `node ai.ts openai` or `node ai.ts anthropic`.

import process from 'node:process'
import { anthropic } from '@ai-sdk/anthropic'
import { openai } from '@ai-sdk/openai'
import { isStepCount, streamText, tool, type ToolSet } from 'ai'
import { call, instructions, say, task, tools } from './tools.ts'

const result = streamText({
  model: process.argv[2] === 'anthropic' ? anthropic('claude-haiku-4-5') : openai('gpt-5-mini'),
  maxOutputTokens: 2000,
  instructions,
  prompt: task,
  tools: Object.fromEntries(
    tools.map((t) => [t.name, tool({ description: t.description, inputSchema: t.schema, execute: (input: unknown) => call(t.name, input) })]),
  ) as ToolSet,
  stopWhen: isStepCount(100),
  onError: () => {}, // the stream below has the error, too
})
for await (const part of result.fullStream) {
  if (part.type === 'error') throw part.error
}
say(await result.text)
