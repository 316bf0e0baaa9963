package sep2549

import (
	"time"

	"github.com/eventmeter/eventmeter/internal/figure"
)

// FigureTable declares the figures of lanes of SEP-2549. Most have a metric of
// their own, beside eventmeter_figure: they are what the dashboards of lists are
// about, and need counters.
var FigureTable = figure.Table{Name: "sep-2549", Systems: []string{"sep-2549"}, Figures: []figure.Figure{
	{Name: "uses", Help: "uses of the list: served, failed and abandoned"},
	{
		Name:   "usesServed",
		Help:   "uses that were served",
		Metric: listBy("eventmeter_list_uses_total", "outcome", "served", "Uses of a list that are over: served, failed or abandoned."),
	},
	{
		Name:   "usesFailed",
		Help:   "uses without an answer, and without a copy to fall back on",
		Metric: listBy("eventmeter_list_uses_total", "outcome", "failed", ""),
	},
	{
		Name:   "usesAbandoned",
		Help:   "uses whose client was ended meanwhile",
		Metric: listBy("eventmeter_list_uses_total", "outcome", "abandoned", ""),
	},
	{
		Name:   "usesMissed",
		Help:   "uses that were due while the one before still waited",
		Metric: list("eventmeter_list_uses_missed_total", "Uses that were due while the client was still busy with the one before."),
	},
	{
		Name:   "pageReads",
		Help:   "pages that uses needed",
		Metric: list("eventmeter_list_page_reads_total", "Pages of lists that uses read, from the cache or not."),
	},
	{Name: "fetches", Help: "requests for a page"},
	{
		Name: "fetchesFirst",
		Help: "fetches of a page without a copy",
		Metric: listBy(
			"eventmeter_list_fetches_total",
			"reason",
			"first",
			"Fetches of a page, by reason: first, expired (its time to live was over), changed (a notification said so), uncached or background.",
		),
	},
	{
		Name:   "fetchesExpired",
		Help:   "fetches of a page whose time was up",
		Metric: listBy("eventmeter_list_fetches_total", "reason", "expired", ""),
	},
	{
		Name:   "fetchesChanged",
		Help:   "fetches of a page after a notification",
		Metric: listBy("eventmeter_list_fetches_total", "reason", "changed", ""),
	},
	{
		Name:   "fetchesUncached",
		Help:   "fetches of a page that is not to be kept",
		Metric: listBy("eventmeter_list_fetches_total", "reason", "uncached", ""),
	},
	{
		Name:   "fetchesBackground",
		Help:   "fetches of a page in the background",
		Metric: listBy("eventmeter_list_fetches_total", "reason", "background", ""),
	},
	{
		Name:   "fetchesAvoided",
		Help:   "pages that were there and fresh",
		Metric: list("eventmeter_list_fetches_avoided_total", "Reads of a page that the cache answered."),
	},
	{
		Name:   "fetchesShared",
		Help:   "pages that somebody else was already fetching",
		Metric: list("eventmeter_list_fetches_shared_total", "Reads of a page that waited for a fetch which was under way."),
	},
	{Name: "fetchesFailed", Help: "fetches without a result", Metric: list("eventmeter_list_fetches_failed_total", "Fetches that failed.")},
	{
		Name:   "servedStale",
		Help:   "pages that were used although they were stale, since fetching failed",
		Metric: list("eventmeter_list_served_stale_total", "Pages that were used although they were stale, because fetching failed."),
	},
	{
		Name:   "changesOwed",
		Help:   "pairs of a client and a change of the measured part",
		Metric: list("eventmeter_list_changes_owed_total", "Pairs of a change and a client that should learn of it."),
	},
	{
		Name: "changesSeen",
		Help: "changes that clients saw",
		Metric: listBy(
			"eventmeter_list_changes_learned_total",
			"outcome",
			"seen",
			"Changes that clients learned of: seen, or superseded by a later one that was seen.",
		),
	},
	{
		Name:   "changesSuperseded",
		Help:   "changes that a later one replaced before clients saw them",
		Metric: listBy("eventmeter_list_changes_learned_total", "outcome", "superseded", ""),
	},
	{
		Name:   "changesNeverSeen",
		Help:   "changes that no use has shown",
		Metric: level("eventmeter_list_changes_unseen", "Changes that clients have not learned of.", 1),
	},
	{
		Name: "changesNotified",
		Help: "notifications about the list",
		Metric: listBy(
			"eventmeter_list_notifications_total",
			"list",
			"own",
			"Notifications that a list changed: the one in use, or another.",
		),
	},
	{
		Name:   "otherChangesNotified",
		Help:   "notifications about other lists",
		Metric: listBy("eventmeter_list_notifications_total", "list", "other", ""),
	},
	{Name: "listenReconnects", Help: "streams of notifications that were opened again"},
	{
		Name:   "cursorFailures",
		Help:   "reads that began anew since a cursor failed",
		Metric: list("eventmeter_list_cursor_failures_total", "Reads that began anew because a cursor failed."),
	},
	{
		Name:   "regressed",
		Help:   "marks in a copy that were older than what the client had seen before",
		Metric: list("eventmeter_list_regressions_total", "Marks in a copy that were older than what the client had seen before."),
	},
	{Name: "shownAtEnd", Help: "events that one more read showed after the drain, in a lane that had received nothing"},
	{Name: "reordered", Help: "uses that saw the same entries as the use before in another order"},
	{
		Name:   "privatePages",
		Help:   "pages that came as private, or without a scope",
		Metric: list("eventmeter_list_private_pages_total", "Pages that were private, or had no scope."),
	},
	{Name: "ttlMissing", Help: "pages that came without a time to live"},
	{Name: "scopesMixed", Help: "reads of the list whose pages had more than one scope"},
	// What the target says is the same for all shards.
	{
		Name:   "ttlMs",
		Unit:   "ms",
		Rule:   figure.Max,
		Help:   "the time to live that was said last",
		Metric: level("eventmeter_list_ttl_seconds", "Time to live that the target sent last.", 1e-3),
	},
	{
		Name:   "avoidedShare",
		Rule:   figure.Ratio("fetchesAvoided", "pageReads"),
		Help:   "fetchesAvoided over pageReads, 0 to 1",
		Metric: level("eventmeter_list_avoided_ratio", "Fetches avoided over reads of pages.", 1),
	},
	{
		Name: "clientHours",
		Unit: "hours",
		Help: "the time that clients were there",
		Metric: &figure.Metric{
			Name:  "eventmeter_list_client_seconds_total",
			Help:  "Time that clients were active, added up.",
			Scale: time.Hour.Seconds(),
		},
	},
	{
		Name: "bytesPerClientHour",
		Unit: "bytes",
		Rule: figure.Mean("clientHours"),
		Help: "bytes of fetches and notifications over clientHours",
	},
	// Peaks are of one moment, which no two shards need have shared.
	{
		Name: "herdExpired",
		Rule: figure.Peak,
		Help: "fetches of expired copies in the fullest 100 ms over the mean",
		Metric: &figure.Metric{
			Name:  "eventmeter_list_herd_ratio",
			Gauge: true,
			Label: "cause",
			Value: "expired",
			Help:  "Fetches in the busiest tenth of a second over the mean of all tenths, by the cause of the herd.",
		},
	},
	{
		Name:   "herdChanged",
		Rule:   figure.Peak,
		Help:   "fetches of changed copies in the fullest 100 ms over the mean",
		Metric: &figure.Metric{Name: "eventmeter_list_herd_ratio", Gauge: true, Label: "cause", Value: "changed"},
	},
	{Name: "fetchRatePeak", Unit: "1/s", Rule: figure.Peak, Help: "fetches in the fullest 100 ms, per second"},
	{Name: "unbalanced", Help: "by how much the sums of the account differ; always 0"},

	duration("staleness", "from a change until the first use that shows it or a later one",
		list("eventmeter_list_staleness_seconds", "From sending a change until a client had learned of it.")),
	duration("invalidation", "from a change until the notification that made the copy stale",
		list("eventmeter_list_invalidation_seconds", "From sending a change until a notification made the copy of it stale.")),
	duration("fetch", "one request for a page",
		list("eventmeter_list_fetch_seconds", "From requesting a page until it was received.")),
}}

func duration(name, help string, shown *figure.Metric) figure.Figure {
	f := figure.Duration(name, help)
	f.Metric = shown
	return f
}

// list is a counter that shows one figure.
func list(name, help string) *figure.Metric { return &figure.Metric{Name: name, Help: help} }

// level is a gauge that shows one figure in another unit.
func level(name, help string, scale float64) *figure.Metric {
	return &figure.Metric{Name: name, Help: help, Gauge: true, Scale: scale}
}

// listBy is a counter that shows several figures by a label.
func listBy(name, label, value, help string) *figure.Metric {
	return &figure.Metric{Name: name, Help: help, Label: label, Value: value}
}
