//go:build !linux

package selfbench

import (
	"errors"

	"github.com/eventmeter/eventmeter"
)

// haveEpoll is true where the epoll baseline exists.
const haveEpoll = false

func newEpoll(spec, *eventmeter.Clock) (client, error) {
	return nil, errors.New("the epoll baseline needs Linux")
}
