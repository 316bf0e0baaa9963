// A small server with mcp-handler 2.4.0: webhook subscriptions kept in memory,
// deliveries signed by standardwebhooks 1.1.1.
//
//   node handler.mjs --ca FILE [--ttl MS] [--refuse-every N] [--attempts N]
//                    [--retry MS] [--forge-every N] [--port N] [--control-port N] [--until-eof]
//
// --ca is the certificate of the callbacks. --ttl (3600000) is what is granted when
// nothing is asked for, and the least. --refuse-every refuses every N-th attempt at a
// new subscription with ResourceExhausted. A delivery that fails is tried again after
// --retry (50), at most --attempts (20) times in all, and never after 410 or 413. A changed
// secret signs beside the old one for two seconds. --forge-every sends, before every
// N-th delivery, four copies with one byte changed: of the body, the id, the time, the
// signature. Any bearer token is a principal.
//
// The first line is JSON: {"url": MCP endpoint, "control": URL}. The control endpoint:
//   POST /publish {"name", "data"}  delivers to the subscriptions whose arguments the
//                                   data holds -> {"eventId", "subscriptions"}
//   GET  /stats   {"published", "subscribed", "refreshed", "removed", "refused",
//                  "expired", "rotated", "live", "verifications", "verified",
//                  "attempts", "delivered", "failed": {HTTP status or error: count},
//                  "abandoned", "queued", "forged": {HTTP status: count},
//                  "requests": by method}

import { readFileSync } from 'node:fs';
import https from 'node:https';
import { randomUUID } from 'node:crypto';
import { fromJsonSchema, ProtocolError } from '@modelcontextprotocol/server';
import { createMcpHandler, experimental_registerMcpEvents, withMcpAuth } from 'mcp-handler';
import { Webhook } from 'standardwebhooks';
import { bridge, control, flags, listen, newStats, readBody, untilEOF } from './lib.mjs';

const options = flags({
  ca: { type: 'string' },
  ttl: { type: 'string', default: '3600000' },
  'refuse-every': { type: 'string', default: '0' },
  attempts: { type: 'string', default: '20' },
  retry: { type: 'string', default: '50' },
  'forge-every': { type: 'string', default: '0' },
});
const ttl = Number(options.ttl);
const refuseEvery = Number(options['refuse-every']);
const grace = 2000; // how long the former secret signs too
const stats = {
  published: 0, subscribed: 0, refreshed: 0, removed: 0, refused: 0, expired: 0, rotated: 0, live: 0,
  verifications: 0, verified: 0, attempts: 0, delivered: 0, failed: {}, abandoned: 0, queued: 0, forged: {},
};
const http = newStats(); // counts the requests

const agent = new https.Agent({ ca: readFileSync(options.ca), keepAlive: true, maxSockets: 64 });
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// post posts a signed message and returns the status and the body. change, if given,
// changes the message after it was signed.
async function post(subscription, id, message, change = (m) => m) {
  const body = JSON.stringify(message);
  const now = new Date();
  const secrets = [subscription.secret];
  if (subscription.former && subscription.former.until > Date.now()) secrets.push(subscription.former.secret);
  const signature = secrets.map((s) => new Webhook(s).sign(id, now, body)).join(' ');
  const m = change({ id, time: String(Math.floor(now / 1000)), signature, body });
  const request = https.request(subscription.url, {
    method: 'POST',
    agent,
    headers: {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(m.body),
      'webhook-id': m.id,
      'webhook-timestamp': m.time,
      'webhook-signature': m.signature,
      'x-mcp-subscription-id': subscription.id,
    },
  });
  const answer = await new Promise((resolve, reject) => {
    request.on('response', resolve);
    request.on('error', reject);
    request.end(m.body);
  });
  return { status: answer.statusCode, body: (await readBody(answer)).toString() };
}

// The subscriptions by id. A live one has a queue, which is sent one by one.
const live = new Map();

async function drain(subscription) {
  if (subscription.busy) return;
  subscription.busy = true;
  while (subscription.queue.length > 0) {
    await deliver(subscription, subscription.queue.shift());
    stats.queued--;
  }
  subscription.busy = false;
}

// A change of one byte each. A signature beside it would still be right, so that the
// first is the only one left.
const replaceLast = (text, from, to) => text.slice(0, text.lastIndexOf(from)) + to + text.slice(text.lastIndexOf(from) + 1);
const flip = (text) => text.slice(0, -2) + (text.at(-2) === 'A' ? 'B' : 'A') + text.at(-1);
const alone = (m) => ({ ...m, signature: m.signature.split(' ')[0] });
const forgeries = [
  (m) => ({ ...m, body: replaceLast(m.body, '}', ' ') }),
  (m) => ({ ...m, id: flip(m.id) }),
  (m) => ({ ...m, time: String(Number(m.time) - 1) }),
  (m) => ({ ...alone(m), signature: flip(alone(m).signature) }),
];
const forgeEvery = Number(options['forge-every']);
let deliveries = 0;

