import {
  applyFieldOverrides, createFieldConfigRegistry, createTheme, dateTime, FieldType,
  getDisplayValueAlignmentFactors, getFieldDisplayValues, standardEditorsRegistry, standardFieldConfigEditorRegistry, standardTransformers, standardTransformersRegistry, toDataFrame, transformDataFrame, VizOrientation,
} from '@grafana/data';
import { BigValue, Table, ThemeContext, TimeSeries, VizRepeater } from '@grafana/ui';
import React from 'react';
import { createRoot } from 'react-dom/client';
import { lastValueFrom } from 'rxjs';

import { Heat, Points, States } from './own.jsx';

// Draws a dashboard as it is committed, from answers of a real Prometheus. The
// transformations, units, colours and overrides are applied by @grafana/data,
// charts, tables and numbers are drawn by @grafana/ui. The answers stand in
// snapshot.json, which render.mjs writes.

// The options that every field has; their editors are of no use here.
const option = (path) => ({ id: path, path, name: path, editor: () => null, override: () => null, process: (v) => v, shouldApply: () => true });
standardEditorsRegistry.setInit(() => []);
standardFieldConfigEditorRegistry.setInit(() => ['unit', 'min', 'max', 'decimals', 'displayName', 'noValue', 'color', 'thresholds', 'mappings', 'links'].map(option));
standardTransformersRegistry.setInit(() => [...new Map(Object.values(standardTransformers).map((t) => [t.id, t])).values()].map((t) => ({ id: t.id, name: t.name, transformation: t, editor: () => null, imageDark: '', imageLight: '' })));

const theme = createTheme({ colors: { mode: new URLSearchParams(location.search).get('theme') ?? 'light' } });
const custom = ['lineStyle', 'lineWidth', 'fillOpacity', 'drawStyle', 'scaleDistribution', 'showPoints', 'spanNulls', 'stacking', 'axisPlacement', 'lineInterpolation', 'cellOptions', 'minWidth', 'align'];
const registry = createFieldConfigRegistry({
  useCustomConfig: (b) => custom.forEach((path) => b.addCustomEditor(option(path))),
}, 'panel');

// frames makes data frames of the answers, as the data source of Prometheus does.
function frames(panel, answers) {
  const out = [];
  answers.forEach((answer, i) => {
    const target = panel.targets[i];
    if (target.format === 'table') {
      const names = [...new Set(answer.flatMap((s) => Object.keys(s.metric)))].filter((n) => n !== '__name__');
      out.push(toDataFrame({ refId: target.refId, fields: [
        { name: 'Time', type: FieldType.time, values: answer.map((s) => s.values[0][0] * 1000) },
        ...names.map((name) => ({ name, type: FieldType.string, values: answer.map((s) => s.metric[name] ?? '') })),
        { name: answers.length > 1 ? `Value #${target.refId}` : 'Value', type: FieldType.number, values: answer.map((s) => Number(s.values[0][1])) },
      ] }));
      return;
    }
    for (const s of answer) {
      const name = (target.legendFormat ?? '').replace(/\{\{\s*(\w+)\s*\}\}/g, (_, l) => s.metric[l] ?? '');
      out.push(toDataFrame({ refId: target.refId, name, fields: [
        { name: 'Time', type: FieldType.time, values: s.values.map((v) => v[0] * 1000) },
        { name: 'Value', type: FieldType.number, labels: s.metric, config: { displayNameFromDS: name }, values: s.values.map((v) => (v[1] === 'NaN' ? null : Number(v[1]))) },
      ] }));
    }
  });
  return out;
}

// variablesOf are those of a panel: one that is repeated has a value of its own.
const variablesOf = (panel, snapshot) => ({ ...snapshot.variables, ...panel.scopedVars });

const replace = (variables) => (text) => text.replace(/\$\{?(\w+)\}?/g, (all, name) => variables[name] ?? all);

async function prepared(panel, snapshot) {
  const series = await lastValueFrom(transformDataFrame(panel.transformations ?? [], frames(panel, snapshot.answers[panel.id])));
  return applyFieldOverrides({ data: series, fieldConfig: panel.fieldConfig, fieldConfigRegistry: registry, replaceVariables: replace(variablesOf(panel, snapshot)), theme, timeZone: 'utc' });
}

