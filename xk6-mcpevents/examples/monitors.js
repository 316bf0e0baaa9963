// ChatGPT's monitors: webhooks that are subscribed, refreshed and answered as ChatGPT does it (docs/clients.md). The target has to reach this machine and to trust its certificate.
import { check } from 'k6';
import exec from 'k6/execution';
import { Client, Upstream, WebhookSink } from 'k6/x/mcpevents';

export const options = {
  scenarios: { monitors: { executor: 'shared-iterations', vus: 2, iterations: 2, maxDuration: '1m' } },
  thresholds: {
    mcp_events_expected: ['count>0'],
    mcp_events_lost: ['count==0'],
    mcp_events_lost_refused: ['count==0'], // deliveries that ChatGPT would refuse
    mcp_event_duplicates: ['rate==0'],
    checks: ['rate==1'],
  },
};

const sink = new WebhookSink(); // one callback host

export default async function () {
  const topic = `vu-${exec.vu.idInTest}`;
  const client = new Client(__ENV.TARGET, { token: __ENV.TOKEN || 'k6', revision: 'sketch' });
  const upstream = new Upstream({
    event: 'chat.message', topic, admin: __ENV.ADMIN, data: { channel: topic, text: '{probe}' },
  });
  const sub = await client.subscribe('chat.message', { arguments: { channel: topic }, topic, sink, subscriptions: 50, client: 'chatgpt', settle: '10s' });
  await upstream.fire({ count: 10, rate: 10 });
  await sub.close();
  check(sub.figures().values, { 'ChatGPT would take every delivery': (f) => f.refusedUnfit === 0 });
}
