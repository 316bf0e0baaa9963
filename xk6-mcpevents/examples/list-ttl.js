// Lists with a time to live (SEP-2549): twenty clients use a list of tools ten times a second and keep it for as long as the
// server lets them. When do they learn of a change, and how many fetches did the copies save?
import { check } from 'k6';
import { Gauge } from 'k6/metrics';
import { Client, Upstream } from 'k6/x/mcpevents';

const avoided = new Gauge('list_fetches_avoided');

export const options = {
  scenarios: { lists: { executor: 'shared-iterations', vus: 1, iterations: 1, maxDuration: '1m' } },
  thresholds: {
    'mcp_event_latency{system:sep-2549}': ['p(99)<10000'],
    mcp_list_duration: ['p(99)<5000'],
    mcp_events_expected: ['count>0'],
    mcp_events_lost: ['count==0'],
    list_fetches_avoided: ['value>0.2'],
    checks: ['rate==1'],
  },
};

export default async function () {
  const client = new Client(__ENV.TARGET, { token: __ENV.TOKEN || 'k6' });
  // Each change of the list changes one of its entries.
  const upstream = new Upstream({ event: 'list.changed', admin: __ENV.ADMIN, data: { list: 'tools', probe: '{probe}' } });
  const list = await client.list('tools');
  check(list, { 'the list may be kept for a while': (l) => (l.ttl || 0) > 0 });
  const sub = await client.watchLists('tools', { clients: 20, use: 10, settle: `${(list.ttl || 0) + 10000}ms` });
  await upstream.fire({ count: 5, rate: 5 });
  const sums = await sub.close();
  check(sums, { 'the figures balance': (s) => s.expected === s.delivered + s.lost + s.lostAnnounced + s.lostOrderUnknown });
  const figures = sub.figures().values;
  check(figures, { 'every use was served': (f) => f.usesFailed === 0 && f.unbalanced === 0 });
  avoided.add(figures.avoidedShare);
}
