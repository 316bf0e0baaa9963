'use strict';
// Draws the charts of the report from the numbers in #data. What is drawn here
// is also described in words below each chart and listed in tables.
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const several = data.runs.length > 1;
  const root = document.documentElement;
  const lanes = [];
  data.runs.forEach((run, i) => run.lanes.forEach((lane, place) => lanes.push({ ...lane, run: i, place })));
  const dashes = [[], [9, 4], [3, 3], [12, 3, 3, 3]];
  const charts = [];
  const latencyName = { intended: 'scheduled → received', sent: 'published → received' };
  const state = { intended: true, sent: !several, runs: data.runs.map(() => true), lanes: {} };
  for (const lane of lanes) state.lanes[lane.lane] = true;

  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const shown = (lane) => state.lanes[lane.lane] && state.runs[lane.run];
  // Later lanes are thinner, so that overlapping lanes stay visible.
  const broad = (lane) => Math.max(1.5, 4 - lane.place * 1.1);
  const hue = (lane) => css('--hue' + lane.hue);
  const dash = (lane) => dashes[lane.run % dashes.length];
  const none = (v) => v === null || v === undefined;

  // time writes a latency as the tables do: three digits and a unit.
  function time(ms) {
    if (none(ms)) return '–';
    if (ms === 0) return '0';
    const [v, unit] = ms >= 999.5 ? [ms / 1000, 's'] : ms >= 0.9995 ? [ms, 'ms'] : [ms * 1000, 'µs'];
    return v.toFixed(v >= 99.95 ? 0 : v >= 9.995 ? 1 : 2) + unit;
  }
  // Round values need no digits behind the point.
  const round = (ms) => time(ms).replace(/\.0+(?=\D)/, '').replace(/(\.\d*?)0+(?=\D)/, '$1');
  function share(x) { // of 1/(1-p)
    if (x < 1.0001) return '0 %';
    const digits = Math.max(0, Math.ceil(Math.log10(x)) - 2);
    return (100 * (1 - 1 / x)).toFixed(digits) + ' %';
  }
  const number = (v) => (none(v) ? '–' : String(+v.toPrecision(4)).replace(/\B(?=(\d{3})+$)/g, ' '));
  const seconds = (v) => (none(v) ? '–' : +v.toFixed(3) + 's');

  function axes(width, x, y) {
    const common = { labelFont: '12px system-ui, sans-serif', labelSize: 18, labelGap: 2, stroke: css('--soft'), grid: { stroke: css('--line'), width: 1 }, ticks: { stroke: css('--line'), width: 1, size: 6 }, font: '12px system-ui, sans-serif' };
    return [x, { size: 58, gap: 3, ...y }].map((axis) => {
      const out = { ...common, ...axis };
      if (axis.filter) {
        out.grid = { ...common.grid, filter: axis.filter };
        out.ticks = { ...common.ticks, filter: axis.filter };
      }
      return out;
    });
  }

  // Logarithmic axes get only lines that have a label.
  const only = (named) => (u, ticks) => ticks.map((t) => (named(t) ? t : null));
  const names = (say) => (u, ticks) => ticks.map((t) => (t === null ? null : say(t)));
  const power = (t) => /^1e/.test(t.toExponential(0));
  const decades = { label: 'latency', values: names(round), filter: only((t) => /^[125]e/.test(t.toExponential(0))) };

  // The values under the cursor: line style, name, value.
  const legend = { markers: { width: 3, fill: () => 'transparent', dash: (u, i) => ((u.series[i].dash || []).length > 0 ? 'dotted' : 'solid') } };

  // Series with different x values are joined into one table.
  function joined(parts) {
    return uPlot.join(parts.map((p) => [p.x, p.y]));
  }

  function curves(width) {
    const parts = [];
    for (const lane of lanes) {
      for (const from of ['intended', 'sent']) {
        const points = lane[from];
        if (!shown(lane) || !state[from] || points.length === 0) continue;
        parts.push({
          x: points.map((p) => p[0]), y: points.map((p) => Math.max(p[1], 0.001)),
          series: {
            label: lane.label + (state.intended && state.sent ? ', ' + latencyName[from] : ''),
            stroke: hue(lane), width: from === 'sent' ? 1.25 : broad(lane), dash: from === 'sent' ? [2, 4] : dash(lane),
            points: { show: false }, spanGaps: true, value: (u, v) => time(v),
          },
          lane,
        });
      }
    }
    if (parts.length === 0) return null;
    return {
      data: joined(parts),
      opts: {
        width, height: 380, legend, padding: [null, 34, null, null], // half of "99.9999 %"
        plugins: [{ hooks: { drawClear: [limit], draw: [(u) => marks(u, parts)] } }],
        scales: { x: { time: false, distr: 3, log: 10 }, y: { distr: 3, log: 10 } },
        axes: axes(width, { label: 'percentile of deliveries', values: names(share), filter: only((t) => power(t) || (width >= 500 && Math.abs(t - 2) < 1e-9)) }, decades),
        series: [{ label: 'percentile', value: (u, v) => (none(v) ? '–' : share(v)) }, ...parts.map((p) => p.series)],
      },
    };
  }

  // limit shades the latencies below the resolution limit of every run.
  function limit(u) {
    const most = Math.min(...data.runs.map((run) => run.limit));
    const { ctx } = u;
    const { left, top, width, height } = u.bbox;
    const y = Math.max(u.valToPos(most, 'y', true), top);
    if (!(most > 0) || y >= top + height) return;
    ctx.save();
    ctx.fillStyle = css('--limit');
    ctx.fillRect(left, y, width, top + height - y);
    ctx.fillStyle = css('--soft');
    ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
    ctx.textAlign = 'right';
    ctx.textBaseline = 'top';
    if (top + height - y > 16 * devicePixelRatio) ctx.fillText(`below the resolution limit, ${time(most)}`, left + width - 6 * devicePixelRatio, y + 3 * devicePixelRatio);
    ctx.restore();
  }

  // shape draws the mark of a lane, which tells it apart without its colour.
  function shape(ctx, lane, x, y, size, hollow) {
    ctx.save();
    ctx.translate(x, y);
    ctx.scale(size / 6, size / 6);
    const path = new Path2D(data.shapes[lane.hue % data.shapes.length]);
    ctx.fillStyle = ctx.strokeStyle = hue(lane);
    ctx.lineWidth = 1.5;
    if (hollow) ctx.fillStyle = css('--page');
    ctx.fill(path);
    if (hollow) ctx.stroke(path);
    ctx.restore();
  }

  // marks draws the marks of the lanes on their lines, about every 90 pixels, each lane's beside
  // those of the others.
  function marks(u, parts) {
    const { ctx } = u;
    const { left, width } = u.bbox;
    const step = 90 * devicePixelRatio;
    parts.forEach((p, n) => {
      if (!p.lane) return;
      let next = left + (step * (n + 0.5)) / parts.length;
      p.x.forEach((x, i) => {
        if (none(p.y[i]) || x < u.scales.x.min || x > u.scales.x.max) return;
        const at = u.valToPos(x, 'x', true);
        if (at < next && !(i === p.x.length - 1 && next < left + step)) return;
        while (next <= at) next += step;
        if (at <= left + width + 1) shape(ctx, p.lane, at, u.valToPos(p.y[i], 'y', true), 5.5 * devicePixelRatio, p.lane.run % 2 === 1);
      });
    });
  }

  // behind draws the phases behind a chart.
  function behind(u, shades) {
    if (several) return;
    const { ctx } = u;
    const { left, top, width, height } = u.bbox;
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, top, width, height);
    ctx.clip();
    ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
    ctx.textBaseline = 'top';
    ctx.textAlign = 'left';
    data.runs[0].phases.forEach((p, i) => {
      const from = Math.max(u.valToPos(p.start, 'x', true), left);
      const to = u.valToPos(p.end, 'x', true);
      ctx.fillStyle = css(shades ? '--shade' : '--soft');
      if (shades && i % 2 === 0) ctx.fillRect(from, top, to - from, height);
      if (!shades && to - from > ctx.measureText(p.name).width + 8) ctx.fillText(p.name, from + 4, top + 3);
    });
    ctx.restore();
  }

  // All charts over time share one axis range.
  const span = (() => {
    let from = Infinity;
    let to = -Infinity;
    for (const run of data.runs) {
      for (const part of [run.published, ...run.lanes]) {
        if (part.time.length === 0) continue;
        from = Math.min(from, part.time[0]);
        to = Math.max(to, part.time[part.time.length - 1] + part.width);
      }
    }
    return [from, to];
  })();

  function timeline(width, height, parts, y, draw) {
    if (parts.length === 0) return null;
    return {
      data: joined(parts),
      opts: {
        width, height, legend,
        plugins: [{ hooks: { drawClear: [(u) => behind(u, true)], draw: [(u) => behind(u, false), draw || ((u) => marks(u, parts))] } }],
        // All lanes of a run have the same intervals: an interval that a lane lacks had no deliveries.
        cursor: { sync: { key: 'time' }, ...(several ? {} : { dataIdx: (u, s, i) => i }) },
        scales: { x: { time: false, range: (u, min, max) => (u.zoomed ? [min, max] : span) }, y: y.scale },
        hooks: { setSelect: [(u) => { u.zoomed = u.select.width > 0; }] },
        axes: axes(width, { label: several ? 'time since each run began to publish' : 'time since the run began', values: (u, ticks) => ticks.map(seconds) }, y.axis || {}),
        series: [{ label: several ? 'since the run began to publish' : 'since the run began', value: (u, v) => seconds(v) }, ...parts.map((p) => p.series)],
      },
    };
  }

  const stepped = () => uPlot.paths.stepped({ align: 1 });
  const upward = { scale: { range: (u, min, max) => [0, Math.max(max, 1) * 1.08] }, axis: { label: 'per second', values: (u, ticks) => ticks.map(number) } };
  const overTime = () => lanes.filter((lane) => shown(lane) && lane.time.length > 0);

  function published(width) {
    const parts = [];
    data.runs.forEach((run, i) => {
      if (!state.runs[i] || run.published.time.length === 0) return;
      parts.push({
        x: run.published.time, y: run.published.published,
        series: {
          label: (several ? run.name + ' · ' : '') + 'published', stroke: css('--ink'), fill: several ? undefined : css('--fill'), width: 1.25, dash: dashes[i % dashes.length],
          paths: stepped(), points: { show: false }, value: (u, v) => number(v),
        },
      });
    });
    return timeline(width, 170, parts, upward);
  }

  function delivered(width) {
    return timeline(width, 220, overTime().map((lane) => ({
      x: [...lane.time, lane.time[lane.time.length - 1] + lane.width], y: [...lane.delivered, 0], // the last interval needs an end
      series: { label: lane.label, stroke: hue(lane), width: several ? 1.25 : Math.min(broad(lane), 2.5), dash: dash(lane), paths: stepped(), points: { show: false }, value: (u, v) => number(v) },
      lane,
    })), upward);
  }

  function latencies(width) {
    const parts = [];
    for (const lane of overTime()) {
      for (const q of several ? ['p99'] : ['p99', 'p50']) { // several runs would be too many lines
        parts.push({
          x: lane.time, y: lane[q],
          series: {
            label: lane.label + ' ' + q, stroke: hue(lane), width: q === 'p99' ? Math.min(broad(lane), 2.5) : 1.25, alpha: q === 'p99' ? 1 : 0.55,
            dash: dash(lane), points: { show: false }, spanGaps: true, value: (u, v) => time(v),
          },
          lane: q === 'p99' ? lane : undefined,
        });
      }
    }
    return timeline(width, 260, parts, { scale: { distr: 3, log: 10 }, axis: decades });
  }

  // Incidents are dots, in a row for each kind: the position is the time, the size the number.
  const kinds = [['overtaken', 'overtaken'], ['duplicates', 'duplicate'], ['late', 'late'], ['outOfOrder', 'out of order'], ['unexpected', 'unexpected']];
  function incidents(width) {
    const seen = kinds.filter(([key]) => lanes.some((lane) => lane[key].some((n) => n > 0)));
    const most = Math.max(1, ...lanes.flatMap((lane) => seen.flatMap(([key]) => lane[key])));
    const parts = [];
    const there = overTime();
    seen.forEach(([key, name], row) => {
      there.forEach((lane, place) => {
        if (!lane[key].some((n) => n > 0)) return;
        const at = seen.length - 1 - row + 0.28 - (0.56 * (place + 0.5)) / there.length;
        const counts = new Map(lane.time.map((t, i) => [t, lane[key][i]]));
        parts.push({
          x: lane.time, y: lane[key].map((n) => (n > 0 ? at : null)), counts, lane, hollow: lane.run % 2 === 1,
          series: { label: lane.label + ', ' + name, stroke: hue(lane), width: 2, paths: () => null, points: { show: false }, value: (u, v, s, i) => (none(i) ? '–' : number(counts.get(u.data[0][i]) || 0)) },
        });
      });
    });
    const dots = (u) => {
      const { ctx } = u;
      ctx.save();
      parts.forEach((p) => p.x.forEach((x, i) => {
        if (p.y[i] === null || x < u.scales.x.min || x > u.scales.x.max) return;
        ctx.globalAlpha = 0.8;
        shape(ctx, p.lane, u.valToPos(x, 'x', true), u.valToPos(p.y[i], 'y', true), devicePixelRatio * (3 + 6 * Math.sqrt(p.counts.get(x) / most)), p.hollow);
      }));
      ctx.restore();
    };
    const rows = seen.map((_, i) => i);
    return timeline(width, 60 + 46 * seen.length, parts, {
      scale: { range: () => [-0.5, seen.length - 0.5] },
      axis: { size: width < 500 ? 80 : 88, splits: () => rows, values: (u, ticks) => ticks.map((t) => seen[seen.length - 1 - t][1]) },
    }, dots);
  }

  const makers = { curve: curves, published, delivered, latency: latencies, incidents };

  function draw() {
    while (charts.length > 0) charts.pop().destroy();
    for (const [id, make] of Object.entries(makers)) {
      const box = document.getElementById(id);
      if (!box) continue;
      const paper = root.classList.contains('paper');
      const chart = make(paper ? 680 : box.clientWidth);
      box.textContent = chart === null ? 'No lane is selected.' : '';
      box.onkeydown = null;
      if (chart === null) continue;
      const u = new uPlot(chart.opts, chart.data, box);
      charts.push(u);
      box.onkeydown = (e) => walk(u, e);
    }
    root.dataset.charts = String(charts.length); // for tests that wait for the charts
  }

  // walk moves the cursor with the arrow keys.
  function walk(u, e) {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity }[e.key];
    if (step === undefined) return;
    e.preventDefault();
    u.root.querySelector('.u-legend').setAttribute('aria-live', 'polite');
    const x = u.data[0];
    const at = none(u.cursor.idx) ? (step < 0 ? x.length : -1) : u.cursor.idx;
    const to = Math.min(x.length - 1, Math.max(0, at + step));
    u.setCursor({ left: u.valToPos(x[to], 'x'), top: u.over.clientHeight / 2 });
  }

  function sample(dashed, kind) {
    const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
    const line = document.createElementNS('http://www.w3.org/2000/svg', 'line');
    svg.setAttribute('class', 'sample ' + kind);
    svg.setAttribute('viewBox', '0 0 28 6');
    svg.setAttribute('aria-hidden', 'true');
    for (const [name, value] of Object.entries({ x1: 0, x2: 28, y1: 3, y2: 3, 'stroke-dasharray': dashed.join(' ') })) line.setAttribute(name, value);
    svg.append(line);
    return svg;
  }
  function laneMark(lane) {
    const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
    const path = document.createElementNS('http://www.w3.org/2000/svg', 'path');
    svg.setAttribute('class', 'mark hue' + lane.hue);
    svg.setAttribute('viewBox', '-6 -6 12 12');
    svg.setAttribute('aria-hidden', 'true');
    path.setAttribute('d', data.shapes[lane.hue % data.shapes.length]);
    svg.append(path);
    return svg;
  }
  function check(text, get, set, mark) {
    const label = document.createElement('label');
    const input = document.createElement('input');
    input.type = 'checkbox';
    input.checked = get();
    input.addEventListener('change', () => { set(input.checked); sync(); draw(); });
    input.sync = () => { input.checked = get(); };
    label.append(input);
    if (mark) label.append(mark);
    label.append(text);
    return label;
  }
  function sync() {
    document.querySelectorAll('.controls input').forEach((i) => i.sync());
  }
  for (const box of document.querySelectorAll('.controls')) {
    const named = new Set();
    for (const lane of lanes) {
      if (named.has(lane.lane)) continue;
      named.add(lane.lane);
      box.append(check(lane.lane, () => state.lanes[lane.lane], (v) => { state.lanes[lane.lane] = v; }, laneMark(lane)));
    }
    if (several) data.runs.forEach((run, i) => box.append(check(run.name, () => state.runs[i], (v) => { state.runs[i] = v; }, sample(dashes[i % dashes.length], 'plain'))));
    if (box.dataset.for === 'curve') {
      box.append(check(latencyName.intended, () => state.intended, (v) => { state.intended = v; }));
      box.append(check(latencyName.sent, () => state.sent, (v) => { state.sent = v; }, sample([2, 4], 'plain')));
    }
  }

  const main = document.querySelector('main');
  let drawn = main.clientWidth;
  draw();
  new ResizeObserver(() => {
    if (main.clientWidth === drawn || root.classList.contains('paper')) return;
    drawn = main.clientWidth;
    requestAnimationFrame(draw); // not while the page is being laid out
  }).observe(main);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
  // Print in light colours at page width, with the thresholds unfolded.
  const folded = () => document.querySelectorAll('header details, details.all, details.anomaly');
  addEventListener('beforeprint', () => {
    folded().forEach((d) => { d.dataset.was = d.open ? '1' : ''; d.open = true; });
    root.classList.add('paper');
    draw();
  });
  addEventListener('afterprint', () => {
    folded().forEach((d) => { d.open = d.dataset.was === '1'; });
    root.classList.remove('paper');
    draw();
  });
})();
