package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/mcpload/mcpload/sinks"
)

// echoEvery is how often the instrument writes to itself. It is no divisor of
// the usual intervals of schedules, so that it does not only fall between bursts.
const echoEvery = 7 * time.Millisecond

// echo is a loopback connection of this process to itself. A byte that is
// written to it waits for the same poller and the same scheduler as a delivery
// does, so its delay is the generator's own share in a latency.
type echo struct {
	writer, reader net.Conn
	start          time.Time
	mu             sync.Mutex
	delay          sinks.Values // guarded by mu until it is closed
	stop           chan struct{}
	wg             sync.WaitGroup
}

func openEcho() (*echo, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open a loopback connection to measure the generator's own delay: %w", err)
	}
	defer l.Close()
	w, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return nil, fmt.Errorf("open a loopback connection to measure the generator's own delay: %w", err)
	}
	r, err := l.Accept()
	if err != nil {
		_ = w.Close()
		return nil, fmt.Errorf("open a loopback connection to measure the generator's own delay: %w", err)
	}
	e := &echo{
		writer: w, reader: r, start: time.Now(), stop: make(chan struct{}),
	}
	e.wg.Go(e.write)
	e.wg.Go(e.read)
	return e, nil
}

func (e *echo) write() {
	defer e.writer.Close()
	tick := time.NewTicker(echoEvery)
	defer tick.Stop()
	var b [8]byte
	for {
		select {
		case <-e.stop:
			return
		case <-tick.C:
			binary.BigEndian.PutUint64(b[:], uint64(time.Since(e.start)))
			if _, err := e.writer.Write(b[:]); err != nil {
				return
			}
		}
	}
}

func (e *echo) read() {
	defer e.reader.Close()
	var b [8]byte
	for {
		if _, err := io.ReadFull(e.reader, b[:]); err != nil {
			return
		}
		d := int64(time.Since(e.start)) - int64(binary.BigEndian.Uint64(b[:]))
		e.mu.Lock()
		e.delay.Add(time.Duration(d))
		e.mu.Unlock()
	}
}

// close ends the watch, waits for it, and returns the delays in nanoseconds.
func (e *echo) close() *hdrhistogram.Histogram {
	close(e.stop)
	e.wg.Wait()
	return e.delay.Timing().Histogram
}

// ownDelay tries for d what this machine's own delay is when it does nothing else.
func ownDelay(d time.Duration, cancelled <-chan struct{}) (*hdrhistogram.Histogram, error) {
	e, err := openEcho()
	if err != nil {
		return nil, err
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return e.close(), nil
	case <-cancelled:
		e.close()
		return nil, errors.New("cancelled")
	}
}
