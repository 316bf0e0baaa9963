// A server of @modelcontextprotocol/sdk 1.32.2 whose answers can be resumed by
// Last-Event-ID: a slow tool that reports progress and logs, and a store of events.
//
//   node resume.mjs [--port N] [--control-port N] [--retry MS] [--no-store] [--until-eof]
//
// Streamable HTTP of the 2025 revisions with sessions, on every path. The first line, on
// standard output, is JSON: {"url": MCP endpoint, "control": URL}. --retry is the field
// retry of a stream's first event. --no-store leaves the store out, and with it the ids.
//
// The tool work takes {steps, stepMs, note, logEvery, hangUp}: a progress message after
// each step, a log message after each logEvery, and the note in its result. It closes the
// stream after each hangUp messages, and works on.
//
// The control endpoint: GET /stats -> {"calls": of the tool, "results", "messages": progress
// and logs, "resumes": streams that went on after an id, "unknown": ids that are none,
// "hangUps", and those of newStats in lib.mjs}

import { setTimeout as sleep } from 'node:timers/promises';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js';
import { z } from 'zod';
import { bridge, control, flags, listen, newStats, Sessions, untilEOF } from './lib.mjs';

const options = flags({ retry: { type: 'string' }, 'no-store': { type: 'boolean', default: false } });
const stats = { ...newStats(), calls: 0, results: 0, messages: 0, resumes: 0, unknown: 0, hangUps: 0 };

// Events keeps the events of a session's streams. An id is the stream's, a slash, and
// the event's number in it.
class Events {
  streams = new Map();

  async storeEvent(stream, message) {
    const events = this.streams.get(stream) ?? [];
    this.streams.set(stream, events);
    events.push(message);
    return `${stream}/${events.length}`;
  }

  async getStreamIdForEventId(id) {
    const [stream, number] = this.parse(id);
    if (number >= 1 && number <= (this.streams.get(stream)?.length ?? 0)) return stream;
    stats.unknown++;
    return undefined;
  }

  async replayEventsAfter(id, { send }) {
    const [stream, number] = this.parse(id);
    stats.resumes++;
    const events = this.streams.get(stream);
    for (let i = number; i < events.length; i++) {
      if (events[i].jsonrpc) await send(`${stream}/${i + 1}`, events[i]); // not what only primes a stream
    }
    return stream;
  }

  parse(id) {
    const at = id.lastIndexOf('/');
    return [id.slice(0, at), /^[0-9]+$/.test(id.slice(at + 1)) ? Number(id.slice(at + 1)) : 0];
  }
}

const whole = z.number().int().min(0);

function newSession() {
  const mcp = new McpServer({ name: 'resume', version: '1.32.2' }, { capabilities: { logging: {}, tools: {} } });
  const inputSchema = { steps: whole, stepMs: z.number(), note: z.string(), logEvery: whole.optional(), hangUp: whole.optional() };
  mcp.registerTool('work', { description: 'works for a while', inputSchema }, async ({ steps, stepMs, note, logEvery, hangUp }, extra) => {
    stats.calls++;
    let sent = 0;
    const notify = async (method, params) => {
      await extra.sendNotification({ method, params });
      stats.messages++;
      if (hangUp && ++sent % hangUp === 0) {
        stats.hangUps++;
        extra.closeSSEStream();
      }
    };
    for (let n = 1; n <= steps; n++) {
      await sleep(stepMs);
      await notify('notifications/progress', { progressToken: extra._meta.progressToken, progress: n, total: steps });
      if (logEvery && n % logEvery === 0) await notify('notifications/message', { level: 'info', logger: 'work', data: { seq: n / logEvery, step: n } });
    }
    stats.results++;
    return { content: [{ type: 'text', text: note }] };
  });
  return { mcp };
}

const transport = () => (options['no-store'] ? {} : { eventStore: new Events(), retryInterval: options.retry === undefined ? undefined : Number(options.retry) });
const sessions = new Sessions(WebStandardStreamableHTTPServerTransport, newSession, stats, transport);
const ready = { control: await control(options['control-port'], stats, {}) };
ready.url = await listen(options.port, (i, o) => bridge(sessions.fetch, stats, i, o));
console.log(JSON.stringify(ready));
untilEOF(options['until-eof']);