function Body({ panel, data, snapshot, width, height }) {
  if (panel.type === 'timeseries' && data.length === 0) {
    return <em>no data</em>;
  }
  if (panel.type === 'timeseries') {
    const range = { from: dateTime(snapshot.from), to: dateTime(snapshot.to), raw: { from: dateTime(snapshot.from), to: dateTime(snapshot.to) } };
    return <TimeSeries width={width} height={height} frames={data} timeRange={range} timeZone="utc" legend={{ ...panel.options.legend, calcs: [] }} theme={theme} tweakScale={(o) => o} tweakAxis={(o) => o} options={panel.options} replaceVariables={(v) => v} />;
  }
  if (panel.type === 'table') {
    return data[0] ? <Table data={data[0]} width={width} height={height} /> : null;
  }
  if (panel.type === 'stat') {
    const values = getFieldDisplayValues({ data, fieldConfig: panel.fieldConfig, reduceOptions: panel.options.reduceOptions, replaceVariables: replace(snapshot.variables), theme, timeZone: 'utc' });
    return <div style={{ width, height }}>
      <VizRepeater getValues={() => values} getAlignmentFactors={(all) => getDisplayValueAlignmentFactors(all)} width={width} height={height} source={data} itemSpacing={3} renderCounter={0} autoGrid orientation={VizOrientation.Auto}
        renderValue={({ value, width, height, alignmentFactors, count }) => <BigValue width={width} height={height} value={value.display} count={count} theme={theme} alignmentFactors={alignmentFactors}
          colorMode={panel.options.colorMode} graphMode={panel.options.graphMode} textMode={panel.options.textMode} justifyMode={panel.options.justifyMode} />} />
    </div>;
  }
  if (panel.type === 'heatmap') {
    return <Heat panel={panel} answers={snapshot.answers[panel.id]} snapshot={snapshot} width={width} height={height} theme={theme} />;
  }
  if (panel.type === 'state-timeline') {
    return <States data={data} snapshot={snapshot} width={width} height={height} theme={theme} />;
  }
  if (panel.type === 'xychart') {
    return <Points data={data} width={width} height={height} theme={theme} />;
  }
  return <em>{panel.type}: not drawn here</em>;
}

function Dashboard({ board, snapshot, data }) {
  const unit = 1416 / 24;
  const bottom = Math.max(...board.panels.map((p) => p.gridPos.y + p.gridPos.h));
  return <div style={{ position: 'relative', width: 1440, height: bottom * 38 + 60, background: theme.colors.background.canvas, color: theme.colors.text.primary, fontFamily: 'Inter, Helvetica, Arial, sans-serif', fontSize: 13 }}>
    <h1 style={{ margin: 0, padding: '14px 16px', fontSize: 18 }}>{board.title} <small>{snapshot.note}</small></h1>
    {board.panels.map((p) => {
      const at = { position: 'absolute', left: 12 + p.gridPos.x * unit, top: 50 + p.gridPos.y * 38, width: p.gridPos.w * unit - 8, height: p.gridPos.h * 38 - 8, boxSizing: 'border-box' };
      if (p.type === 'row') {
        return <h2 key={'row' + p.gridPos.y} style={{ ...at, fontSize: 15, margin: 0, paddingTop: 6 }}>{p.title}</h2>;
      }
      return <div key={p.id ?? p.title} style={{ ...at, background: theme.colors.background.primary, border: `1px solid ${theme.colors.border.weak}`, padding: 8, overflow: 'hidden' }}>
        <div style={{ fontWeight: 500, paddingBottom: 4 }}>{replace(variablesOf(p, snapshot))(p.title)}</div>
        <Body panel={p} data={data[p.id]} snapshot={snapshot} width={p.gridPos.w * unit - 26} height={p.gridPos.h * 38 - 46} />
      </div>;
    })}
  </div>;
}

const snapshot = await (await fetch('snapshot.json')).json();
const board = snapshot.board;
const data = {};
for (const p of board.panels.filter((p) => p.type !== 'row')) {
  data[p.id] = await prepared(p, snapshot);
}
createRoot(document.getElementById('root')).render(<ThemeContext.Provider value={theme}><Dashboard board={board} snapshot={snapshot} data={data} /></ThemeContext.Provider>);
requestAnimationFrame(() => setTimeout(() => { document.title = 'drawn'; }, 500));
