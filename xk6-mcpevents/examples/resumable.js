// Long requests that are cut and resumed (SEP-975): five at a time, each loses its connection and comes back for the rest.
import { check } from 'k6';
import { Client } from 'k6/x/mcpevents';

export const options = {
  scenarios: { requests: { executor: 'shared-iterations', vus: 1, iterations: 1, maxDuration: '1m' } },
  thresholds: {
    mcp_messages_expected: ['count>0'],
    mcp_messages_lost: ['count==0'],
    checks: ['rate==1'],
  },
};

export default async function () {
  const client = new Client(__ENV.TARGET, { token: __ENV.TOKEN || 'k6' });
  const requests = await client.resumable('work', { requests: 5, steps: 10, step: '100ms', at: '400ms', away: '200ms' });
  await requests.close(); // starts no further requests, and waits for the open ones
  const figures = requests.figures().values;
  check(figures, {
    'every request was completed': (f) => f.requestsCompleted === f.requestsBegun && f.requestsBegun >= 5,
    'and had been resumed': (f) => f.resumes >= 5,
    'every message is accounted for': (f) => f.unbalanced === 0,
  });
}
