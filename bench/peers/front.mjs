// The HTTP side of the peers in JavaScript, and the requests of a saga. See main.go for the protocol.
import { createServer } from 'node:http';

// serve takes starts: run(key, trip) resolves at the saga's end, send(key, trip) once it is durable,
// both to its id; live() resolves to the number of sagas that have not ended.
export function serve({ run, send, live }) {
  const routes = {
    '/run': async (req) => JSON.stringify({ id: await run(...(await start(req))), status: 'succeeded' }),
    '/send': async (req) => JSON.stringify({ id: await send(...(await start(req))) }),
    '/live': async () => String(await live()),
  };
  const server = createServer(async (req, res) => {
    try {
      const body = await routes[req.url](req);
      res.writeHead(200, { 'Content-Type': 'application/json' }).end(body);
    } catch (err) {
      console.error(err);
      res.writeHead(500).end(String(err));
    }
  });
  server.listen(0, '127.0.0.1', () => {
    const at = `http://127.0.0.1:${server.address().port}`;
    console.log(JSON.stringify({ run: `${at}/run`, send: `${at}/send`, live: `${at}/live` }));
  });
}

async function start(req) {
  let body = '';
  for await (const chunk of req) body += chunk;
  return [req.headers['idempotency-key'], JSON.parse(body).input.trip];
}

// untilStdinEnds calls end when the program that started this one has ended, or wants it to end.
export function untilStdinEnds(end = () => {}) {
  process.stdin.resume();
  process.stdin.on('end', async () => {
    await end();
    process.exit(0);
  });
}

// steps are the requests of a saga.
export const steps = [
  ['flight', 'seat'],
  ['hotel', 'room'],
  ['car', 'car'],
];

// book makes one of them, and resolves to the effect's id.
export async function book(id, name, item, trip) {
  const resp = await fetch(`${process.env.STUB_URL}/do/${name}`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'Idempotency-Key': `${id}-${name}` },
    body: JSON.stringify({ trip, item }),
  });
  const body = await resp.json();
  if (resp.status !== 201) throw new Error(`${name}: status ${resp.status}`);
  return body.id;
}
