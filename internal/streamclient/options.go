package streamclient

import (
	"context"
	"fmt"
	"time"
)

// withDefaults fills in defaults.
func withDefaults(o Options) Options {
	if o.Now == nil {
		start := time.Now()
		o.Now = func() int64 { return int64(time.Since(start)) + 1 }
	}
	if o.ConnectTimeout <= 0 {
		o.ConnectTimeout = 30 * time.Second
	}
	if o.Host == "" {
		o.Host = o.Addr
	}
	if o.Count == nil {
		o.Count = uncounted{}
	}
	return o
}

// uncounted is the default Counter. It does nothing.
type uncounted struct{}

func (uncounted) Opened()   {}
func (uncounted) Sent(int)  {}
func (uncounted) Taken(int) {}

// destination returns the host and port to connect to.
func (o *Options) destination(ctx context.Context) (string, error) {
	if o.Resolve == nil {
		return o.Addr, nil
	}
	to, err := o.Resolve(ctx, o.Addr)
	if err != nil {
		return "", fmt.Errorf("look up %s: %w", o.Addr, err)
	}
	return to.String(), nil
}
