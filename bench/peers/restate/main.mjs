// booking3 on Restate (https://docs.restate.dev): a saga is an invocation of a handler whose three
// requests are ctx.run. This program is the service; it starts a Restate server as its child, which
// stores its log in files and syncs it (log-server.rocksdb-disable-wal-fsync is false by default).
// Callers start sagas at the server's ingress. The settings are the server's defaults.
import { spawn } from 'node:child_process';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import * as restate from '@restatedev/restate-sdk';
import { book, steps, untilStdinEnds } from '../front.mjs';

// The SDK uses Promise.withResolvers, which Node.js has from version 22 on.
Promise.withResolvers ??= () => {
  const all = {};
  all.promise = new Promise((resolve, reject) => Object.assign(all, { resolve, reject }));
  return all;
};

const booking = restate.service({
  name: 'booking',
  handlers: {
    run: async (ctx, { input }) => {
      const id = String(ctx.request().id);
      for (const [name, item] of steps) {
        await ctx.run(name, () => book(id, name, item, input.trip));
      }
      return { id, status: 'succeeded' };
    },
  },
});

// The ports stay the same after a restart: the server continues an invocation at the address that
// the service had.
const file = join(process.env.DATA_DIR, 'ports.json');
const known = existsSync(file);
const ports = known ? JSON.parse(readFileSync(file, 'utf8')) : await Promise.all(Array.from({ length: 4 }, freePort));
if (!known) writeFileSync(file, JSON.stringify(ports));
const [service, ingress, admin, node] = ports;

function freePort() {
  return new Promise((resolve) => {
    const s = createServer().listen(0, '127.0.0.1', () => {
      const { port } = s.address();
      s.close(() => resolve(port));
    });
  });
}

await restate.serve({ services: [booking], port: service });

const program = createRequire(import.meta.url).resolve(`@restatedev/restate-server-${process.platform}-${process.arch}/bin/restate-server`);
const server = spawn(program, ['--no-logo'], {
  stdio: ['ignore', 'ignore', 'inherit'],
  env: {
    ...process.env,
    DO_NOT_TRACK: '1',
    RESTATE_DISABLE_TELEMETRY: 'true',
    RESTATE_BASE_DIR: join(process.env.DATA_DIR, 'server'),
    RESTATE_NODE_NAME: 'booking3',
    RESTATE_LISTEN_MODE: 'tcp',
    RESTATE_BIND_IP: '127.0.0.1',
    RESTATE_BIND_PORT: node,
    RESTATE_ADMIN__BIND_PORT: admin,
    RESTATE_INGRESS__BIND_PORT: ingress,
    RESTATE_LOG_FILTER: 'warn',
  },
});
server.on('exit', (code) => process.exit(code ?? 1));

const call = (port, path, options) => fetch(`http://127.0.0.1:${port}${path}`, options);
for (const [port, path] of [[admin, '/health'], [ingress, '/restate/health']]) {
  while (!(await call(port, path).then((r) => r.ok, () => false))) await sleep(20);
}
if (!known) {
  const resp = await call(admin, '/deployments', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ uri: `http://127.0.0.1:${service}` }),
  });
  if (!resp.ok) throw new Error(`the server refused the service: ${resp.status} ${await resp.text()}`);
}

// The server counts invocations with SQL, and this relays the number.
const counter = createServer(async (_, res) => {
  const resp = await call(admin, '/query', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', Accept: 'application/json' },
    body: JSON.stringify({ query: "SELECT count(*) AS n FROM sys_invocation WHERE status <> 'completed'" }),
  });
  const body = await resp.text();
  res.end(resp.ok ? String(JSON.parse(body).rows[0].n) : body);
}).listen(0, '127.0.0.1', () => {
  const at = `http://127.0.0.1:${ingress}/booking/run`;
  console.log(JSON.stringify({ run: at, send: `${at}/send`, live: `http://127.0.0.1:${counter.address().port}/` }));
});

untilStdinEnds(() => {
  server.removeAllListeners('exit');
  return new Promise((resolve) => {
    server.on('exit', resolve);
    server.kill('SIGTERM');
  });
});
