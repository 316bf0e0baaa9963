package run

import (
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/profiles"
)

// sep2549Options translates the settings of a lane that uses lists.
func sep2549Options(s *profiles.SEP2549Lane) driver.SEP2549Options {
	return driver.SEP2549Options{
		List: s.List, URI: s.URI, Use: float64(s.Use), NoCache: !s.Cache, Notifications: s.Notifications, Jitter: s.Jitter,
		StaleOnError: s.StaleOnError, Shared: s.Shared, Background: s.Background,
	}
}
