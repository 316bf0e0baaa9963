// The client and the receiver of @ai-sdk/mcp 2.0.99, told what to do.
//
//   node ai-sdk.mjs --server URL --token T --cert FILE --key FILE [--until-eof]
//
// It connects to the server at URL and serves callbacks over TLS with that
// certificate. The first line is JSON: {"control": URL}. The control endpoint takes
// and returns JSON; an error of the client is HTTP 400 with {"error"}:
//   POST /list {}                                   -> {"names": of the event types}
//   POST /subscribe {"name", "arguments", "ttlMs"}  -> {"key", "id", "refreshBefore", ...}
//   POST /refresh {"key"}                           -> the same
//   POST /unsubscribe {"key"}                       -> {}
//   POST /hold {"on": true}                         the answers of the next subscribes and
//                                                   refreshes are not stored; {"on": false}
//                                                   stores what is held back
//   POST /patch {"key", "patch": {"ttlMs": 1000}}   changes members of a stored subscription
//   GET  /stats   {"events": [{"key", "eventId", "text"}], "gaps": [...],
//                  "terminations": [...], "answers": {HTTP status: count},
//                  "held": answers held back, "subscriptions": {key: {"status", "cursor",
//                  "truncated"}}}. A challenge is answered 200, all other messages 204.

import { readFileSync } from 'node:fs';
import { createMCPClient, experimental_createMCPEventWebhook } from '@ai-sdk/mcp';
import { control, flags, listen, readBody, toRequest, untilEOF } from './lib.mjs';

const text = { type: 'string', default: '' };
const options = flags({ server: text, token: text, cert: text, key: text });
const stats = { events: [], gaps: [], terminations: [], answers: {}, held: 0, subscriptions: {} };

// The store keeps subscriptions in memory, and can hold back the update that makes one active.
const records = new Map();
let gate = null; // {wait, open} while updates are held back
const store = {
  get: async (key) => records.get(key),
  getById: async (id) => [...records.values()].find((s) => s.id === id),
  set: async (subscription) => void records.set(subscription.key, subscription),
  delete: async (key) => void records.delete(key),
  update: async (key, patch) => {
    if (gate && patch.status === 'active') {
      stats.held++;
      await gate.wait;
      stats.held--;
    }
    if (records.has(key)) records.set(key, { ...records.get(key), ...patch });
  },
};

const keyOf = (subscription) => [...records.values()].find((s) => s.id === subscription.id)?.key;
const receive = experimental_createMCPEventWebhook({
  store,
  onEvent: async ({ subscription, event }) => void stats.events.push({ key: keyOf(subscription), eventId: event.eventId, text: event.data.text }),
  onGap: async ({ subscription, gap }) => void stats.gaps.push({ key: keyOf(subscription), cursor: gap.cursor, after: stats.events.length }),
  onTerminated: async ({ subscription, termination }) => void stats.terminations.push({ key: keyOf(subscription), ...termination.error }),
  onError: (error) => console.error('receiver:', error),
});

const callback = await listen(
  '0',
  async (incoming, outgoing) => {
    const body = await readBody(incoming);
    const response = await receive(toRequest(incoming, body));
    const answer = Buffer.from(await response.arrayBuffer());
    stats.answers[response.status] = (stats.answers[response.status] ?? 0) + 1;
    outgoing.writeHead(response.status, Object.fromEntries(response.headers));
    outgoing.end(answer);
  },
  { cert: readFileSync(options.cert), key: readFileSync(options.key) },
);

const client = await createMCPClient({
  transport: { type: 'http', url: options.server, headers: { Authorization: `Bearer ${options.token}` } },
  experimental_events: { store },
});
const events = client.experimental_events;

const routes = {
  list: async () => ({ names: (await events.list()).events.map((e) => e.name) }),
  async subscribe({ name, arguments: args, ttlMs }) {
    const before = new Set(records.keys());
    const delivery = { mode: 'webhook', url: `${callback}/events` };
    const result = await events.subscribe({ name, arguments: args, ttlMs, delivery });
    return { ...result, key: [...records.keys()].find((k) => !before.has(k)) };
  },
  refresh: async ({ key }) => ({ ...(await events.refresh({ key })), key }),
  unsubscribe: async ({ key }) => void (await events.unsubscribe({ key })),
  patch: ({ key, patch }) => store.update(key, patch),
  async hold({ on }) {
    if (on) {
      let open;
      const wait = new Promise((resolve) => (open = resolve));
      gate = { wait, open };
    } else {
      gate?.open();
      gate = null;
    }
  },
};

function snapshot() {
  stats.subscriptions = Object.fromEntries(
    [...records].map(([key, { status, cursor, truncated }]) => [key, { status, cursor, truncated }]),
  );
  return stats;
}

console.log(JSON.stringify({ control: await control(options['control-port'], snapshot, routes) }));
untilEOF(options['until-eof']);
