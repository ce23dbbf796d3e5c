// The booking agent by the packages @langchain/langgraph and @langchain/openai: `node langgraph.ts`.

import { tool } from '@langchain/core/tools'
import { MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'
import { ToolNode, toolsCondition } from '@langchain/langgraph/prebuilt'
import { ChatOpenAI } from '@langchain/openai'
import { call, instructions, say, task, tools } from './tools.ts'

const nodes = tools.map((t) => tool((input: unknown) => call(t.name, input), { name: t.name, description: t.description, schema: t.schema }))
const model = new ChatOpenAI({ model: 'gpt-5-mini', maxTokens: 2000 }).bindTools(nodes) // reads OPENAI_BASE_URL

const graph = new StateGraph(MessagesAnnotation)
  .addNode('model', async ({ messages }) => ({ messages: [await model.invoke(messages)] }))
  .addNode('tools', new ToolNode(nodes))
  .addEdge(START, 'model')
  .addConditionalEdges('model', toolsCondition)
  .addEdge('tools', 'model')
  .compile()

const { messages } = await graph.invoke(
  { messages: [{ role: 'system', content: instructions }, { role: 'user', content: task }] },
  { recursionLimit: 200 },
)
say(messages.at(-1)?.content)
