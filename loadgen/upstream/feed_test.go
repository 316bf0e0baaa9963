package upstream_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen/upstream"
)

var (
	_ upstream.Upstream = (*upstream.Feed)(nil)
	_ upstream.Figurer  = (*upstream.Feed)(nil)
	_ upstream.Recorded = (*upstream.Feed)(nil)
)

type page struct {
	Changes []struct {
		ID, Event, Time string
		Data            struct{ Text string }
	}
	Cursor  string
	HasMore bool
}

func newFeed(t *testing.T, o upstream.FeedOptions) *upstream.Feed {
	t.Helper()
	o.Payload = payload
	f, err := upstream.NewFeed(o)
	must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// ask sends one request and reads the answer, whatever it is.
func ask(t *testing.T, url, tag string) (status int, etag string, p page) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	must(t, err)
	if tag != "" {
		req.Header.Set("If-None-Match", tag)
	}
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if len(body) > 0 && resp.Header.Get("Content-Type") == "application/json" {
		if err := json.Unmarshal(body, &p); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
	return resp.StatusCode, resp.Header.Get("ETag"), p
}

func emissionOf(seq uint32, measured bool) upstream.Emission {
	return upstream.Emission{Stamp: eventmeter.Stamp{Run: 1, Seq: seq}, Measured: measured}
}

func TestFeed(t *testing.T) {
	f := newFeed(t, upstream.FeedOptions{Event: "chat.message", Limit: 3})
	_, tag, p := ask(t, f.URL(), "")
	if len(p.Changes) != 0 || p.HasMore || p.Cursor == "" {
		t.Fatalf("%+v", p)
	}
	if status, again, _ := ask(t, f.URL(), tag); status != http.StatusNotModified || again != tag {
		t.Errorf("%d, %s", status, again)
	}
	for seq := range uint32(5) {
		if f.Fire(context.Background(), emissionOf(seq+1, seq > 0)) != eventmeter.Accepted {
			t.Error("not accepted")
		}
	}
	status, _, p := ask(t, f.URL(), tag) // the same question has another answer now
	if status != 200 || len(p.Changes) != 3 || !p.HasMore {
		t.Fatalf("%d, %+v", status, p)
	}
	for i, c := range p.Changes {
		if want := emissionOf(
			uint32(i+1),
			false,
		).Stamp.String(); c.Event != "chat.message" || c.Data.Text != want || c.ID == "" ||
			!strings.HasSuffix(c.Time, "Z") {
			t.Errorf("change %d: %+v, want %s", i, c, want)
		}
	}
	_, tag, p = ask(t, f.URL()+"?since="+p.Cursor+"&limit=10", "")
	if len(p.Changes) != 2 || p.HasMore || p.Changes[0].Data.Text != emissionOf(4, false).Stamp.String() {
		t.Errorf("%+v", p)
	}
	end := p.Cursor
	_, _, p = ask(t, f.URL()+"?since="+end, "")
	if len(p.Changes) != 0 || p.Cursor != end {
		t.Errorf("%+v", p)
	}
	if _, _, p := ask(t, f.URL()+"?since=now", ""); p.Cursor != end || len(p.Changes) != 0 {
		t.Errorf("now: %+v", p)
	}
	if _, _, p := ask(t, f.URL()+"?limit=1", ""); len(p.Changes) != 1 || !p.HasMore {
		t.Errorf("limit 1: %+v", p)
	}
	for query, want := range map[string]int{"limit=0": 400, "limit=x": 400, "since=x": 410, "since=other-3": 410,
		"since=" + strings.Replace(end, "-5", "-6", 1): 410} {
		if status, _, _ := ask(t, f.URL()+"?"+query, ""); status != want {
			t.Errorf("%s: %d, want %d", query, status, want)
		}
	}
	if status, _, _ := ask(t, f.URL()+"?since="+end, `"x", W/`+tag); status != 200 {
		t.Errorf("another question's tag: %d", status)
	}
	if status, _, _ := ask(t, f.URL(), "*"); status != 304 {
		t.Errorf("*: %d", status)
	}
	_ = f.Close() // what was answered is counted then
	figures := f.Figures()
	for name, want := range map[string]float64{
		"feedRequests": 14, "feedWithChanges": 3, "feedEmpty": 4, "feedNotModified": 2, "feedGone": 3, "feedBadRequests": 2,
		"feedServed": 6, "feedRepeated": 1, "feedUnfetched": 0,
	} {
		if got := figures.Values[name]; got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	// Four of the five were measured.
	if lag := figures.Timings["feedLag"]; lag.Histogram.TotalCount() != 4 || figures.Values["feedBytes"] < 600 {
		t.Errorf("lag of %d, %v bytes", lag.Histogram.TotalCount(), figures.Values["feedBytes"])
	}
}

// A feed keeps what it promises and says when it does not.
func TestFeedForgets(t *testing.T) {
	f := newFeed(t, upstream.FeedOptions{Keep: 4, Limit: 100})
	_, _, first := ask(t, f.URL(), "")
	for seq := range uint32(21) {
		f.Fire(context.Background(), emissionOf(seq+1, true))
	}
	status, _, p := ask(t, f.URL()+"?since="+first.Cursor, "")
	if status != http.StatusGone || p.Cursor == "" {
		t.Errorf("%d, %+v", status, p)
	}
	_, _, again := ask(t, f.URL()+"?since="+p.Cursor, "")
	_, _, fresh := ask(t, f.URL(), "")
	for _, p := range []page{again, fresh} {
		var got []string
		for _, c := range p.Changes {
			got = append(got, c.Data.Text)
		}
		var want []string
		for seq := uint32(18); seq <= 21; seq++ {
			want = append(want, emissionOf(seq, true).Stamp.String())
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
	_ = f.Close() // what was answered is counted then
	if v := f.Figures().Values; v["feedUnfetched"] != 17 || v["feedRepeated"] != 4 || v["feedGone"] != 1 {
		t.Errorf("%v", v)
	}
}

func TestFeedOptions(t *testing.T) {
	if _, err := upstream.NewFeed(upstream.FeedOptions{}); err == nil {
		t.Error("no payload")
	}
	if _, err := upstream.NewFeed(
		upstream.FeedOptions{Payload: payload, Listen: "127.0.0.1:99999"},
	); err == nil ||
		!strings.Contains(err.Error(), "choose another address") {
		t.Error(err)
	}
	f := newFeed(t, upstream.FeedOptions{Event: "e"})
	if event, text := f.Content(emission); event != "e" || !strings.Contains(string(text), emission.Stamp.String()) {
		t.Errorf("%s %s", event, text)
	}
}
