// An ordinary server of @modelcontextprotocol/sdk 1.32.2, without events: a tool,
// resources that can be subscribed to, and changes of its lists.
//
//   node sdk1.mjs [--stdio] [--port N] [--control-port N] [--resources N] [--until-eof]
//
// Streamable HTTP of the 2025 revisions with sessions, on every path; or MCP over
// standard input and output. The first line, on standard output (--stdio: on
// standard error), is JSON: {"url": MCP endpoint (not with --stdio), "control": URL}.
// --resources (100) is how many resources are listed; test://items/N exists for each
// N. --until-eof ends the process with its standard input; --stdio always does.
//
// The control endpoint takes and returns JSON:
//   POST /update {"index": 7, "text": "x"}   sets the text of test://items/7 and notifies
//                                            the sessions that subscribed to it
//                                            -> {"uri", "sessions": how many these are}
//   POST /change {"list": "tools"}           changes a list, "tools" or "resources", and
//                                            notifies every session -> {"sessions"}
//   POST /forget {"sessions": 3}             forgets the oldest sessions: 404 from now on
//                                            -> {"sessions"}
//   GET  /stats                              newStats of lib.mjs: updates, changes,
//                                            subscribed, unsubscribed, sessions,
//                                            forgotten, openStreams, peakStreams,
//                                            requests by method, refused (HTTP >= 400),
//                                            sent {resourceUpdated, resourceListChanged,
//                                            toolListChanged}: messages that went out
// A session without an open GET stream is notified by the SDK in vain: "sessions" of
// /update counts it and "sent" does not.

import { Writable } from 'node:stream';
import { McpServer, ResourceTemplate } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js';
import { SubscribeRequestSchema, UnsubscribeRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';
import { bridge, control, countSent, flags, Items, listen, newStats, Sessions, untilEOF } from './lib.mjs';

const options = flags({ stdio: { type: 'boolean', default: false }, resources: { type: 'string', default: '100' } });
const stats = newStats();
const items = new Items(Number(options.resources));

function newSession() {
  const mcp = new McpServer(
    { name: 'sdk1', version: '1.32.2' },
    { capabilities: { resources: { subscribe: true, listChanged: true }, tools: { listChanged: true } } },
  );
  const session = { mcp, uris: new Set() };
  session.tool = mcp.registerTool('echo', { description: items.toolDescription(), inputSchema: { text: z.string() } }, async ({ text }) => ({
    content: [{ type: 'text', text }],
  }));
  mcp.registerResource('items', new ResourceTemplate('test://items/{index}', { list: async () => items.list() }), {}, async (uri) => items.read(uri));
  mcp.server.setRequestHandler(SubscribeRequestSchema, async ({ params }) => {
    session.uris.add(params.uri);
    stats.subscribed++;
    return {};
  });
  mcp.server.setRequestHandler(UnsubscribeRequestSchema, async ({ params }) => {
    session.uris.delete(params.uri);
    stats.unsubscribed++;
    return {};
  });
  return session;
}

const sessions = new Sessions(WebStandardStreamableHTTPServerTransport, newSession, stats);
let only; // the session over standard input and output
const all = () => (only ? [only] : [...sessions.values()]);

const routes = {
  async update(body) {
    const uri = items.update(body);
    stats.updates++;
    const chosen = all().filter((s) => s.uris.has(uri));
    await Promise.allSettled(chosen.map((s) => s.mcp.server.sendResourceUpdated({ uri })));
    return { uri, sessions: chosen.length };
  },
  async change({ list }) {
    if (list !== 'tools' && list !== 'resources') throw new Error('"list" is tools or resources');
    stats.changes++;
    list === 'tools' ? items.revision++ : items.count++;
    const chosen = all();
    for (const s of chosen) {
      if (list === 'tools') s.tool.update({ description: items.toolDescription() });
      else s.mcp.sendResourceListChanged();
    }
    return { sessions: chosen.length };
  },
  forget: async ({ sessions: count }) => ({ sessions: await sessions.forget(count) }),
};

const ready = { control: await control(options['control-port'], stats, routes) };
if (options.stdio) {
  console.error(JSON.stringify(ready));
  const out = new Writable({
    write(chunk, _, done) {
      countSent(stats, chunk.toString());
      process.stdout.write(chunk, done);
    },
  });
  only = newSession();
  stats.sessions++;
  process.stdin.on('end', () => process.exit(0));
  await only.mcp.connect(new StdioServerTransport(process.stdin, out));
} else {
  ready.url = await listen(options.port, (i, o) => bridge(sessions.fetch, stats, i, o));
  console.log(JSON.stringify(ready));
  untilEOF(options['until-eof']);
}
