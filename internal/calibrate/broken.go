package calibrate

import (
	"maps"
	"slices"
	"strings"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/conform"
	"github.com/eventmeter/eventmeter/internal/refserver/breach"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
	"github.com/eventmeter/eventmeter/internal/settings"
)

// broken are the checks of the rows of conformance: each row is broken that the case
// plants, or that another fault of it implies, and no other, but those that follow from
// a planted one.
func (m *expectedCounts) broken() (out []Check) {
	if m.target.Revision == "older" { // it has other rules
		return nil
	}
	if m.seen == nil {
		return []Check{exactly("rows are judged", 1, 0)}
	}
	got := func(row string) int64 { return m.seen[row].Broken }
	want, follows := map[string]bool{}, map[string]bool{}
	for row, n := range m.implied() {
		want[row] = true
		if n.exact {
			out = append(out, exactly(row, n.least, got(row)))
		} else {
			out = append(out, atLeast(row, n.least, got(row)))
		}
	}
	for _, p := range m.spec.Breaches() {
		if p.Mode == "" || p.Mode == m.mode { // it is seen where no client can see the row itself, too
			for _, f := range breach.Table[p.Row].Follows {
				follows[f] = true
			}
		}
		if !m.plants(p) {
			continue
		}
		row := p.Row
		if !want[row] {
			out = append(out, atLeast(row, 1, got(row)))
		}
		want[row] = true
	}
	slices.SortFunc(out, func(a, b Check) int { return strings.Compare(a.Name, b.Name) })
	var rest int64
	for _, row := range slices.Sorted(maps.Keys(m.seen)) {
		n := got(row)
		switch {
		case n == 0 || want[row]:
		case follows[row]:
			out = append(out, Check{Name: "follows: " + row, Want: ">= 0", Got: n, Passed: true, Notice: true})
		default:
			rest++
			out = append(out, exactly(row, 0, n))
		}
	}
	return append(out, exactly("other broken rows", 0, rest))
}

// plants reports whether a plan breaks its row on this lane. The target breaks it only
// while enough subscriptions are open; only the first lane shows the list of event types.
func (m *expectedCounts) plants(p breach.Plan) bool {
	of := conform.Find(p.Row)
	listed := of != nil && !slices.ContainsFunc(of.At, func(o conform.Occasion) bool {
		return o != conform.ListPage && o != conform.Descriptor && o != conform.ListUnoffered
	})
	return of != nil && of.Unseen == "" && (p.Mode == "" || p.Mode == m.mode) && breach.In(p.Row, m.mode) &&
		strings.Contains(of.Lanes, string(m.mode)) &&
		(p.Above == 0 || m.open > int64(p.Above)) && (!listed || m.first)
}

// times is how often a row is broken, at least or exactly.
type times struct {
	least int64
	exact bool
}

// impliedBy are the rows that faults other than break imply, by mode; "" = any mode.
var impliedBy = map[faults.Kind]map[eventmeter.Mode][]conform.ID{
	faults.Reid: {"": {conform.OccurrenceEventIDFromUpstream}},
	faults.Malformed: {
		eventmeter.Push:    {conform.StreamEventNotification},
		eventmeter.Poll:    {conform.PollEventsArray},
		eventmeter.Webhook: {conform.DeliveryPostJSON},
	},
	faults.Oversize:   {eventmeter.Webhook: {conform.DeliveryBodySize}},
	faults.Signature:  {eventmeter.Webhook: {conform.DeliverySignatureFormula, conform.DeliveryStandardWebhooksHeaders}},
	faults.Heartbeats: {eventmeter.Push: {conform.StreamHeartbeatRequired}},
	faults.Early:      {eventmeter.Webhook: {conform.VerificationRequiredBeforeDelivery}},
	faults.Anonymous:  {eventmeter.Webhook: {conform.SubscribeAuthRequired}},
	faults.Refuse:     {"": {conform.ErrorUnsupported, conform.ErrorCallbackEndpointError}},
	faults.Gone:       {eventmeter.Webhook: {conform.UnsubscribeByKey}},
	faults.Expire:     {eventmeter.Webhook: {conform.UnsubscribeByKey}},
	faults.Forget:     {eventmeter.Webhook: {conform.UnsubscribeByKey}},
}

// implied is how often the case's other faults break rows.
func (m *expectedCounts) implied() map[string]times {
	out := map[string]times{}
	for _, f := range m.spec {
		by := impliedBy[f.Kind]
		if f.Mode != "" && f.Mode != m.mode {
			continue
		}
		for _, id := range slices.Concat(by[""], by[m.mode]) {
			if n := m.impliedTimes(f, id); n.least > 0 {
				out[conform.Rows[id].Name] = n
			}
		}
	}
	return out
}

// impliedTimes is how often a fault breaks a row that it may imply.
func (m *expectedCounts) impliedTimes(f faults.Fault, id conform.ID) times {
	subs := int64(m.settings.Subscriptions)
	switch f.Kind {
	case faults.Reid: // the ledger counts these copies, of measured events
		return times{m.hits(f.Kind) - m.warm(f.Kind), true}
	case faults.Malformed, faults.Oversize:
		return times{m.hits(f.Kind), true}
	case faults.Signature:
		if (f.Sign == "wrong") == (id == conform.DeliverySignatureFormula) {
			return times{m.hits(f.Kind), true}
		}
	case faults.Heartbeats:
		return times{subs, false}
	case faults.Early:
		if m.settings.Webhook.Pending != settings.Refuse {
			return times{subs, true}
		}
	case faults.Anonymous:
		if isAnonymous(m) {
			return times{subs, true}
		}
	case faults.Refuse: // without data
		is := map[int]conform.ID{-32014: conform.ErrorUnsupported, -32015: conform.ErrorCallbackEndpointError}[f.Code]
		var refused int64
		for i := range m.settings.Subscriptions {
			if m.refused(i) {
				refused++
			}
		}
		if is == id {
			return times{refused, true}
		}
	case faults.Gone, faults.Expire, faults.Forget: // the lane ends what is gone
		if f.Kind != faults.Gone || m.gone() {
			return times{subs, true}
		}
	}
	return times{}
}
