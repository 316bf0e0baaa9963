package bench

import "github.com/mcpload/mcpload/loadgen/dialect"

// sep2549Options translates the settings of a lane that uses lists.
func (l *lane) sep2549Options() dialect.SEP2549Options {
	s := l.SEP2549
	return dialect.SEP2549Options{
		List: s.List, URI: s.URI, Use: float64(s.Use), NoCache: !s.Cache, Notifications: s.Notifications, Jitter: s.Jitter,
		StaleOnError: s.StaleOnError, Shared: s.Shared, Background: s.Background, Hears: l.hears,
	}
}
