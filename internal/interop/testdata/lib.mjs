// What the servers of this folder share: their flags, a bridge from node:http to
// handlers of Request and Response that counts what goes out, and the control
// endpoint. The tests and the first lines of each server say how it is used.

import http from 'node:http';
import https from 'node:https';
import { randomUUID } from 'node:crypto';
import { parseArgs } from 'node:util';

// flags reads the flags of a server. Unknown flags end the process.
export function flags(more = {}) {
  const { values } = parseArgs({
    options: {
      port: { type: 'string', default: '0' }, // of the MCP endpoint; 0 is any
      'control-port': { type: 'string', default: '0' },
      'until-eof': { type: 'boolean', default: false }, // end when standard input ends
      ...more,
    },
  });
  return values;
}

// untilEOF ends the process with its standard input, so that it does not
// outlive the program that started it.
export function untilEOF(on) {
  if (!on) return;
  process.stdin.on('end', () => process.exit(0));
  process.stdin.resume();
}

const methods = {
  resourceUpdated: '"method":"notifications/resources/updated"',
  resourceListChanged: '"method":"notifications/resources/list_changed"',
  toolListChanged: '"method":"notifications/tools/list_changed"',
};

// newStats returns the counts of a server. "sent" is what was handed to a
// connection, message by message; it trails a change by the time of a write.
export function newStats() {
  return {
    updates: 0,
    changes: 0,
    subscribed: 0,
    unsubscribed: 0,
    sessions: 0,
    forgotten: 0,
    openStreams: 0,
    peakStreams: 0,
    requests: {},
    refused: 0,
    sent: { resourceUpdated: 0, resourceListChanged: 0, toolListChanged: 0 },
  };
}

// countSent counts the notifications in a piece of output. The SDKs write whole
// messages.
export function countSent(stats, text) {
  for (const [name, method] of Object.entries(methods)) {
    for (let at = text.indexOf(method); at >= 0; at = text.indexOf(method, at + method.length)) stats.sent[name]++;
  }
}

// countRequests counts the calls of a body by method.
function countRequests(stats, body) {
  let message;
  try {
    message = JSON.parse(body);
  } catch {
    return;
  }
  for (const m of Array.isArray(message) ? message : [message]) {
    if (m?.method) stats.requests[m.method] = (stats.requests[m.method] ?? 0) + 1;
  }
}

export async function readBody(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  return Buffer.concat(parts);
}

// toRequest makes a Request of a request of node:http.
export function toRequest(incoming, body, signal) {
  const headers = new Headers();
  for (const [name, value] of Object.entries(incoming.headers)) {
    for (const v of Array.isArray(value) ? value : [value]) headers.append(name, v);
  }
  const bare = incoming.method === 'GET' || incoming.method === 'HEAD' || body.length === 0;
  return new Request(`http://${incoming.headers.host}${incoming.url}`, {
    method: incoming.method,
    headers,
    body: bare ? undefined : body,
    signal,
  });
}

// bridge answers a request of node:http by a handler of Request and Response.
export async function bridge(handler, stats, incoming, outgoing) {
  const gone = new AbortController();
  outgoing.on('close', () => gone.abort());
  const body = await readBody(incoming);
  countRequests(stats, body);
  const response = await handler(toRequest(incoming, body, gone.signal));
  if (response.status >= 400) stats.refused++;
  outgoing.writeHead(response.status, Object.fromEntries(response.headers));
  if (!response.body) {
    outgoing.end();
    return;
  }
  const stream = response.headers.get('content-type')?.startsWith('text/event-stream');
  outgoing.flushHeaders();
  if (stream) stats.peakStreams = Math.max(stats.peakStreams, ++stats.openStreams);
  const reader = response.body.getReader();
  outgoing.on('close', () => reader.cancel().catch(() => {}));
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done || outgoing.destroyed) break;
      countSent(stats, Buffer.from(value).toString());
      if (!outgoing.write(value)) await Promise.race([once(outgoing, 'drain'), once(outgoing, 'close')]);
    }
  } catch {
    // The reader went away.
  } finally {
    if (stream) stats.openStreams--;
    outgoing.end();
  }
}

