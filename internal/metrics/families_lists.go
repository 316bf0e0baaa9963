package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventmeter/eventmeter/sinks"
)

// Lanes of clients that use lists with a time to live (SEP-2549) have metrics
// under names of their own, beside eventmeter_figure: they are what its pages are
// about, and need counters.

// list is a metric of such lanes, of one figure.
func list(kind prometheus.ValueType, name, help, figure string, unit float64) family[oneLane] {
	return newFamily(LaneLabels, kind, name, help, nil, func(x *oneLane, emit emitter) {
		if v, ok := x.own.Values[figure]; ok && x.System == systemLists {
			emit(v * unit)
		}
	})
}

const systemLists = "sep-2549"

// listBy is a metric of such lanes, of several figures by a label.
func listBy(kind prometheus.ValueType, name, help, label string, values ...[2]string) family[oneLane] {
	return newFamily(LaneLabels, kind, name, help, []string{label}, func(x *oneLane, emit emitter) {
		if x.System != systemLists {
			return
		}
		for _, v := range values {
			if n, ok := x.own.Values[v[1]]; ok {
				emit(n, v[0])
			}
		}
	})
}

var listFamilies = []family[oneLane]{
	listBy(counter, "eventmeter_list_uses_total", "Uses of a list that are over: served, failed or abandoned.", "outcome",
		[2]string{"served", "usesServed"}, [2]string{"failed", "usesFailed"}, [2]string{"abandoned", "usesAbandoned"}),
	list(counter, "eventmeter_list_uses_missed_total", "Uses that were due while the client was still busy with the one before.", "usesMissed", 1),
	list(counter, "eventmeter_list_page_reads_total", "Pages of lists that uses read, from the cache or not.", "pageReads", 1),
	listBy(counter, "eventmeter_list_fetches_total", "Fetches of a page, by reason: first, expired (its time to live was over), changed (a notification said so), uncached or background.", "reason",
		[2]string{"first", "fetchesFirst"}, [2]string{"expired", "fetchesExpired"}, [2]string{"changed", "fetchesChanged"},
		[2]string{"uncached", "fetchesUncached"}, [2]string{"background", "fetchesBackground"}),
	list(counter, "eventmeter_list_fetches_avoided_total", "Reads of a page that the cache answered.", "fetchesAvoided", 1),
	list(counter, "eventmeter_list_fetches_shared_total", "Reads of a page that waited for a fetch which was under way.", "fetchesShared", 1),
	list(counter, "eventmeter_list_fetches_failed_total", "Fetches that failed.", "fetchesFailed", 1),
	list(counter, "eventmeter_list_served_stale_total", "Pages that were used although they were stale, since fetching failed.", "servedStale", 1),
	list(counter, "eventmeter_list_changes_owed_total", "Pairs of a change and a client that should learn of it.", "changesOwed", 1),
	listBy(counter, "eventmeter_list_changes_learned_total", "Changes that clients learned of: seen, or superseded by a later one that was seen.", "outcome",
		[2]string{"seen", "changesSeen"}, [2]string{"superseded", "changesSuperseded"}),
	list(gauge, "eventmeter_list_changes_unseen", "Changes that clients have not learned of.", "changesNeverSeen", 1),
	listBy(counter, "eventmeter_list_notifications_total", "Notifications that a list changed: the one in use, or another.", "list",
		[2]string{"own", "changesTold"}, [2]string{"other", "otherChangesTold"}),
	list(counter, "eventmeter_list_cursor_failures_total", "Reads that began anew since a cursor failed.", "cursorFailures", 1),
	list(counter, "eventmeter_list_regressions_total", "Marks in a copy that were older than what the client had seen before.", "regressed", 1),
	list(counter, "eventmeter_list_private_pages_total", "Pages that came as private, or without a scope.", "privatePages", 1),
	list(gauge, "eventmeter_list_ttl_seconds", "Time to live as the target said it last.", "ttlMs", 1e-3),
	list(gauge, "eventmeter_list_avoided_ratio", "Fetches avoided over reads of pages.", "avoidedShare", 1),
	list(counter, "eventmeter_list_client_seconds_total", "Time that clients were there, added up.", "clientHours", time.Hour.Seconds()),
	listBy(gauge, "eventmeter_list_herd_ratio", "Fetches in the fullest tenth of a second over the mean of all, by what sets off a herd.", "cause",
		[2]string{"expired", "herdExpired"}, [2]string{"changed", "herdChanged"}),
}

// listHistograms are the same for distributions.
var listHistograms = []histogramFamily[oneLane]{
	listHistogram("eventmeter_list_staleness_seconds", "From sending a change until a client had learned of it.", "staleness"),
	listHistogram("eventmeter_list_invalidation_seconds", "From sending a change until a notification made the copy of it stale.", "invalidation"),
	listHistogram("eventmeter_list_fetch_seconds", "From asking for a page until it had come.", "fetch"),
}

func listHistogram(name, help, timing string) histogramFamily[oneLane] {
	return newHistogram(LaneLabels, name, help, nil, func(x *oneLane, emit func([]sinks.Distribution, ...string)) {
		if d, ok := x.own.Timings[timing]; ok && x.System == systemLists {
			emit([]sinks.Distribution{d})
		}
	})
}
