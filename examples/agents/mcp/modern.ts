// The agent by the package @modelcontextprotocol/client, with the revision 2026-07-28 of the
// protocol: node modern.ts, or with a command that serves the tools on stdin and stdout.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { address, command, environment, headers, say, work } from './work.ts'

await work(async () => {
  const client = new Client({ name: 'modern', version: '1.0.0' }, { versionNegotiation: { mode: 'auto' } })
  const transport = command.length
    ? new StdioClientTransport({ command: command[0], args: command.slice(1), env: environment })
    : new StreamableHTTPClientTransport(address, { requestInit: { headers } })
  await client.connect(transport)
  say(`revision ${client.getNegotiatedProtocolVersion()}`)
  return client
})