async function forge(subscription, event) {
  for (const change of forgeries) {
    const { status } = await post(subscription, event.eventId, event, change);
    stats.forged[status] = (stats.forged[status] ?? 0) + 1;
  }
}

async function deliver(subscription, event) {
  if (forgeEvery > 0 && ++deliveries % forgeEvery === 0) await forge(subscription, event);
  for (let attempt = 1; live.get(subscription.id) === subscription; attempt++) {
    stats.attempts++;
    let outcome;
    try {
      outcome = (await post(subscription, event.eventId, event)).status;
    } catch (error) {
      outcome = error.code ?? error.message;
    }
    if (outcome >= 200 && outcome < 300) {
      stats.delivered++;
      return;
    }
    stats.failed[outcome] = (stats.failed[outcome] ?? 0) + 1;
    if (outcome === 410 || outcome === 413 || attempt >= Number(options.attempts)) {
      stats.abandoned++;
      return;
    }
    await pause(Number(options.retry));
  }
}

function end(subscription, count) {
  clearTimeout(subscription.timer);
  live.delete(subscription.id);
  stats.live = live.size;
  stats.queued -= subscription.queue.length;
  subscription.queue = [];
  stats[count]++;
}

let tries = 0; // at new subscriptions
const operations = new Map(); // the newest operation of each key
const subscriptions = {
  async prepare(key) {
    if (!live.has(key.id) && refuseEvery > 0 && ++tries % refuseEvery === 0) {
      stats.refused++;
      throw new ProtocolError(-32013, 'Too many subscriptions', { limit: 'subscriptions' });
    }
    const operation = randomUUID();
    operations.set(key.id, operation);
    return operation;
  },
  async upsert(granted, _, operation) {
    // Of two subscribes at once both stand: they name the same subscription.
    if (!operations.has(granted.id) && !live.has(granted.id)) throw new Error('it was removed meanwhile');
    if (operations.get(granted.id) === operation) operations.delete(granted.id);
    let subscription = live.get(granted.id);
    if (subscription) {
      stats.refreshed++;
      clearTimeout(subscription.timer);
      if (subscription.secret !== granted.secret) {
        stats.rotated++;
        subscription.former = { secret: subscription.secret, until: Date.now() + grace };
      }
      Object.assign(subscription, granted);
    } else {
      stats.subscribed++;
      subscription = { ...granted, queue: [], busy: false };
      live.set(granted.id, subscription);
      stats.live = live.size;
    }
    subscription.timer = setTimeout(() => end(subscription, 'expired'), Date.parse(granted.refreshBefore) - Date.now());
    return { cursor: null, truncated: false };
  },
  async remove(key) {
    const pending = operations.delete(key.id);
    const subscription = live.get(key.id);
    if (subscription) end(subscription, 'removed');
    return pending || subscription !== undefined;
  },
};

const delivery = {
  async verifyEndpoint(target) {
    stats.verifications++;
    const challenge = randomUUID();
    try {
      const answer = await post(target, `msg_verification_${randomUUID()}`, { type: 'verification', challenge });
      if (answer.status >= 400) return { verified: false, reason: answer.status >= 500 ? 'http_5xx' : 'http_4xx' };
      if (JSON.parse(answer.body).challenge !== challenge) return { verified: false, reason: 'challenge_failed' };
    } catch {
      return { verified: false, reason: 'connection_refused' };
    }
    stats.verified++;
    return { verified: true };
  },
};

const text = { type: 'string' };
const handler = withMcpAuth(
  createMcpHandler(
    (server) =>
      experimental_registerMcpEvents(server, {
        getPrincipal: (auth) => auth.clientId,
        events: [
          {
            name: 'chat.message',
            description: 'A message was posted to a channel.',
            inputSchema: fromJsonSchema({ type: 'object', properties: { channel: text }, additionalProperties: false }),
            payloadSchema: fromJsonSchema({ type: 'object', properties: { channel: text, text }, required: ['channel'] }),
            authorize: () => true,
          },
        ],
        subscriptions,
        delivery,
        ttl: { minMs: ttl, defaultMs: ttl, maxMs: Math.max(ttl, 86_400_000) },
      }),
    { serverInfo: { name: 'handler', version: '2.4.0' } },
  ),
  (_, token) => (token ? { token, clientId: token, scopes: [] } : undefined),
  { required: true },
);

let events = 0;
function publish({ name, data }) {
  const event = { eventId: `evt_${++events}`, name, timestamp: new Date().toISOString(), data, cursor: null };
  stats.published++;
  let count = 0;
  for (const subscription of live.values()) {
    const wanted = Object.entries(subscription.arguments).every(([key, value]) => data[key] === value);
    if (subscription.name !== name || !wanted) continue;
    count++;
    stats.queued++;
    subscription.queue.push(event);
    drain(subscription);
  }
  return { eventId: event.eventId, subscriptions: count };
}

const url = await listen(options.port, (i, o) => bridge(handler, http, i, o));
const snapshot = () => ({ ...stats, requests: http.requests });
console.log(JSON.stringify({ url: `${url}/mcp`, control: await control(options['control-port'], snapshot, { publish }) }));
untilEOF(options['until-eof']);
