//go:build !linux

package selfbench

import (
	"errors"

	"github.com/eventmeter/eventmeter"
)

// haveEpoll says that this system has the epoll min interval.
const haveEpoll = false

func newEpoll(spec, *eventmeter.Clock) (client, error) {
	return nil, errors.New("the epoll baseline needs Linux")
}
