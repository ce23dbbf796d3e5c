// booking3 on LangGraph (https://docs.langchain.com/oss/javascript/langgraph): a saga is a thread of
// a graph whose three requests are nodes, with a checkpoint after each of them in Postgres.
import { Annotation, END, START, StateGraph } from '@langchain/langgraph';
import { PostgresSaver } from '@langchain/langgraph-checkpoint-postgres';
import pg from 'pg';
import { book, serve, steps, untilStdinEnds } from '../front.mjs';

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 32 });
const checkpointer = new PostgresSaver(pool);
await checkpointer.setup();

const node = (name, item) => async ({ trip }, config) => ({ [`${name}_id`]: await book(config.configurable.thread_id, name, item, trip) });
const graph = new StateGraph(Annotation.Root({ trip: Annotation(), flight_id: Annotation(), hotel_id: Annotation(), car_id: Annotation() }))
  .addNode('flight', node(...steps[0]))
  .addNode('hotel', node(...steps[1]))
  .addNode('car', node(...steps[2]))
  .addEdge(START, 'flight')
  .addEdge('flight', 'hotel')
  .addEdge('hotel', 'car')
  .addEdge('car', END)
  .compile({ checkpointer });

// With `sync` a checkpoint is stored before the next node starts. The default, `async`, stores it
// while the next one runs: a crash can lose it.
const invoke = (thread_id, input) => graph.invoke(input, { configurable: { thread_id }, durability: 'sync' });

// The library does not continue threads after a crash: the program has to find them, and to invoke
// them again without input. The checkpoint after the last node has step 3.
const unfinished = `SELECT thread_id FROM checkpoints GROUP BY thread_id HAVING max((metadata->>'step')::int) < 3`;
for (const { thread_id } of (await pool.query(unfinished)).rows) {
  invoke(thread_id, null).catch((err) => console.error(thread_id, err));
}

serve({
  run: async (key, trip) => {
    await invoke(key, { trip });
    return key;
  },
  // There is no start that is durable on its own: the first checkpoint is stored a moment later.
  send: async (key, trip) => {
    invoke(key, { trip }).catch((err) => console.error(key, err));
    return key;
  },
  live: async () => (await pool.query(unfinished)).rows.length,
});
untilStdinEnds(() => pool.end());
