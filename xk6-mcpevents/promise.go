package mcpevents

import "github.com/grafana/sobek"

// promised makes a promise and what settles it: one of the two functions has to
// be called, once; any goroutine may. Unlike those of k6's js/promises it is
// rejected with an Error, which has a message for scripts that catch it.
func (m *instance) promised() (p *sobek.Promise, resolve func(any), reject func(error)) {
	p, kept, broken := m.vu.Runtime().NewPromise()
	callback := m.vu.RegisterCallback()
	resolve = func(v any) { callback(func() error { return kept(v) }) }
	reject = func(err error) { callback(func() error { return broken(m.vu.Runtime().NewGoError(err)) }) }
	return p, resolve, reject
}
