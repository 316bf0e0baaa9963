import { FieldType, formattedValueToString, getFieldDisplayName, getValueFormat } from '@grafana/data';
import React from 'react';

// Heatmaps, state timelines and XY charts are drawn in Grafana by code that
// @grafana/ui does not have. Here the tool draws them itself, plainly: they show
// whether the data, the units and the colours are what a panel needs, and not
// how Grafana draws it.

const margin = { left: 62, right: 8, top: 6, bottom: 22 };
const text = (unit, v) => formattedValueToString(getValueFormat(unit)(v));

function Frame({ width, height, x, y, theme, children }) {
  const grid = theme.colors.border.weak, ink = theme.colors.text.primary;
  return <svg width={width} height={height} fontSize={12} fill={ink}>
    {y.map(([at, label]) => <g key={'y' + label}>
      <line x1={margin.left} x2={width - margin.right} y1={at} y2={at} stroke={grid} />
      <text x={margin.left - 6} y={at + 4} textAnchor="end">{label}</text>
    </g>)}
    {x.map(([at, label]) => <g key={'x' + label}>
      <line x1={at} x2={at} y1={margin.top} y2={height - margin.bottom} stroke={grid} />
      <text x={at} y={height - 6} textAnchor="middle">{label}</text>
    </g>)}
    {children}
  </svg>;
}

// round are some round numbers from low to high.
function round(low, high, most) {
  const rough = (high - low) / most || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((s) => s >= rough);
  const out = [];
  for (let v = Math.ceil(low / step) * step; v <= high + step / 1e6; v += step) out.push(v);
  return out;
}

const overTime = (snapshot, width) => (ms) => margin.left + ((ms - snapshot.from) / (snapshot.to - snapshot.from)) * (width - margin.left - margin.right);

function clock(snapshot, at) {
  const step = [5, 10, 30, 60, 120, 300, 600].find((s) => (snapshot.to - snapshot.from) / 1000 / s <= 6) ?? 1800;
  const out = [];
  for (let s = Math.ceil(snapshot.from / 1000 / step) * step; s * 1000 <= snapshot.to; s += step) out.push([at(s * 1000), new Date(s * 1000).toISOString().slice(11, 19)]);
  return out;
}

// shade goes from light to dark.
function shade(share) {
  const stops = [[255, 240, 225], [253, 141, 60], [127, 39, 4]];
  const p = share * 2, i = Math.min(Math.floor(p), 1);
  return `rgb(${stops[i].map((c, k) => Math.round(c + (stops[i + 1][k] - c) * (p - i))).join(',')})`;
}

// Heat draws native histograms over time: every bucket at its own bounds.
export function Heat({ panel, answers, snapshot, width, height, theme }) {
  const cells = answers.flat().flatMap((s) => s.histograms ?? []).flatMap(([t, h]) => (h.buckets ?? []).map(([, low, high, n]) => ({ t: t * 1000, low: Number(low), high: Number(high), n: Number(n) }))).filter((c) => c.low > 0 && c.n > 0);
  if (cells.length === 0) {
    return <em>no data</em>;
  }
  const low = Math.min(...cells.map((c) => c.low)), high = Math.max(...cells.map((c) => c.high)), most = Math.max(...cells.map((c) => c.n));
  const x = overTime(snapshot, width), foot = height - margin.bottom;
  const y = (v) => foot - (Math.log2(v / low) / Math.log2(high / low)) * (foot - margin.top);
  const ticks = [];
  for (let v = 2 ** Math.ceil(Math.log2(low)); v <= high; v *= 2 ** Math.ceil(Math.log2(high / low) / 6)) ticks.push([y(v), text(panel.options.yAxis.unit, v)]);
  const step = snapshot.step * 1000;
  return <Frame width={width} height={height} theme={theme} x={clock(snapshot, x)} y={ticks}>
    {cells.map((c, i) => <rect key={i} x={x(c.t - step)} width={x(c.t) - x(c.t - step)} y={y(c.high)} height={y(c.low) - y(c.high)} fill={shade((c.n / most) ** panel.options.color.exponent)} />)}
  </Frame>;
}

// States draws a bar for as long as a series has a value, a row for each series.
export function States({ data, snapshot, width, height, theme }) {
  const x = overTime(snapshot, width), foot = height - margin.bottom, row = (foot - margin.top) / data.length, step = snapshot.step * 1000;
  return <Frame width={width} height={height} theme={theme} x={clock(snapshot, x)} y={data.map((f, i) => [margin.top + row * (i + 0.5), getFieldDisplayName(f.fields[1], f, data)])}>
    {data.flatMap((f, i) => f.fields[0].values.map((t, k) => <rect key={`${i} ${k}`} x={x(t)} width={x(t + step) - x(t)} y={margin.top + row * (i + 0.1)} height={row * 0.8} fill={f.fields[1].display(f.fields[1].values[k]).color} />))}
  </Frame>;
}

// Points draws the number fields after the first against the first.
export function Points({ data, width, height, theme }) {
  const [of, ...ys] = data[0]?.fields.filter((f) => f.type === FieldType.number) ?? [];
  if (!of || ys.length === 0) {
    return <em>no data</em>;
  }
  const bounds = (fields, pad) => {
    const all = fields.flatMap((f) => f.values).filter(Number.isFinite);
    const low = Math.min(...all), high = Math.max(...all), more = (high - low || high || 1) * pad;
    return [low - more, high + more];
  };
  const [left, right] = bounds([of], 0.05), [, top] = bounds(ys, 0.1), tall = height - 18, foot = tall - margin.bottom;
  const x = (v) => margin.left + ((v - left) / (right - left)) * (width - margin.left - margin.right), y = (v) => foot - (v / top) * (foot - margin.top);
  const label = (f) => (v) => formattedValueToString(f.display(v));
  return <div>
    <Frame width={width} height={tall} theme={theme} x={round(left, right, 6).map((v) => [x(v), label(of)(v)])} y={round(0, top, 5).map((v) => [y(v), label(ys[0])(v)])}>
      {ys.flatMap((f, s) => f.values.map((v, i) => Number.isFinite(v) && <circle key={`${s} ${i}`} cx={x(of.values[i])} cy={y(v)} r={4} fill={f.display(v).color} fillOpacity={0.6} stroke={f.display(v).color} />))}
    </Frame>
    <div style={{ fontSize: 12, textAlign: 'center' }}>{getFieldDisplayName(of, data[0])} →{ys.map((f) => <span key={f.name} style={{ marginLeft: 12 }}><span style={{ color: f.display(1).color }}>●</span> {getFieldDisplayName(f, data[0])}</span>)}</div>
  </div>;
}
