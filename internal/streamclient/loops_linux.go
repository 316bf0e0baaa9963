//go:build linux && (amd64 || arm64)

package streamclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter/internal/budget"
	"github.com/eventmeter/eventmeter/internal/crash"
)

// New returns a pump that suits the options: loops over bare sockets for plain
// text, a goroutine for each connection otherwise.
func New(o Options) (Pump, error) {
	if o.TLS != nil || o.Dial != nil {
		return NewPortable(o)
	}
	return newLoops(o)
}

// Stamps tells whether a pump of these options can have the kernel's receive
// times.
func Stamps(o Options) bool { return o.TLS == nil && o.Dial == nil }

// loops is a pump of a few loops, each with an epoll instance, a buffer that
// is lent to whatever stream has data, and a share of the streams.
type loops struct {
	opts           Options
	to             *resolver
	local4, local6 []netip.Addr
	nextIP         atomic.Uint32
	next           atomic.Uint32
	shards         []*loop
	life           context.Context
	end            context.CancelFunc
	work           sync.WaitGroup // loops and look-ups
	closing        sync.Mutex     // held while work may grow
	closed         bool
}

func newLoops(o Options) (*loops, error) {
	to, err := newResolver(o.Addr)
	if err != nil {
		return nil, fmt.Errorf("pump: %w", err)
	}
	to.ask, to.guard = o.Resolve, o.Guard
	p := &loops{opts: withDefaults(o), to: to}
	p.local4, p.local6 = families(o.LocalIPs)
	p.life, p.end = context.WithCancel(context.Background())
	n := o.Shards
	if n <= 0 {
		n = runtime.GOMAXPROCS(0)
	}
	for range n {
		l, err := newLoop(p)
		if err != nil {
			_ = p.Close() // what counts is why there is no loop
			return nil, fmt.Errorf("pump: %w", err)
		}
		p.shards = append(p.shards, l)
		p.work.Go(crash.Guarded(l.run))
	}
	return p, nil
}

// Open implements Pump.
func (p *loops) Open(ctx context.Context, r Request, s Sink) Stream {
	l := p.shards[int(p.next.Add(1)-1)%len(p.shards)]
	c := &conn{loop: l, sink: s, fd: -1, slot: -1, opening: &opening{req: r, deadline: time.Now().Add(p.opts.ConnectTimeout)}}
	c.bodiless, c.hold = r.Method == http.MethodHead, budget.Of(p.opts.Budget)
	if ctx.Done() != nil {
		// Set before the loop knows the stream; it is the loop that unsets it.
		c.opening.stop = context.AfterFunc(ctx, func() {
			defer crash.Guard()
			l.tell(task{c: c, err: ctx.Err()})
		})
	}
	if addrs := p.to.known(); addrs != nil {
		c.opening.addrs = addrs
		l.begin(c)
		return c
	}
	p.closing.Lock()
	defer p.closing.Unlock()
	if p.closed {
		l.add(c)
		return c
	}
	p.work.Go(func() {
		defer crash.Guard()
		ctx, cancel := context.WithTimeout(p.life, p.opts.ConnectTimeout)
		defer cancel()
		addrs, err := p.to.look(ctx)
		if err != nil {
			c.opening.err = fmt.Errorf("look up %s: %w", p.to.name, err)
			l.add(c)
			return
		}
		c.opening.addrs = addrs
		l.begin(c)
	})
	return c
}

// begin makes the first attempt to connect, on the goroutine of the caller,
// and hands the stream to the loop.
func (l *loop) begin(c *conn) {
	l.attempt(c)
	l.add(c)
}

// attempt begins to connect to the next address that takes the attempt.
func (l *loop) attempt(c *conn) {
	o := c.opening
	for len(o.addrs) > 0 {
		to := o.addrs[0]
		o.addrs = o.addrs[1:]
		fd, err := l.pump.socket(to)
		if err == nil {
			c.fd, o.to, o.err = int32(fd), to, nil
			return
		}
		o.err = err
	}
	if o.err == nil {
		o.err = errors.New("the name has no address")
	}
}

// Close implements Pump.
func (p *loops) Close() error {
	p.closing.Lock()
	p.closed = true
	p.closing.Unlock()
	p.end()
	for _, l := range p.shards {
		l.close()
	}
	p.work.Wait()
	return nil
}
