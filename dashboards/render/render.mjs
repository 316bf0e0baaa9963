// node render.mjs BOARD.json PROMETHEUS OUT.png [name=value …] draws a dashboard from what a
// Prometheus answers. Variables are given as name=value, and from= and to= are unix seconds.
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { extname, join } from 'node:path';

const [file, prometheus, out, ...given] = process.argv.slice(2);
const variables = { system: '.*', mode: '.*', lane: '.*', shard: '.*', testid: '.*', instance: '.*', __rate_interval: '4s', __interval: '1s', ...Object.fromEntries(given.map((g) => g.split(/=(.*)/s))) };
const from = Number(variables.from), to = Number(variables.to);
variables.__range = `${Math.ceil(to - from)}s`;
const step = Number(variables.step ?? 1);
const fill = (text, own) => text.replace(/\$\{?(\w+)\}?/g, (all, name) => own?.[name] ?? variables[name] ?? all);

async function ask(path, form) {
  const answer = await (await fetch(`${prometheus}/api/v1/${path}`, { method: 'POST', body: new URLSearchParams(form) })).json();
  if (answer.status !== 'success') throw new Error(`${form.query}: ${answer.error}`);
  return answer.data.result.map((s) => ({ metric: s.metric, values: s.values ?? (s.value ? [s.value] : []), histograms: s.histograms ?? [] })).filter((s) => s.values.length + s.histograms.length);
}

// choices are the values of a variable that a panel is repeated for.
async function choices(name) {
  const [, selector, label] = /^label_values\((.*), (\w+)\)$/.exec(board.templating.list.find((v) => v.name === name).query);
  const answer = await ask('query', { query: `group by (${label}) (last_over_time(${fill(selector)}[${variables.__range}]))`, time: to });
  return answer.map((s) => s.metric[label]).filter((v) => new RegExp(`^(?:${variables[name]})$`).test(v)).sort();
}

// repeated puts a panel beside itself for each value, as Grafana does.
async function repeated(p) {
  if (!p.repeat) return [p];
  const values = await choices(p.repeat), w = 24 / Math.min(values.length, p.maxPerRow);
  return values.map((v, i) => ({ ...p, scopedVars: { [p.repeat]: v }, gridPos: { ...p.gridPos, w, x: w * (i % p.maxPerRow), y: p.gridPos.y + p.gridPos.h * Math.floor(i / p.maxPerRow) } }));
}

const board = JSON.parse(readFileSync(file, 'utf8'));
if (variables.rows) board.panels = board.panels.filter((p) => p.gridPos.y < Number(variables.rows));
board.panels = (await Promise.all(board.panels.map(repeated))).flat();
const answers = {};
let id = 1;
for (const p of board.panels.filter((p) => p.type !== 'row')) {
  p.id = id++;
  answers[p.id] = [];
  for (const t of p.targets) {
    answers[p.id].push(t.instant ? await ask('query', { query: fill(t.expr, p.scopedVars), time: to }) : await ask('query_range', { query: fill(t.expr, p.scopedVars), start: from, end: to, step }));
  }
}
writeFileSync('dist/snapshot.json', JSON.stringify({ board, answers, variables, from: from * 1000, to: to * 1000, step, note: variables.note ?? '' }));

const types = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.json': 'application/json' };
const server = createServer((request, response) => {
  const path = new URL(request.url, 'http://x').pathname;
  try {
    const body = readFileSync(join('dist', path === '/' ? 'index.html' : path));
    response.writeHead(200, { 'content-type': types[extname(path)] ?? 'text/html' });
    response.end(body);
  } catch {
    response.writeHead(404);
    response.end();
  }
});
await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
const profile = mkdtempSync(join(tmpdir(), 'render-'));
const height = Math.max(...board.panels.map((p) => p.gridPos.y + p.gridPos.h)) * 38 + 60;
const browser = spawn('chromium', ['--headless', '--no-sandbox', '--disable-gpu', '--disable-background-networking', '--hide-scrollbars', '--enable-logging=stderr', `--user-data-dir=${profile}`,
  `--window-size=1440,${height}`, '--virtual-time-budget=15000', '--timeout=90000', `--screenshot=${out}`, `http://127.0.0.1:${server.address().port}/?theme=${variables.theme ?? 'light'}`]);
let said = '';
browser.stderr.on('data', (b) => { said += b; });
const code = await new Promise((ended) => browser.on('close', ended));
server.close();
rmSync(profile, { recursive: true, force: true });
const errors = said.split('\n').filter((l) => l.includes('CONSOLE'));
console.log(`chromium ended with ${code}, ${errors.length} console lines`);
for (const e of errors.slice(0, 12)) console.log(e.slice(0, 400));
