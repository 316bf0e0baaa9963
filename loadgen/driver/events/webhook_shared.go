package events

import (
	"net/http"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/sinks"
)

// sharedCallback is one URL for all subscriptions of a lane, of all principals. Requests
// are routed by X-MCP-Subscription-Id. A subscription whose id is not known yet is found
// by the secret that the request is signed with.
type sharedCallback struct {
	d         *lane
	path, url string

	mu      sync.Mutex
	named   map[string]*hook // by id; a hook whose id changed has two entries
	unnamed map[*hook]bool
}

// share opens the lane's shared callback.
func (d *lane) share() {
	s := &sharedCallback{
		d:       d,
		path:    d.Receiver.Issue(d.Opts.Listener.Prefix + "/h/all-"),
		named:   map[string]*hook{},
		unnamed: map[*hook]bool{},
	}
	s.url = d.Listener.URL(s.path)
	d.shared = s
	d.Receiver.Add(s.path, s)
}

// Receive routes one request.
func (s *sharedCallback) Receive(in *sinks.Inbound) sinks.Reply {
	if k := s.find(in); k != nil {
		return k.Receive(in)
	}
	s.d.tally.Count("unrouted", 1)
	s.d.Inbound(eventmeter.Events, "", in.At, in.Size, http.StatusServiceUnavailable)
	return sinks.Reply{Status: http.StatusServiceUnavailable}
}

func (s *sharedCallback) find(in *sinks.Inbound) *hook {
	s.mu.Lock()
	k := s.named[in.First(wire.HeaderSubscriptionID)]
	var waiting []*hook
	if k == nil {
		for w := range s.unnamed {
			waiting = append(waiting, w)
		}
	}
	s.mu.Unlock()
	for _, w := range waiting {
		if cur, _ := w.valid(in.At); wire.Verify(in.Header, in.Body, time.Now(), cur) == nil {
			return w
		}
	}
	return k
}

// add adds k, whose id is not known yet.
func (s *sharedCallback) add(k *hook) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unnamed[k] = true
}

// name sets the id of k. It returns false if another subscription has the same id, because
// the target takes the two for one.
func (s *sharedCallback) name(k *hook, id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.unnamed, k)
	if other := s.named[id]; other != nil && other != k {
		return false
	}
	s.named[id] = k
	return true
}

// remove removes k.
func (s *sharedCallback) remove(k *hook) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.unnamed, k)
	for id, of := range s.named {
		if of == k {
			delete(s.named, id)
		}
	}
}

// takeOff ends the routing of requests to k.
func (d *lane) takeOff(k *hook) {
	d.Ended(&k.Hook, d.Clock.Now())
	if d.shared != nil {
		d.shared.remove(k)
		return
	}
	d.Receiver.Retire(k.Path)
}

// sameSubscription is the detail of the notice about two subscriptions with the same id.
const sameSubscription = "two subscriptions of one callback have the same id: with webhook.shareUrl, each needs " +
	"arguments or a principal of its own"