function once(emitter, event) {
  return new Promise((resolve) => emitter.once(event, resolve));
}

// listen serves a handler of node:http and returns its address. tls, if given, is
// {cert, key} in PEM.
export async function listen(port, handler, tls) {
  const server = (tls ? https : http).createServer(tls ?? {}, (incoming, outgoing) => {
    Promise.resolve(handler(incoming, outgoing)).catch((error) => {
      console.error(error);
      if (!outgoing.headersSent) outgoing.writeHead(500);
      outgoing.end();
    });
  });
  server.requestTimeout = 0;
  server.keepAliveTimeout = 60_000;
  await new Promise((resolve) => server.listen({ port: Number(port), host: '127.0.0.1', backlog: 4096 }, resolve));
  return `${tls ? 'https' : 'http'}://127.0.0.1:${server.address().port}`;
}

// control serves the control endpoint: POST calls routes[path] with the JSON
// body, and GET /stats returns the counts.
export function control(port, stats, routes) {
  return listen(port, async (incoming, outgoing) => {
    const body = await readBody(incoming);
    const reply = (status, value) => {
      outgoing.writeHead(status, { 'content-type': 'application/json' });
      outgoing.end(JSON.stringify(value) + '\n');
    };
    if (incoming.method === 'GET' && incoming.url === '/stats') {
      reply(200, typeof stats === 'function' ? stats() : stats);
      return;
    }
    const route = routes[incoming.url.slice(1)];
    if (incoming.method !== 'POST' || !route) {
      reply(404, { error: `no ${incoming.method} ${incoming.url}; there are GET /stats and POST /${Object.keys(routes).join(', /')}` });
      return;
    }
    try {
      reply(200, (await route(body.length ? JSON.parse(body) : {})) ?? {});
    } catch (error) {
      reply(400, { error: String(error.message ?? error) });
    }
  });
}

// Sessions serves the 2025 transport: one server and one transport of the SDK
// for each session, found by its id. options makes further ones of a transport.
export class Sessions {
  constructor(Transport, newSession, stats, options = () => ({})) {
    Object.assign(this, { Transport, newSession, stats, options, open: new Map() });
  }

  fetch = async (request) => {
    const id = request.headers.get('mcp-session-id');
    const known = id && this.open.get(id);
    if (known) return known.transport.handleRequest(request);
    if (id) return Response.json({ jsonrpc: '2.0', id: null, error: { code: -32001, message: 'Session not found' } }, { status: 404 });
    const session = this.newSession();
    const transport = new this.Transport({
      ...this.options(),
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (given) => {
        session.id = given;
        this.open.set(given, session);
        this.stats.sessions++;
      },
    });
    session.transport = transport;
    transport.onclose = () => this.open.delete(session.id);
    await session.mcp.connect(transport);
    return transport.handleRequest(request);
  };

  // forget drops the oldest sessions, as a restart behind a load balancer does:
  // their requests are answered 404 from now on. Their streams are closed.
  async forget(count) {
    const chosen = [...this.open.values()].slice(0, count);
    for (const session of chosen) {
      this.open.delete(session.id);
      this.stats.forgotten++;
      await session.mcp.close();
    }
    return chosen.length;
  }

  values() {
    return this.open.values();
  }
}

// Items are the resources of a server: test://items/0, /1 and so on. Each holds
// the text of its last update.
export class Items {
  constructor(count) {
    this.count = count;
    this.text = new Map();
    this.revision = 0; // of the list of tools
  }

  uri(index) {
    if (!Number.isSafeInteger(index) || index < 0) throw new Error('"index" is the number of a resource, from 0');
    return `test://items/${index}`;
  }

  update({ index, text = '' }) {
    const uri = this.uri(index);
    this.text.set(uri, String(text));
    return uri;
  }

  read(uri) {
    return { contents: [{ uri: String(uri), mimeType: 'text/plain', text: this.text.get(String(uri)) ?? '' }] };
  }

  list() {
    return { resources: Array.from({ length: this.count }, (_, i) => ({ uri: this.uri(i), name: `item ${i}` })) };
  }

  toolDescription() {
    return `Returns its text. Revision ${this.revision}.`;
  }
}
