// The three modes side by side, which receive the same events.
import { Client, Upstream } from 'k6/x/mcpevents';

const scenario = (exec, startTime) => ({ executor: 'per-vu-iterations', vus: 1, iterations: 1, maxDuration: '1m', exec, startTime });

export const options = {
  scenarios: {
    push: scenario('push', '0s'), poll: scenario('poll', '0s'), webhook: scenario('webhook', '0s'), fire: scenario('fire', '2s'),
  },
  thresholds: {
    'mcp_event_latency{mode:push}': ['p(99)<5000'],
    'mcp_event_latency{mode:poll}': ['p(99)<10000'],
    'mcp_event_latency{mode:webhook}': ['p(99)<5000'],
    'mcp_events_delivered{mode:push}': ['count>0'],
    'mcp_events_delivered{mode:poll}': ['count>0'],
    'mcp_events_delivered{mode:webhook}': ['count>0'],
    mcp_events_expected: ['count>0'],
    mcp_events_lost: ['count==0'],
    mcp_event_duplicates: ['rate==0'],
  },
};

const event = 'chat.message';
/** @type {import('k6/x/mcpevents').EventOptions} */
const common = { arguments: { channel: 'compare' }, subscriptions: 10, settle: '10s' };

async function receive(open) {
  const sub = await open(new Client(__ENV.TARGET, { token: __ENV.TOKEN || 'k6' }));
  await sub.received({ events: 30, timeout: '10s' });
  await sub.close();
}

export const push = () => receive((c) => c.stream(event, common));
export const poll = () => receive((c) => c.poll(event, Object.assign({ minInterval: '200ms' }, common)));
export const webhook = () => receive((c) => c.subscribe(event, common));

export async function fire() {
  const upstream = new Upstream({ event, admin: __ENV.ADMIN, data: { channel: 'compare', text: '{probe}' } });
  await upstream.fire({ count: 60, rate: 20 });
}
