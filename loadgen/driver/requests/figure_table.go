package requests

import "github.com/eventmeter/eventmeter/internal/figure"

// FigureTable declares the figures of lanes of system requests. They are of the
// requests that were begun in the measured part of a run.
var FigureTable = figure.Table{Name: "requests", Systems: []string{"requests"}, Figures: []figure.Figure{
	{Name: "scheduled", Help: "requests that were due: requests and dropped together"},
	{Name: "dropped", Help: "requests that were due and not sent, because there was no client, or the run had ended"},
	{Name: "requests", Help: "requests that were sent"},
	{Name: "abandoned", Help: "of those, requests that were given up because churn ended their client"},
	{Name: "failed", Help: "requests without a result, those that the drain ended included"},
	{Name: "failedStatus", Help: "of those, requests that were answered with an HTTP status of 300 or more"},
	{Name: "failedInside200", Help: "of those, requests that were answered with a JSON-RPC error inside HTTP status 200, or over a pipe"},
	{Name: "failedUnanswered", Help: "of those, requests without an answer that could be read"},
	{Name: "sessionsForgotten", Help: "sessions that the server no longer knew (404), in place of which a client opened a new one"},
	{Name: "latencyP95Ms", Rule: figure.Percentile("latency", 95), Help: "95th percentile of latency in milliseconds"},
	figure.Duration("latency", "from sending a request until its result was read"),
}}
