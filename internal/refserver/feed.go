package refserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventmeter/eventmeter/internal/crash"
)

// feedLimit is the number of changes per request, maxFeed the longest answer in
// bytes.
const (
	feedLimit = 500
	maxFeed   = 64 << 20
)

// feed polls a change feed and publishes what it finds:
//
//	GET URL?since=CURSOR&limit=N
//	{"changes":[{"id":"…","event":"chat.message","data":{…}}],"cursor":"…","hasMore":false}
//
// It begins with the oldest change that the feed still has, sends the ETag of
// the last answer back (If-None-Match), follows hasMore at once, and begins
// anew where a feed says that a cursor is gone (410).
type feed struct {
	server *Server
	url    *url.URL
	client *http.Client

	cursor string
	tag    string // of the last answer for this cursor
}

// checkFeed parses the address of a feed.
func checkFeed(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("target: feed %q: want an address like http://127.0.0.1:9000/changes", address)
	}
	return u, nil
}

// allowFeed resolves the feed's host and refuses one that is neither this
// machine nor allowed by name: a script that sets an address must not make this
// machine send requests anywhere.
func (s *Server) allowFeed(ctx context.Context) error {
	if s.feed == nil {
		return nil
	}
	host := s.feed.Hostname()
	addrs, err := s.feedGuard.Lookup(ctx, host)
	if err == nil && !slices.ContainsFunc(addrs, func(a netip.Addr) bool { return !a.IsLoopback() }) {
		return nil
	}
	if slices.ContainsFunc(
		s.opts.AllowHosts,
		func(a string) bool { return strings.EqualFold(a, host) || strings.EqualFold(a, s.feed.Host) },
	) {
		// A name that does not resolve is logged when it is dialled.
		_ = s.feedGuard.Allow(ctx, host)
		return nil
	}
	return fmt.Errorf(
		"target: feed: %s is not this machine; if you may send requests to it, name it a second time with --allow-host %s",
		host,
		host,
	)
}

// runFeed polls until the server closes.
func (s *Server) runFeed(at *url.URL) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.background.Go(func() {
		defer crash.Guard()
		<-s.closing
		cancel()
	})
	transport := &http.Transport{DialContext: s.feedGuard.Dial(&net.Dialer{Timeout: 10 * time.Second})}
	defer transport.CloseIdleConnections()
	f := &feed{server: s, url: at, client: &http.Client{
		Transport: transport, Timeout: 30 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	tick := time.NewTicker(s.opts.FeedEvery)
	defer tick.Stop()
	for {
		more := true
		for more && ctx.Err() == nil {
			var err error
			if more, err = f.poll(ctx); err != nil && ctx.Err() == nil {
				s.opts.Logger.Warn("feed", "url", at.String(), "error", err)
			}
		}
		select {
		case <-tick.C:
		case <-s.closing:
			return
		}
	}
}

// poll sends one request; more says that the next one should follow at once.
func (f *feed) poll(ctx context.Context) (more bool, err error) {
	at := *f.url
	query := at.Query()
	query.Set("limit", strconv.Itoa(feedLimit))
	if f.cursor != "" {
		query.Set("since", f.cursor)
	}
	at.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return false, err
	}
	if f.tag != "" {
		req.Header.Set("If-None-Match", f.tag)
	}
	resp, err := f.client.Do(req)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotModified:
		return false, nil
	case http.StatusGone:
		f.cursor, f.tag = "", ""
		return false, errors.New("the feed no longer knows the cursor: changes since then may be lost")
	default:
		return false, fmt.Errorf("HTTP %d", resp.StatusCode)
	}
	return f.take(resp)
}

// take publishes the changes of an answer, in order.
func (f *feed) take(resp *http.Response) (more bool, err error) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxFeed))
	if err != nil {
		return false, err
	}
	var answer struct {
		Changes []struct {
			ID    string          `json:"id"`
			Event string          `json:"event"`
			Data  json.RawMessage `json:"data"`
		} `json:"changes"`
		Cursor  string `json:"cursor"`
		HasMore bool   `json:"hasMore"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return false, fmt.Errorf("the answer is not a change feed: %w", err)
	}
	if answer.Cursor == "" {
		return false, errors.New("the answer has no cursor")
	}
	for _, c := range answer.Changes {
		if _, perr := f.server.PublishAs(c.ID, c.Event, c.Data); perr != nil {
			err = errors.Join(err, perr)
		}
	}
	f.tag = resp.Header.Get("ETag")
	if answer.Cursor != f.cursor {
		f.cursor, f.tag = answer.Cursor, "" // the tag belongs to the former cursor
	}
	return answer.HasMore && len(answer.Changes) > 0, err
}
