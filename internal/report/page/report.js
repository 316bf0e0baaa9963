'use strict';
// Draws the charts of the report from the numbers in #data. Everything that is
// drawn here stands in tables on the page as well.
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const several = data.runs.length > 1;
  const lanes = [];
  data.runs.forEach((run, i) => run.lanes.forEach((lane, place) => lanes.push({ ...lane, run: i, place, shown: true })));
  const dashes = [[], [9, 4], [3, 3], [12, 3, 3, 3]];
  const charts = [];
  const state = { intended: true, sent: !several };

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  // Lanes that lie on each other are still seen: the later, the thinner.
  const broad = (lane) => Math.max(1.5, 4 - lane.place * 1.1);
  const hue = (lane) => css('--hue' + lane.hue);
  const dash = (lane) => dashes[lane.run % dashes.length];

  function time(ms) {
    if (ms === null || ms === undefined) return '–';
    if (ms >= 1000) return +(ms / 1000).toPrecision(3) + ' s';
    if (ms >= 1) return +ms.toPrecision(3) + ' ms';
    return +(ms * 1000).toPrecision(3) + ' µs';
  }
  function share(x) { // of 1/(1-p)
    if (x < 1.0001) return '0 %';
    const digits = Math.max(0, Math.ceil(Math.log10(x)) - 2);
    return (100 * (1 - 1 / x)).toFixed(digits) + ' %';
  }

  function axes(x, y) {
    const common = { stroke: css('--soft'), grid: { stroke: css('--line'), width: 1 }, ticks: { stroke: css('--line'), width: 1 }, font: '12px system-ui, sans-serif' };
    return [x, { size: 76, ...y }].map((axis) => {
      const out = { ...common, ...axis };
      if (axis.filter) {
        out.grid = { ...common.grid, filter: axis.filter };
        out.ticks = { ...common.ticks, filter: axis.filter };
      }
      return out;
    });
  }

  // Logarithmic axes get the lines that are worth a name, and no others.
  const only = (named) => (u, ticks) => ticks.map((t) => (named(t) ? t : null));
  const names = (say) => (u, ticks) => ticks.map((t) => (t === null ? null : say(t)));
  const power = (t) => /^1e/.test(t.toExponential(0));
  const decades = { values: names(time), filter: only((t) => /^[125]e/.test(t.toExponential(0))) };

  // Series that have x values of their own are joined into one table.
  function joined(parts) {
    return uPlot.join(parts.map((p) => [p.x, p.y]));
  }

  function curves(width) {
    const parts = [];
    for (const lane of lanes) {
      for (const from of ['intended', 'sent']) {
        const points = lane[from];
        if (!lane.shown || !state[from] || !points || points.length === 0) continue;
        parts.push({
          x: points.map((p) => p[0]), y: points.map((p) => Math.max(p[1], 0.001)),
          series: {
            label: lane.label + (state.intended && state.sent ? ', from ' + from : ''),
            stroke: hue(lane), width: from === 'sent' ? 1.25 : broad(lane), dash: from === 'sent' ? [2, 4] : dash(lane),
            points: { show: false }, spanGaps: true, value: (u, v) => time(v),
          },
        });
      }
    }
    if (parts.length === 0) return null;
    return {
      data: joined(parts),
      opts: {
        width, height: 380,
        scales: { x: { time: false, distr: 3, log: 10 }, y: { distr: 3, log: 10 } },
        axes: axes(
          { values: names(share), filter: only((t) => power(t) || Math.abs(t - 2) < 1e-9) },
          decades,
        ),
        series: [{ label: 'percentile', value: (u, v) => (v === null || v === undefined ? '–' : share(v)) }, ...parts.map((p) => p.series)],
      },
    };
  }

  // Phases lie behind what happened in them.
  function phases() {
    return {
      hooks: {
        drawClear: [(u) => behind(u, true)],
        draw: [(u) => behind(u, false)],
      },
    };
  }
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
      const from = u.valToPos(p.start, 'x', true);
      const to = u.valToPos(p.end, 'x', true);
      ctx.fillStyle = css(shades ? '--shade' : '--soft');
      if (shades && i % 2 === 0) ctx.fillRect(from, top, to - from, height);
      if (!shades && to - from > ctx.measureText(p.name).width + 8) ctx.fillText(p.name, from + 4, top + 3);
    });
    ctx.restore();
  }

  function timeline(width, height, parts, y) {
    if (parts.length === 0) return null;
    return {
      data: joined(parts),
      opts: {
        width, height, plugins: [phases()],
        cursor: { sync: { key: 'time' } },
        scales: { x: { time: false }, y: y.scale },
        axes: axes({ values: (u, ticks) => ticks.map((t) => t + ' s') }, y.values ? { values: y.values, filter: y.filter } : {}),
        series: [{ label: 'since the run began', value: (u, v) => (v === null || v === undefined ? '–' : v + ' s') }, ...parts.map((p) => p.series)],
      },
    };
  }

  const number = (v) => (v === null || v === undefined ? '–' : String(+v.toPrecision(4)));

  function rates(width) {
    const parts = [];
    data.runs.forEach((run, i) => {
      const lane = run.lanes.find((l) => l.time && l.time.length > 0);
      if (!lane) return;
      parts.push({
        x: lane.time, y: lane.fired,
        series: {
          label: (several ? run.name + ' · ' : '') + 'fired', stroke: css('--soft'), fill: css('--shade'), width: 1, dash: dashes[i % dashes.length],
          paths: uPlot.paths.stepped({ align: 1 }), points: { show: false }, value: (u, v) => number(v),
        },
      });
    });
    for (const lane of lanes) {
      if (!lane.shown || !lane.time || lane.time.length === 0) continue;
      parts.push({
        x: lane.time, y: lane.given,
        series: { label: lane.label, stroke: hue(lane), width: broad(lane), dash: dash(lane), paths: uPlot.paths.stepped({ align: 1 }), points: { show: false }, value: (u, v) => number(v) },
      });
    }
    return timeline(width, 240, parts, { scale: { range: (u, min, max) => [0, Math.max(max, 1) * 1.08] } });
  }

  function latencies(width) {
    const parts = [];
    for (const lane of lanes) {
      if (!lane.shown || !lane.time || lane.time.length === 0) continue;
      for (const q of ['p99', 'p50']) {
        parts.push({
          x: lane.time, y: lane[q],
          series: {
            label: lane.label + ' ' + q, stroke: hue(lane), width: q === 'p99' ? broad(lane) : 1.25, alpha: q === 'p99' ? 1 : 0.55,
            dash: dash(lane), points: { show: lane.time.length < 40, size: 4 }, spanGaps: true, value: (u, v) => time(v),
          },
        });
      }
    }
    return timeline(width, 260, parts, {
      scale: { distr: 3, log: 10 },
      ...decades,
    });
  }

  const kinds = [['missed', 'passed over', []], ['twice', 'twice', [8, 3]], ['late', 'late', [2, 3]], ['disorder', 'out of order', [10, 3, 2, 3]], ['strange', 'unexpected', [5, 5]]];
  function incidents(width) {
    const parts = [];
    for (const lane of lanes) {
      if (!lane.shown || !lane.time) continue;
      for (const [key, name, line] of kinds) {
        if (!lane[key] || !lane[key].some((n) => n > 0)) continue;
        parts.push({
          x: lane.time, y: lane[key],
          series: { label: lane.label + ', ' + name, stroke: hue(lane), width: 2, dash: line, points: { show: true, size: 5 }, value: (u, v) => number(v) },
        });
      }
    }
    return timeline(width, 220, parts, { scale: { range: (u, min, max) => [0, Math.max(max, 1) * 1.08] } });
  }

  const makers = { curve: curves, rate: rates, latency: latencies, incidents };

  function draw() {
    while (charts.length > 0) charts.pop().destroy();
    for (const [id, make] of Object.entries(makers)) {
      const box = document.getElementById(id);
      if (!box) continue;
      const chart = make(box.clientWidth);
      box.textContent = chart === null ? 'Nothing is chosen.' : '';
      if (chart !== null) charts.push(new uPlot(chart.opts, chart.data, box));
    }
    document.documentElement.dataset.charts = String(charts.length); // for whoever waits for the drawing
  }

  function check(text, get, set, lane) {
    const label = document.createElement('label');
    const input = document.createElement('input');
    input.type = 'checkbox';
    input.checked = get();
    input.addEventListener('change', () => { set(input.checked); sync(); draw(); });
    input.sync = () => { input.checked = get(); };
    label.append(input);
    if (lane) {
      const dot = document.createElement('i');
      dot.className = 'dot hue' + lane.hue;
      label.append(dot);
    }
    label.append(text);
    return label;
  }
  function sync() {
    document.querySelectorAll('.controls input').forEach((i) => i.sync());
  }
  for (const box of document.querySelectorAll('.controls')) {
    if (box.dataset.for === 'curve') {
      box.append(check('from intended', () => state.intended, (v) => { state.intended = v; }));
      box.append(check('from sent (dotted)', () => state.sent, (v) => { state.sent = v; }));
    }
    for (const lane of lanes) box.append(check(lane.label, () => lane.shown, (v) => { lane.shown = v; }, lane));
  }

  const main = document.querySelector('main');
  let drawn = main.clientWidth;
  draw();
  new ResizeObserver(() => {
    if (main.clientWidth === drawn) return;
    drawn = main.clientWidth;
    requestAnimationFrame(draw); // not while the page is being laid out
  }).observe(main);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
  addEventListener('beforeprint', draw);
  addEventListener('afterprint', draw);
})();
