// An ordinary server of @modelcontextprotocol/server 2.4.0, without events: the
// same as sdk1.mjs, in both eras.
//
//   node sdk2.mjs [--stdio] [--port N] [--control-port N] [--resources N]
//                 [--max-subscriptions N] [--until-eof]
//
// Revision 2026-07-28 (subscriptions/listen), and beside it the 2025 revisions with
// sessions (resources/subscribe), on the same endpoint; or both over standard input
// and output. The first line and the control endpoint are those of sdk1.mjs;
// "sessions" in their answers counts the sessions of the 2025 revisions, and
// POST /forget concerns only these. --max-subscriptions (1024, as the package has it)
// is how many listen streams may be open at once; one more is refused with -32603
// inside HTTP 200.

import { Writable } from 'node:stream';
import { createMcpHandler, isLegacyRequest, McpServer, ResourceTemplate, WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/server';
import { serveStdio, StdioServerTransport } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';
import { bridge, control, countSent, flags, Items, listen, newStats, Sessions, untilEOF } from './lib.mjs';

const options = flags({
  stdio: { type: 'boolean', default: false },
  resources: { type: 'string', default: '100' },
  'max-subscriptions': { type: 'string', default: '1024' },
});
const maxSubscriptions = Number(options['max-subscriptions']);
const stats = newStats();
const items = new Items(Number(options.resources));

function newSession({ legacy = true } = {}) {
  const mcp = new McpServer(
    { name: 'sdk2', version: '2.4.0' },
    { capabilities: { resources: { subscribe: true, listChanged: true }, tools: { listChanged: true } } },
  );
  const session = { mcp, legacy, uris: new Set() };
  session.tool = mcp.registerTool(
    'echo',
    { description: items.toolDescription(), inputSchema: z.object({ text: z.string() }) },
    async ({ text }) => ({ content: [{ type: 'text', text }] }),
  );
  mcp.registerResource('items', new ResourceTemplate('test://items/{index}', { list: async () => items.list() }), {}, async (uri) => items.read(uri));
  if (!legacy) return session;
  mcp.server.setRequestHandler('resources/subscribe', async ({ params }) => {
    session.uris.add(params.uri);
    stats.subscribed++;
    return {};
  });
  mcp.server.setRequestHandler('resources/unsubscribe', async ({ params }) => {
    session.uris.delete(params.uri);
    stats.unsubscribed++;
    return {};
  });
  return session;
}

const sessions = new Sessions(WebStandardStreamableHTTPServerTransport, newSession, stats);
const modern = createMcpHandler(() => newSession({ legacy: false }).mcp, { legacy: 'reject', maxSubscriptions });
const piped = new Set(); // what serves standard input and output, and the probe before it
const legacy = () => [...sessions.values(), ...[...piped].filter((s) => s.legacy)];
const listening = () => [...piped].filter((s) => !s.legacy);

const routes = {
  async update(body) {
    const uri = items.update(body);
    stats.updates++;
    const chosen = legacy().filter((s) => s.uris.has(uri));
    modern.notify.resourceUpdated(uri);
    // Over a pipe, the package sends to those subscriptions that listen to the URI.
    await Promise.allSettled([...chosen, ...listening()].map((s) => s.mcp.server.sendResourceUpdated({ uri })));
    return { uri, sessions: chosen.length };
  },
  async change({ list }) {
    if (list !== 'tools' && list !== 'resources') throw new Error('"list" is tools or resources');
    stats.changes++;
    list === 'tools' ? items.revision++ : items.count++;
    list === 'tools' ? modern.notify.toolsChanged() : modern.notify.resourcesChanged();
    const chosen = legacy();
    for (const s of [...chosen, ...listening()]) {
      if (list === 'tools') s.tool.update({ description: items.toolDescription() });
      else s.mcp.sendResourceListChanged();
    }
    return { sessions: chosen.length };
  },
  forget: async ({ sessions: count }) => ({ sessions: await sessions.forget(count) }),
};

async function fetch(request) {
  return (await isLegacyRequest(request)) ? sessions.fetch(request) : modern.fetch(request);
}

const ready = { control: await control(options['control-port'], stats, routes) };
if (options.stdio) {
  console.error(JSON.stringify(ready));
  const out = new Writable({
    write(chunk, _, done) {
      countSent(stats, chunk.toString());
      process.stdout.write(chunk, done);
    },
  });
  process.stdin.on('end', () => process.exit(0));
  serveStdio(
    ({ era }) => {
      const session = newSession({ legacy: era === 'legacy' });
      piped.add(session);
      stats.sessions++;
      session.mcp.server.onclose = () => piped.delete(session);
      return session.mcp;
    },
    { transport: new StdioServerTransport(process.stdin, out), maxSubscriptions },
  );
} else {
  ready.url = await listen(options.port, (i, o) => bridge(fetch, stats, i, o));
  console.log(JSON.stringify(ready));
  untilEOF(options['until-eof']);
}
