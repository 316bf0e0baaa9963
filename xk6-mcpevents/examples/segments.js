// The same test in several k6 processes, on one machine or on many. Each opens
// its share of the streams and fires its share of the events:
//
//   k6 run --execution-segment 0:1/2 --execution-segment-sequence 0,1/2,1 segments.js
//   k6 run --execution-segment 1/2:1 --execution-segment-sequence 0,1/2,1 segments.js
import { check } from 'k6';
import exec from 'k6/execution';
import { Client, Upstream } from 'k6/x/mcpevents';

export const options = {
  // For all processes together; a scenario with fewer VUs than segments leaves some without work.
  scenarios: { push: { executor: 'per-vu-iterations', vus: 4, iterations: 1, maxDuration: '1m' } },
  // For each process.
  thresholds: {
    mcp_events_expected: ['count>0'],
    mcp_events_lost: ['count==0'],
    mcp_events_unexpected: ['count==0'],
    mcp_event_duplicates: ['rate==0'],
    checks: ['rate==1'],
  },
};

export default async function () {
  // __VU is unique within its process only. This VU does not receive the events of other processes.
  const topic = `vu-${exec.vu.idInTest}`;
  const client = new Client(__ENV.TARGET, { token: __ENV.TOKEN || 'k6' });
  const upstream = new Upstream({
    event: 'chat.message', topic, admin: __ENV.ADMIN, data: { channel: topic, text: '{probe}' },
  });
  const sub = await client.stream('chat.message', { arguments: { channel: topic }, topic, streams: 5, settle: '10s' });
  const fired = await upstream.fire({ count: 20, rate: 20 });
  check(fired, { 'every event was accepted': (f) => f.accepted === 20 });
  await sub.close();
}
