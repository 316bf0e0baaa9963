// Webhooks: two VUs receive the deliveries of five subscriptions each. The target has to reach this machine and to trust its certificate.
import { check } from 'k6';
import exec from 'k6/execution';
import { Client, Upstream } from 'k6/x/mcpevents';

export const options = {
  scenarios: { webhook: { executor: 'shared-iterations', vus: 2, iterations: 2, maxDuration: '1m' } },
  thresholds: {
    'mcp_event_latency{mode:webhook}': ['p(99)<5000'],
    mcp_events_expected: ['count>0'],
    mcp_events_lost: ['count==0'],
    mcp_event_duplicates: ['rate==0'],
    'mcp_events_conformance_broken{level:must}': ['count==0'],
    mcp_events_conformance_seen: ['count>0'],
    checks: ['rate==1'],
  },
};

export default async function () {
  const topic = `vu-${exec.vu.idInTest}`;
  const client = new Client(__ENV.TARGET, { token: __ENV.TOKEN || 'k6' });
  const upstream = new Upstream({
    event: 'chat.message', topic, admin: __ENV.ADMIN, data: { channel: topic, text: '{probe}' },
  });
  const sub = await client.subscribe('chat.message', { arguments: { channel: topic }, topic, subscriptions: 5, settle: '10s' });
  const fired = await upstream.fire({ count: 20, rate: 20 });
  check(fired, { 'every event was accepted': (f) => f.accepted === 20 });
  const sums = await sub.close();
  check(sums, { 'the figures balance': (s) => s.expected === s.delivered + s.lost + s.lostAnnounced + s.lostOrderUnknown + s.lostUndeliverable + s.lostRefused + s.lostSuspended });
}
