// Sessions of agents, sagas and workers of a recourse server: no dependencies, Node 20 or later. See README.md.

import { randomBytes, randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import process from 'node:process'
import { setTimeout as sleep } from 'node:timers/promises'

/** The exit code by which `recourse agent run` runs the process again once a decision has come. */
export const PARKED = 75
const WAIT = 30_000 // that a request waits for an end; all times are in milliseconds

// The views of the API. TestSDKTypes writes them from api/openapi.yaml.
export interface Failure {
  code: string; title: string; detail?: string;
}
export interface Reason {
  code: 'step_failed' | 'cancelled' | 'timeout' | 'budget_exhausted' | 'rejected' | 'stale' | 'operator'; step?: string; error?: string;
  title: string; detail?: string;
}
export interface Residue {
  path: string; why: string;
}
export interface Cost {
  currency?: string; spent: string; reserved: string; budget?: string;
}
export interface Saga {
  id: string; definition: string; version: string;
  status: 'running' | 'waiting' | 'paused' | 'compensating' | 'stuck' | 'succeeded' | 'compensated' | 'failed'; reason?: Reason; input?: unknown;
  output?: unknown; labels: Record<string, string>; cost: Cost; residual?: Residue[]; doubts?: Residue[]; open?: string[]; parent?: string;
  created_at: string; ended_at?: string; seq: number;
}
export interface JournalRecord {
  seq: number; at: string; kind: string; path?: string; way?: 'do' | 'undo'; attempt?: number; generation?: number; key?: string;
  class?: 'succeeded' | 'refused' | 'transient' | 'in_doubt' | 'held'; node: string; data?: unknown; hash: string;
}
export interface Task {
  id: string; type: string; saga: string; step: string; attempt: number; way: 'do' | 'undo'; key: string; input: unknown; lease: string;
  lease_until: string; lease_ms: number; deadline: string; traceparent?: string;
}
export interface Call {
  path: string; action: string; status: 'running' | 'waiting' | 'succeeded' | 'failed' | 'in_doubt' | 'undone'; replayed: boolean; key: string;
  input: unknown; output?: unknown; error?: Failure; cost: string; waits_for?: 'approval' | 'repeat' | 'doubt' | 'budget' | 'credentials';
  inbox?: string; undo: 'available' | 'none' | 'running' | 'done'; unread?: boolean;
}
export interface OwnStep {
  id: string; path: string; status: 'running' | 'waiting' | 'succeeded' | 'failed' | 'in_doubt' | 'undone'; attempt: number; key: string;
  effect: 'none' | 'undoable' | 'irreversible'; input: unknown; output?: unknown; error?: Failure; cost: string;
  waits_for?: 'approval' | 'doubt' | 'budget' | 'credentials'; inbox?: string; undo: 'available' | 'none' | 'running' | 'done'; unread?: boolean;
}
export interface SessionView {
  id: string; definition: string; status: 'running' | 'waiting' | 'paused' | 'compensating' | 'stuck' | 'succeeded' | 'compensated' | 'failed';
  output?: unknown; cost: Cost; residual?: Residue[];
}
export interface Attached {
  life: number; resumed: boolean; lease_ms: number; llm: { openai: string; anthropic: string; }; mcp: string;
}
// The end of the views.

/** The server refuses a request. `code` is stable, and `detail` says what to do: docs/errors.md lists the codes. */
export class Problem extends Error {
  readonly code: string
  readonly title: string
  readonly detail: string
  readonly errors: { pointer?: string; code: string; detail: string }[]
  readonly temporary: boolean
  constructor(readonly status: number, body: any, readonly retryAfter = 0) {
    const code = String(body?.type ?? '').split(':').at(-1)!
    super(`${body?.title ?? 'HTTP error'}: ${body?.detail ?? ''} (HTTP ${status}, ${code})`)
    this.name = 'Problem'
    this.code = code
    this.title = body?.title ?? ''
    this.detail = body?.detail ?? ''
    this.errors = body?.errors ?? []
    const unreadable = code === 'definition_unusable' || code === 'journal_unreadable'
    this.temporary = (status >= 500 && !unreadable) || status === 408 || status === 429 || code === 'key_in_flight'
  }
}

/** A call or an own step has ended without success. `status` is failed (no effect), in_doubt or undone; `view` is the whole of it. */
export class Unsuccessful extends Error {
  readonly status: string
  readonly code: string
  readonly detail: string
  constructor(readonly view: Call | OwnStep, cause?: unknown) {
    super(`${view.path}: ${view.status} ${view.error?.code ?? ''} ${view.error?.title ?? ''} ${view.error?.detail ?? ''}`.trimEnd(), { cause })
    this.name = 'Unsuccessful'
    this.status = view.status
    this.code = view.error?.code ?? ''
    this.detail = view.error?.detail ?? ''
  }
}

/** A person has not decided within `patience`. If `session.run` ends by it, `recourse agent run` runs the process again later. */
export class Waits extends Error {}

/** Throw it in `session.run` to undo what the session has done. */
export class Abort extends Error {}

/** Throw it in an own step or a task to say that it certainly had no effect. After any other error it is in doubt. */
export class Refused extends Error {
  constructor(readonly code: string, readonly detail: string, readonly retryable = false) {
    super(detail)
  }
}

/** What an own step or a task gets. `key` is the idempotency key for its requests; all its attempts have the same one. */
export class Work {
  readonly key: string
  readonly attempt: number
  readonly input: any
  cost?: string // set it to what the work has cost, such as "0.02"
  readonly lost = new AbortController() // its signal, of a task: another worker may do it now, so stop
  readonly unwanted = new AbortController() // its signal, of a task: the saga does not need it any longer
  constructor(readonly view: OwnStep | Task) {
    this.key = view.key
    this.attempt = view.attempt
    this.input = view.input
  }
}

type Undo = { use: string; with?: unknown }
type Do = (work: Work) => unknown
interface Sending { headers?: Record<string, string>; stop?: AbortSignal; giveUp?: number; timeout?: number }

const holder = () => `${hostname()}:${process.pid}`
const lasting = (error: unknown) => error instanceof Problem && !error.temporary
const settled = (status: string) => status !== 'running' && status !== 'waiting'

/**
 * Requests to a server. While it is away or busy they are repeated with the same keys, so that nothing takes effect twice. `key` is an API
 * key. After `giveUp` without an answer a request fails with its last error; by default it goes on.
 */
export class Client {
  readonly url: string
  private own: Record<string, string> = { 'Content-Type': 'application/json' } // the headers of each request

  /** Throws a TypeError if the URL is not one of a server, or the key cannot be in a header. */
  constructor(url = process.env.RECOURSE_SERVER ?? 'http://127.0.0.1:8080', key = process.env.RECOURSE_API_KEY ?? '', private giveUp = Infinity) {
    const at = new URL(url)
    if (!/^https?:$/.test(at.protocol)) throw new TypeError(`${at.protocol} is no scheme of a server: write a URL such as http://127.0.0.1:8080`)
    this.url = at.href.replace(/\/+$/, '')
    if (key.trim()) this.own.Authorization = `Bearer ${key.trim()}`
    new Headers(this.own)
  }

  private async fetch(method: string, path: string, body: string | undefined, headers: Headers, signal: AbortSignal): Promise<Response> {
    const answer = await fetch(this.url + path, { method, body, headers, signal, redirect: 'manual' }) // another host must not get the token
    if (answer.ok) return answer
    const said = await answer.json().catch(() => undefined)
    const asked = answer.headers.get('Retry-After') ?? '' // seconds or a date: RFC 9110, section 10.2.3
    const seconds = (/^\d+$/.test(asked) ? Number(asked) : (Date.parse(asked) - Date.now()) / 1000) || 0
    throw new Problem(answer.status, said, 1000 * Math.min(Math.max(seconds, 0), 24 * 3600)) // a longer one is an outage
  }

  /** Repeats a request until it gets a response, or a refusal that a repetition does not change. */
  async request(method: string, path: string, body?: unknown, { headers = {}, stop, giveUp = this.giveUp, timeout = WAIT + 15_000 }: Sending = {}): Promise<any> {
    const data = body === undefined ? undefined : JSON.stringify(body)
    const all = new Headers({ ...this.own, ...headers })
    const until = performance.now() + giveUp
    for (let pause = 100, inFlight = 0; ; pause = Math.min(2 * pause, 5000)) {
      try {
        const answer = await this.fetch(method, path, data, all, AbortSignal.timeout(Math.ceil(timeout))) // it takes whole numbers only
        const said = await answer.text()
        return said && !answer.headers.get('Content-Type')?.startsWith('text/plain') ? JSON.parse(said) : said
      } catch (error) {
        // The key is in flight for minutes if its server has died.
        if (error instanceof Problem && error.code === 'key_in_flight') inFlight++
        const retryAfter = error instanceof Problem ? error.retryAfter : 0 // the server wants no request before that
        if (lasting(error) || performance.now() + retryAfter > until || (stop && (stop.aborted || inFlight > 3))) throw error
        if (pause === 200 || retryAfter > 5000) process.emitWarning(`trying again: ${method} ${path}: ${error}`)
        if (retryAfter) await sleep(retryAfter, undefined, { signal: stop }).catch(() => Promise.reject(error))
      }
      await sleep(pause / 2 + Math.random() * (pause / 2))
    }
  }

  /** Starts a saga; with the same `key`, the same saga. `more` has version, labels or budget. */
  start(definition: string, input?: unknown, { key = randomUUID() as string, ...more }: { key?: string; [field: string]: unknown } = {}): Promise<Saga> {
    return this.request('POST', '/v1/sagas', { definition, input, ...more }, { headers: { 'Idempotency-Key': key } })
  }

  get(saga: string): Promise<Saga> {
    return this.request('GET', `/v1/sagas/${saga}`)
  }

  /** Waits for the end of a saga, for at most `timeout`, and returns the saga as it is then. */
  async wait(saga: string, timeout = Infinity): Promise<Saga> {
    for (const until = performance.now() + timeout; ; ) {
      const rest = Math.min(WAIT, until - performance.now())
      const view: Saga = await this.request('GET', `/v1/sagas/${saga}`, undefined, { headers: rest >= 1000 ? { Prefer: `wait=${Math.round(rest / 1000)}` } : {} })
      if (['succeeded', 'compensated', 'failed'].includes(view.status) || rest <= 0) return view
    }
  }

  /** Yields the records of a saga's journal after the record `after` as they come, until its end. */
  async *watch(saga: string, after = 0): AsyncGenerator<JournalRecord> {
    let until = Infinity
    for (let pause = 100; ; pause = Math.min(2 * pause, 5000)) {
      let retryAfter = 0
      const leave = new AbortController()
      const silence = setTimeout(() => leave.abort(), 60_000) // the server sends a comment every 15 s
      try {
        const headers = new Headers({ ...this.own, Accept: 'text/event-stream', 'Last-Event-ID': String(after) })
        const answer = await this.fetch('GET', `/v1/sagas/${saga}/journal`, undefined, headers, leave.signal)
        if (answer.status === 204) return // there are no more
        until = Infinity
        let text = ''
        for await (const part of answer.body!.pipeThrough(new TextDecoderStream())) {
          const lines = (text + part).split('\n')
          text = lines.pop()!
          for (const line of lines) {
            if (!line.startsWith('data:')) continue
            const record: JournalRecord = JSON.parse(line.slice(5))
            after = record.seq
            pause = 100
            yield record
          }
          silence.refresh()
        }
      } catch (error) {
        until = Math.min(until, performance.now() + this.giveUp)
        if (lasting(error) || performance.now() >= until) throw error
        if (error instanceof Problem) retryAfter = error.retryAfter
      } finally {
        clearTimeout(silence)
        leave.abort()
      }
      await sleep(Math.max(pause / 2 + Math.random() * (pause / 2), retryAfter))
    }
  }

  /** Opens a session, or finds that of `key`, and attaches to it. `more` has key, input, budget and other fields of docs/agents.md. */
  async open(name: string, actions: string[], more: { key?: string; [field: string]: unknown } = {}): Promise<Session> {
    const headers: Record<string, string> = more.key === undefined ? { 'Idempotency-Key': randomUUID() } : {}
    const view = await this.request('POST', '/v1/sessions', { name, actions, ...more }, { headers })
    return this.attach(view.id)
  }

  /** Attaches this process to a session. If another one is attached, it waits for up to `patience` for the end of its lease. */
  async attach(session: string, patience = 32_000): Promise<Session> {
    const secret = randomBytes(32).toString('base64url') // repeated with the same secret, it is the same life
    const attach = (more: Sending = {}): Promise<Attached> => this.request('POST', `/v1/sessions/${session}/attach`, { holder: holder(), secret }, more)
    for (const until = performance.now() + patience; ; await sleep(1000)) {
      const began = performance.now()
      try {
        const { life, lease_ms } = await attach()
        return new Session(new Client(this.url, `rst_${session.replaceAll('-', '')}_${secret}`, this.giveUp), session, life, attach, lease_ms, began)
      } catch (error) {
        if (!(error instanceof Problem && error.code === 'session_held') || performance.now() > until) throw error
      }
    }
  }

  /** Does the work of `task` steps until `stop` is aborted and the tasks at hand have ended. `work` returns the output of a task. */
  async work(types: string[], work: Do, { parallel = 1, stop = new AbortController().signal }: { parallel?: number; stop?: AbortSignal } = {}): Promise<void> {
    JSON.stringify(types) // it throws here, and not with each claim
    const refused = new AbortController()
    const over = AbortSignal.any([stop, refused.signal])
    const loop = async () => {
      while (!over.aborted) {
        try { // all tries of a claim have one key, so that the tasks in a lost response are not lost
          const sent = { headers: { 'Idempotency-Key': randomUUID() }, stop: over }
          const tasks = await this.request('POST', '/v1/tasks/claim', { types, worker: holder(), wait: '10s' }, sent)
          for (const task of tasks?.data ?? []) await this.do(task, work)
        } catch (error) {
          if (!lasting(error)) continue
          refused.abort()
          throw error
        }
      }
    } // the tasks at hand end before the worker does
    const ends = await Promise.allSettled(Array.from({ length: parallel }, loop))
    for (const end of ends) if (end.status === 'rejected') throw end.reason
  }

  private async do(task: Task, work: Do): Promise<void> {
    const at = `/v1/tasks/${task.id}`
    const mine = new Work(task)
    const done = new AbortController()
    const lease = task.lease_ms
    // left is the time from the end of a lease to the deadline, by the server's clock.
    const left = (until: string) => Date.parse(task.deadline) - Date.parse(until)
    let renewed = performance.now() // which no change of the clock moves
    let deadline = renewed + lease + left(task.lease_until)
    let until = Math.min(renewed + lease, deadline)
    const beat = async (giveUp: number) => {
      const began = performance.now()
      const timeout = Math.max(Math.min(lease / 3, until - began), 10)
      const said = await this.request('POST', `${at}/heartbeat`, { lease: task.lease }, { giveUp, timeout })
      deadline = Math.min(deadline, began + lease + left(said.lease_until))
      renewed = began
      until = Math.min(began + lease, deadline)
      if (said.cancel) mine.unwanted.abort()
    }
    try {
      await beat(lease) // the claim may have come late, and another worker may have the task
    } catch (error) {
      return process.emitWarning(`the work of task ${task.id} does not begin: ${error}`)
    }
    const rest = (pause: number) => sleep(Math.min(pause, 2 ** 31 - 1), undefined, { ref: false, signal: done.signal })
    const keep = async () => {
      while (!mine.lost.signal.aborted) {
        await rest(Math.max(renewed + lease / 3 - performance.now(), lease / 10))
        await beat(0).catch(error => lasting(error) && mine.lost.abort())
      }
    }
    const watch = async () => { // a heartbeat may hang until after the end of the lease
      while (performance.now() < until) await rest(until - performance.now())
      mine.lost.abort()
    }
    for (const run of [keep, watch]) run().catch(() => {}) // done has ended the pause
    let [how, end] = ['complete', {} as Record<string, unknown>]
    try {
      if (mine.unwanted.signal.aborted) throw new Refused('unwanted', 'the saga no longer needs the work', true)
      end.output = (await work(mine)) ?? null
      JSON.stringify(end)
    } catch (error) {
      how = 'fail'
      if (error instanceof Refused) end = { error: { code: error.code, detail: error.detail }, retryable: error.retryable || undefined }
      else end = { error: { code: 'task_failed', detail: String(error) }, in_doubt: true }
    }
    try {
      await this.request('POST', `${at}/${how}`, { ...end, lease: task.lease, cost: mine.cost }, { stop: mine.lost.signal })
    } catch (error) {
      process.emitWarning(`the end of task ${task.id} is not recorded, and its lease will end: ${error}`)
    } finally {
      done.abort()
    }
  }
}

/** A session that this process is attached to. */
export class Session {
  /** Its signal is aborted when the session has ended, or another process has followed, or may follow: no heartbeat had a response for a whole lease. */
  readonly over = new AbortController()
  private quit = new AbortController()

  constructor(private client: Client, readonly id: string, readonly life: number, private again?: (more: Sending) => Promise<Attached>, lease = 0, began = 0) {
    if (again) this.beat(lease, began + lease).catch(() => {}) // quit has ended the pause
  }

  /** Runs an agent: commits the session at its end. Abort undoes the session; after Waits, `recourse agent run` runs the process again. */
  async run(agent: () => Promise<unknown>): Promise<void> {
    try {
      await agent()
      if (!this.quit.signal.aborted) await this.commit()
    } catch (error) {
      if (error instanceof Abort) return await this.abort(error.message)
      if (error instanceof Waits && !this.again) await this.park()
      throw error
    } finally {
      await this.detach()
    }
  }

  /** The session, with its `input`, `status`, `cost` and `residual`. */
  get(): Promise<SessionView & { input?: any }> {
    return this.request('GET', '')
  }

  /**
   * Calls an action, and waits for its end. A call that was made before has its recorded result. Calls with the same `once` are the same
   * call; without it, docs/agents.md has the rules. Never let a model choose it. `patience` is how long a person has to decide. It throws
   * Unsuccessful, Waits or Problem.
   */
  async call<Output = any>(action: string, input: unknown = null, { once, again, patience = Infinity }: { once?: string; again?: number; patience?: number } = {}): Promise<Call & { output: Output }> {
    const wait = `${Math.round(Math.max(1000, Math.min(WAIT, patience)) / 1000)}s`
    let replayed: boolean | undefined
    for (let until = Infinity; ; ) {
      const view = await this.request('POST', '/calls', { action, input, id: once, again, wait }) // repeated, it is the same call
      view.replayed = replayed ??= view.replayed as boolean
      if (view.status === 'succeeded') return view
      if (settled(view.status)) throw new Unsuccessful(view)
      if (!view.waits_for) continue // what the service needs after a decision does not count
      if (until === Infinity) until = performance.now() + patience
      if (performance.now() >= until) throw new Waits(`${view.path} waits for ${view.waits_for}`)
    }
  }

  /**
   * Does an own step unless it is done, and returns its output as the journal has it. `undo` is {use: action, with: input}, or a function
   * that makes it from the output. `effect` is none, undoable or irreversible; by default undoable with an `undo`, and irreversible without.
   * `in_doubt` (retry or ask) says what follows if the process dies during the step. It throws Unsuccessful, Waits, Problem, and what `work`
   * throws, unless that is Refused.
   */
  async step<Output = any>(
    id: string,
    work: (work: Work) => Output | Promise<Output>,
    { undo, effect = undo ? 'undoable' : 'irreversible', patience = Infinity, ...more }: { undo?: Undo | ((output: Output) => Undo); effect?: OwnStep['effect']; in_doubt?: 'retry' | 'ask'; input?: unknown; reserve?: string; patience?: number } = {},
  ): Promise<Output> {
    const until = performance.now() + patience
    const begin = { id, effect, compensate: typeof undo === 'function' ? undefined : undo, ...more }
    for (;;) {
      let begun
      try {
        begun = await this.request('POST', '/steps', begin, { headers: { 'Idempotency-Key': randomUUID() } })
      } catch (error) {
        if (!(error instanceof Problem && error.code === 'in_doubt')) throw error
        if (performance.now() >= until) throw new Waits(error.detail)
        await sleep(1000)
        continue
      }
      if (begun.decision === 'replay') {
        if (begun.status === 'succeeded') return begun.output
        throw new Unsuccessful(begun)
      }
      const mine = new Work(begun)
      let end: Record<string, unknown>
      let failed: unknown
      try {
        const output = await work(mine)
        end = { status: 'succeeded', output: output ?? null, compensate: typeof undo === 'function' ? undo(output) : undefined }
        JSON.stringify(end)
      } catch (error) {
        failed = error
        if (error instanceof Refused) end = { status: 'failed', error: { code: error.code, detail: error.detail } }
        else end = { status: 'in_doubt', error: String(error) }
      }
      const view = await this.request('POST', `/steps/${id}/finish`, { ...end, attempt: mine.attempt, cost: mine.cost })
      if (view.status === 'succeeded') return view.output
      if (end.status === 'in_doubt') throw failed
      if (view.status === 'failed') throw new Unsuccessful(view, failed) // otherwise an earlier attempt is in doubt
    }
  }

  /** Undoes one call, such as refund[0], or own step, such as own.report, unless it is undone. The session goes on. */
  async undo(path: string, patience = Infinity): Promise<void> {
    const part = path.startsWith('own.') ? `/steps/${path.slice(4)}` : `/calls/${encodeURIComponent(path)}`
    const until = performance.now() + patience
    try {
      await this.request('POST', `${part}/undo`, {})
    } catch (error) {
      if (!(error instanceof Problem && error.code === 'nothing_to_undo') || (await this.request('GET', part)).undo === 'none') throw error
    }
    while ((await this.request('GET', part)).undo !== 'done') {
      if (performance.now() >= until) throw new Waits(`${path} is not undone yet`)
      await sleep(200)
    }
  }

  /** Ends the session once its calls have ended. Only a later undo of all of it can follow, within `undo_within`. */
  async commit(output?: unknown): Promise<void> {
    for (; ; await sleep(500)) {
      try {
        await this.request('POST', '/commit', { output })
        return this.quit.abort()
      } catch (error) {
        if (!(error instanceof Problem && error.code === 'calls_open')) throw error
      }
    }
  }

  /** Ends the session, and undoes its effects in the reverse order. */
  async abort(reason?: string): Promise<void> {
    await this.request('POST', '/abort', { reason: reason || undefined })
    this.quit.abort()
  }

  /** Ends this process. `recourse agent run` runs it again once something that a person decides now has ended. */
  async park(): Promise<never> {
    await this.detach()
    process.exit(PARKED)
  }

  /** Lets another process attach to the session, which goes on. Under `recourse agent run` it does nothing. */
  async detach(): Promise<void> {
    if (!this.again || this.quit.signal.aborted) return
    this.quit.abort()
    await this.client.request('POST', `/v1/sessions/${this.id}/detach`, {}, { giveUp: 0, timeout: 5000 }).catch(() => {}) // then the lease ends
  }

  private async request(method: string, part: string, body?: unknown, more: Sending = {}): Promise<any> {
    const send = () => this.client.request(method, `/v1/sessions/${this.id}${part}`, body, more)
    try {
      return await send()
    } catch (error) {
      if (!(error instanceof Problem && error.code === 'superseded') || !this.again || this.quit.signal.aborted) throw error
    }
    const { stop, giveUp, timeout } = more
    await this.again({ stop, giveUp, timeout }) // the lease has ended. A Problem says that another process has followed
    return send()
  }

  /** Sends heartbeats. After a lease without a response it goes on: the session is this process's again if no other has followed. */
  private async beat(lease: number, until: number): Promise<void> {
    const most = (longest: number) => this.over.signal.aborted ? longest : Math.min(longest, Math.max(until - performance.now(), 10))
    for (let pause = lease / 3; ; ) {
      await sleep(most(pause), undefined, { ref: false, signal: this.quit.signal })
      const began = performance.now()
      if (began >= until) this.over.abort()
      try {
        const said = await this.request('POST', '/heartbeat', {}, { stop: this.quit.signal, giveUp: 0, timeout: most(lease / 3) })
        if (said.stop) return this.over.abort()
        until = began + lease
        pause = lease / 3
      } catch (error) {
        if (this.quit.signal.aborted) return
        pause = lease / 10
        if (!lasting(error)) continue
        process.emitWarning(`the session is lost: ${error}`)
        return this.over.abort()
      }
    }
  }
}

/** The session of this process, which `recourse agent run` has started. */
export function attach(): Session {
  const { RECOURSE_URL, RECOURSE_TOKEN, RECOURSE_SESSION, RECOURSE_LIFE } = process.env
  if (!RECOURSE_URL || !RECOURSE_TOKEN || !RECOURSE_SESSION) throw new Error('there is no session: run this process by `recourse agent run`, or open a session by Client.open')
  return new Session(new Client(RECOURSE_URL, RECOURSE_TOKEN), RECOURSE_SESSION, Number(RECOURSE_LIFE))
}
