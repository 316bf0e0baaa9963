// JUnit from handleSummary: every threshold is a test case, and a crossed threshold
// is a failed one. For your own script:
//
//   import { junit, lines } from './lib/junit.js';
//   export const handleSummary = (data) => ({ 'junit.xml': junit(data, 'my test'), stdout: lines(data) });

/**
 * The parts of handleSummary's argument that are used here.
 * @typedef {{ values: Record<string, number>, thresholds?: Record<string, { ok: boolean }> }} Metric
 * @typedef {{ metrics: Record<string, Metric>, state: { testRunDurationMs: number } }} Summary
 */

/**
 * One threshold of a summary.
 * @typedef {{ metric: string, rule: string, ok: boolean, values: string }} Verdict
 */

/**
 * All thresholds, in the order of their metrics' names.
 * @param {Summary} data
 * @returns {Verdict[]}
 */
function verdicts(data) {
  /** @type {Verdict[]} */
  const list = [];
  for (const metric of Object.keys(data.metrics).sort()) {
    const { values, thresholds = {} } = data.metrics[metric];
    // A Trend only has the values named in options.summaryTrendStats.
    const shown = Object.keys(values).sort().map((name) => `${name} ${Number(values[name].toFixed(3))}`).join(', ');
    for (const rule of Object.keys(thresholds)) {
      list.push({ metric, rule, ok: thresholds[rule].ok, values: shown });
    }
  }
  return list;
}

/**
 * Escapes text for XML, between tags and in attributes.
 * @param {string} text
 */
function escape(text) {
  return text
    .replace(/[^\t\n\r\u0020-\uD7FF\uE000-\uFFFD]/g, '\uFFFD') // characters that XML 1.0 does not allow
    .replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;').replace(/"/g, '&quot;');
}

/**
 * A JUnit report.
 * @param {Summary} data what handleSummary was given
 * @param {string} [name] of the test suite
 */
export function junit(data, name = 'k6') {
  const list = verdicts(data);
  const sums = `tests="${list.length}" failures="${list.filter((v) => !v.ok).length}" time="${(data.state.testRunDurationMs / 1000).toFixed(3)}"`;
  const cases = list.map((v) => {
    const open = `    <testcase classname="${escape(v.metric)}" name="${escape(v.rule)}"`;
    if (v.ok) return `${open}/>`;
    return `${open}>\n      <failure type="threshold" message="${escape(`${v.metric}: ${v.rule} was crossed`)}">${escape(v.values)}</failure>\n    </testcase>`;
  });
  return ['<?xml version="1.0" encoding="UTF-8"?>', `<testsuites ${sums}>`, `  <testsuite name="${escape(name)}" ${sums}>`, ...cases, '  </testsuite>', '</testsuites>', '']
    .join('\n');
}

/**
 * A line for each threshold, to print: handleSummary replaces k6's own summary.
 * @param {Summary} data what handleSummary was given
 */
export function lines(data) {
  return verdicts(data).map((v) => `${v.ok ? 'pass' : 'FAIL'}  ${v.metric} ${v.rule}  (${v.values})\n`).join('');
}
