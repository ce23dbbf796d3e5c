// booking3 on DBOS (https://docs.dbos.dev/typescript): a saga is a workflow whose three requests
// are steps, in the same process as the application. Its settings are the defaults, but for the size
// of the pool.
import { DBOS } from '@dbos-inc/dbos-sdk';
import { book, serve, steps, untilStdinEnds } from '../front.mjs';

async function bookingFunction(trip) {
  for (const [name, item] of steps) {
    await DBOS.runStep(() => book(DBOS.workflowID, name, item, trip), { name });
  }
}
const booking = DBOS.registerWorkflow(bookingFunction, { name: 'booking' });

DBOS.setConfig({
  name: 'booking3',
  systemDatabaseUrl: process.env.DATABASE_URL,
  systemDatabasePoolSize: 32, // 10 by default
  applicationVersion: '1', // a restarted process recovers the workflows of its own version
  logLevel: 'warn',
});
await DBOS.launch();

const start = (key, trip) => DBOS.startWorkflow(booking, { workflowID: key })(trip);
serve({
  run: async (key, trip) => {
    await (await start(key, trip)).getResult();
    return key;
  },
  send: async (key, trip) => (await start(key, trip)).workflowID,
  live: async () => (await DBOS.listWorkflows({ status: 'PENDING' })).length,
});
untilStdinEnds(() => DBOS.shutdown());
