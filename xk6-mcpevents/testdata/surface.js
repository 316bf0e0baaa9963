// Says what the module has, one JSON object a line, for the test that holds
// index.d.ts to it. NAMES are all names of options that there are anywhere,
// WORDS the words that options and first arguments take: [call, option, words].
import http from 'k6/http';
import * as all from 'k6/x/mcpevents';
import { Client, Upstream, WebhookSink } from 'k6/x/mcpevents';

export const options = { scenarios: { once: { executor: 'shared-iterations', maxDuration: '30s' } } };

const event = 'chat.message';
const names = __ENV.NAMES.split(',');
const words = JSON.parse(__ENV.WORDS);
const client = new Client(__ENV.TARGET, { token: 'any' });
// It answers everything with 404: options are read before anybody is asked.
const nobody = new Client(`${__ENV.ADMIN}/nobody`, { token: 'any' });

const say = (kind, name, list) => console.log(JSON.stringify({ kind, name, list: Array.from(new Set(list)).sort() }));

function methods(object) {
  const list = [];
  for (const name in object) {
    if (typeof object[name] === 'function') list.push(name);
  }
  return list;
}

const tell = (path, body) => http.post(`${__ENV.ADMIN}/${path}`, JSON.stringify(body), { headers: { 'Content-Type': 'application/json' } });

// null is no value for any option, so that nothing but the name can be wrong.
async function taken(call) {
  const list = [];
  for (const name of names) {
    try {
      await call({ [name]: null });
      list.push(name);
    } catch (e) {
      if (!/unknown field|belongs to/.test(String(e))) list.push(name);
    }
  }
  return list;
}

// A word that is not known is named in the error.
async function known(list, call) {
  const out = [];
  for (const word of list) {
    try {
      await call(word);
      out.push(word);
    } catch (e) {
      if (!String(e).includes(`"${word}"`)) out.push(word);
    }
  }
  return out;
}

export default async function () {
  say('exports', '', Object.keys(all).filter((name) => name !== 'default'));

  const upstream = new Upstream({ event, admin: __ENV.ADMIN, data: { channel: 'surface', text: '{probe}' } });
  const unheard = new Upstream({ event, topic: 'unheard', url: `${__ENV.ADMIN}/nobody` });
  const sub = await client.stream(event, { arguments: { channel: 'surface' }, payload: true, settle: 1 });
  const events = [];
  sub.on('event', (e) => events.push(e));
  for (const [name, object] of Object.entries({ Client: client, Upstream: upstream, WebhookSink: new WebhookSink(), Subscription: sub })) {
    say('methods', name, methods(object));
  }

  const failure = await client.stream(event, { noSuchOption: 1 }).catch((e) => e);
  say('keys', 'Failure', ['message', 'code', 'stack', 'text'].filter((name) => name in failure && name !== 'stack'));
  say('keys', 'Fired', Object.keys(await upstream.fire(3)));
  say('keys', 'Received', Object.keys(await sub.received({ events: 3 })));
  say('keys', 'Totals', Object.keys(sub.stats()));
  say('keys', 'Figures', Object.keys(sub.figures()));
  const calls = {
    'Client.constructor': (o) => new Client(`${__ENV.ADMIN}/nobody`, o),
    'Client.stream': (o) => nobody.stream(event, o),
    'Client.poll': (o) => nobody.poll(event, o),
    'Client.subscribe': (o) => nobody.subscribe(event, o),
    'Client.watchLists': (o, list = 'tools') => nobody.watchLists(list, o),
    'Client.resumable': (o) => nobody.resumable('work', o),
    'Client.list': (o, what = 'tools') => nobody.list(what, o),
    'Subscription.received': (o) => sub.received(o),
    'WebhookSink.constructor': (o) => new WebhookSink(o),
    'Upstream.constructor': (o) => new Upstream(Object.assign({ event, admin: __ENV.ADMIN }, o)),
    'Upstream.fire': (o) => unheard.fire(o),
  };
  for (const [name, call] of Object.entries(calls)) say('options', name, await taken(call));
  for (const [name, option, list] of words) {
    const call = calls[name];
    say('words', `${name} ${option}`, await known(list, (word) => (option ? call({ [option]: word }) : call({}, word))));
  }

  say('keys', 'EventInfo', Object.keys(events[0]));
  const first = (on, name) => new Promise((resolve) => { on.on(name, resolve); });
  const gap = first(sub, 'gap');
  const error = first(sub, 'error');
  await upstream.fire(2); // the fourth is announced to be missing
  tell('disturb', { name: event, message: 'a disturbance' });
  say('keys', 'GapInfo', Object.keys(await gap));
  say('keys', 'ErrorInfo', Object.keys(await error));
  const revoked = await new Client(__ENV.TARGET, { token: 'revoked' }).stream(event);
  const closed = first(revoked, 'closed');
  tell('revoke', { token: 'revoked' });
  say('keys', 'ClosedInfo', Object.keys(await closed));
  await revoked.close(); // the iteration lasts until then
  say('keys', 'Totals', Object.keys(await sub.close()));
  say('keys', 'Listing', Object.keys(await client.list('tools')));
  const requests = await client.resumable('work', { steps: 2, step: '10ms', disconnect: 'none' });
  await requests.close();
  for (const timing of Object.values(requests.figures().timings)) say('keys', 'Timing', Object.keys(timing));
}
