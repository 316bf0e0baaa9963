// STREAMS streams on ten VUs receive EVENTS events: what does that cost k6?
//
//   /usr/bin/time -v ./k6 run -e TARGET=… -e ADMIN=… -e STREAMS=5000 xk6-mcpevents/testdata/many-streams.js
import exec from 'k6/execution';
import { Client, Upstream } from 'k6/x/mcpevents';

const vus = 10;
const streams = Number(__ENV.STREAMS || 5000) / vus;
const events = Number(__ENV.EVENTS || 20);

export const options = {
  scenarios: {
    receive: { executor: 'per-vu-iterations', vus, iterations: 1, maxDuration: '5m', exec: 'receive' },
  },
  thresholds: {
    mcp_events_expected: ['count>0'],
    mcp_events_delivered: [`count==${vus * streams * events}`],
    mcp_events_lost: ['count==0'],
    mcp_open_subscriptions: ['value==0'],
  },
};

export async function receive() {
  const topic = `vu-${exec.vu.idInTest}`;
  const client = new Client(__ENV.TARGET, { token: 'k6' });
  const upstream = new Upstream({ event: 'chat.message', topic, admin: __ENV.ADMIN, data: { channel: topic, text: '{probe}' } });
  const sub = await client.stream('chat.message', { arguments: { channel: topic }, topic, streams, settle: '30s', readyTimeout: '2m' });
  await upstream.fire({ count: events, rate: 5 });
  await sub.close();
}
