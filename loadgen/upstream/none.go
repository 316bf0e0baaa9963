package upstream

import (
	"context"

	"github.com/eventmeter/eventmeter"
)

// None fires nothing: the upstream of a run that looks at what comes anyway.
type None struct{}

// Fire implements [Upstream]. It refuses: there is nobody to tell.
func (None) Fire(context.Context, Emission) eventmeter.Outcome { return eventmeter.Refused }

// Close implements [Upstream].
func (None) Close() error { return nil }
