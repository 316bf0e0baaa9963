//go:build !linux

package mcpbench

import (
	"errors"

	"github.com/mcpload/mcpload"
)

// haveEpoll says that this system has the epoll floor.
const haveEpoll = false

func newEpoll(spec, *mcpload.Clock) (client, error) {
	return nil, errors.New("the epoll floor needs Linux")
}
