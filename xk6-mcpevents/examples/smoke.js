// The smallest useful test: one VU with two streams and twenty events.
import { check } from 'k6';
import exec from 'k6/execution';
import { Client, Upstream } from 'k6/x/mcpevents';

export const options = {
  scenarios: { push: { executor: 'shared-iterations', vus: 1, iterations: 1, maxDuration: '1m' } },
  thresholds: {
    'mcp_event_latency{mode:push}': ['p(99)<5000'],
    mcp_events_expected: ['count>0'],
    mcp_events_lost: ['count==0'],
    mcp_event_duplicates: ['rate==0'],
    checks: ['rate==1'],
  },
};

export default async function () {
  const topic = `vu-${exec.vu.idInTest}`;
  const client = new Client(__ENV.TARGET, { token: __ENV.TOKEN || 'k6' });
  const upstream = new Upstream({
    event: 'chat.message', topic, admin: __ENV.ADMIN, data: { channel: topic, text: '{probe}' },
  });
  const sub = await client.stream('chat.message', { arguments: { channel: topic }, topic, streams: 2, settle: '10s' });
  const fired = await upstream.fire({ count: 20, rate: 20 });
  check(fired, { 'every event was accepted': (f) => f.accepted === 20 });
  const sums = await sub.close();
  check(sums, { 'the figures balance': (s) => s.expected === s.delivered + s.lost + s.lostAnnounced + s.lostOrderUnknown });
}
