package pump

import "time"

// withDefaults fills in what was left out.
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

// uncounted is the Counter of those who have none.
type uncounted struct{}

func (uncounted) Opened()   {}
func (uncounted) Sent(int)  {}
func (uncounted) Taken(int) {}
