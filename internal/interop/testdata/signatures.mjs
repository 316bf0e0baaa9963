// standardwebhooks 1.1.1, asked to sign and to verify.
//
//   node signatures.mjs [--until-eof]
//
// The first line is JSON: {"control": URL}. The control endpoint takes and returns JSON;
// a body is a string of UTF-8:
//   POST /verify {"secret", "id", "time", "signature", "body"}
//       -> {"accepted": is the message, "forgeries": how many messages with one byte
//           changed were tried, of every byte of the body, the id, the time and the
//           signature, "acceptedForgeries": those that were accepted, by part}
//   POST /sign {"secret", "id", "time", "body"} -> {"signature"}

import { Webhook } from 'standardwebhooks';
import { control, flags, untilEOF } from './lib.mjs';

const options = flags();

function accepts(webhook, m) {
  try {
    webhook.verify(m.body, { 'webhook-id': m.id, 'webhook-timestamp': m.time, 'webhook-signature': m.signature }, { jsonParse: false });
    return true;
  } catch {
    return false;
  }
}

// changes are the texts that differ from one in one byte: each is replaced by another
// of the same kind, so that no change can be lost in decoding.
function* changes(text) {
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    yield text.slice(0, i) + (/[0-9]/.test(c) ? (Number(c) + 1) % 10 : c === 'x' ? 'y' : 'x') + text.slice(i + 1);
  }
}

const routes = {
  verify({ secret, ...message }) {
    const webhook = new Webhook(secret);
    const answer = { accepted: accepts(webhook, message), forgeries: 0, acceptedForgeries: {} };
    for (const part of ['body', 'id', 'time', 'signature']) {
      for (const changed of changes(message[part])) {
        answer.forgeries++;
        if (accepts(webhook, { ...message, [part]: changed })) answer.acceptedForgeries[part] = changed;
      }
    }
    return answer;
  },
  sign: ({ secret, id, time, body }) => ({ signature: new Webhook(secret).sign(id, new Date(Number(time) * 1000), body) }),
};

console.log(JSON.stringify({ control: await control(options['control-port'], {}, routes) }));
untilEOF(options['until-eof']);
