// The agent by the package @modelcontextprotocol/sdk, with the revision 2025-11-25 of the protocol:
// node classic.ts, or with a command that serves the tools on stdin and stdout.

import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { address, command, environment, headers, say, work } from './work.ts'

await work(async () => {
  const client = new Client({ name: 'classic', version: '1.0.0' })
  const http = command.length ? undefined : new StreamableHTTPClientTransport(address, { requestInit: { headers } })
  await client.connect(http ?? new StdioClientTransport({ command: command[0], args: command.slice(1), env: environment }))
  if (http) say(`revision ${http.protocolVersion}`)
  return client
})
