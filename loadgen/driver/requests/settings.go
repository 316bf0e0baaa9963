package requests

import (
	"fmt"

	"github.com/eventmeter/eventmeter/internal/settings"
)

// Settings are the settings of a lane of system requests. Its subscriptions are clients that
// subscribe to nothing and make the same request at a rate.
type Settings struct {
	// method that is called: tools/list (the default), prompts/list, resources/list or
	// resources/templates/list; only the first page is requested
	Method string `json:"method" check:"tools/list|prompts/list|resources/list|resources/templates/list"`
	// requests of each client, default 1/s
	Rate settings.Rate `json:"rate"`
}

// Defaults are the settings of a lane that sets nothing.
func Defaults(string) *Settings { return &Settings{Method: "tools/list", Rate: 1} }

// Key is the key of the settings in a lane.
func (s *Settings) Key() string { return "requests" }

// Check reports what is wrong with the settings and their lane.
func (s *Settings) Check(l settings.Lane) {
	l.Reject(
		"",
		[]string{"event", "arguments", "sources", "maxAge", "poll"},
		"has no effect on a lane that subscribes to nothing",
		"remove it",
	)
	if err := s.bounds(); err != nil {
		l.Bad("requests.rate", err.Error(), "give requests per second of each client, from 1/s to 1000/s")
	}
}

// bounds checks the rate. At less than 1/s an attack of vegeta could end more than a
// second late. The upper bound keeps the lane from overloading the target.
func (s *Settings) bounds() error {
	if !(s.Rate >= 1 && s.Rate <= 1000) {
		return fmt.Errorf("%v is out of bounds", float64(s.Rate))
	}
	return nil
}

// Subject names what is requested, for people.
func (s *Settings) Subject() string { return fmt.Sprintf("the method (%q)", s.Method) }
