package health

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/streamclient"
	"github.com/eventmeter/eventmeter/internal/wire"
)

// kernelEcho is an event stream of this process to itself, read like the streams of
// lanes with kernel times. The time from the write of a chunk to its kernel receive
// time is the generator's remaining share in such times.
type kernelEcho struct {
	listener net.Listener
	client   streamclient.Client
	start    time.Time
	wg       sync.WaitGroup
	stop     chan struct{}

	// Chunks arrive in order, so their write times wait in order.
	sent  chan int64
	delay *hdrhistogram.Histogram
	timed atomic.Int64 // number of delays
	early atomic.Int64 // delays that came out negative, because of an error in aligning the clocks
}

func openKernelEcho(every time.Duration) (*kernelEcho, error) {
	l, err := wire.Listen(context.Background(), "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open a loopback connection to measure the error of the kernel's times: %w", err)
	}
	e := &kernelEcho{
		listener: l, start: time.Now(), stop: make(chan struct{}), sent: make(chan int64, 1<<10),
		delay: hdrhistogram.New(1000, int64(10*time.Minute), 3),
	}
	e.client, err = streamclient.New(streamclient.Options{Addr: l.Addr().String(), Shards: 1, Now: e.now, KernelTimestamps: true})
	if err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("measure the error of the kernel's times: %w", err)
	}
	e.wg.Go(func() {
		defer crash.Guard()
		e.write(every)
	})
	e.client.Open(context.Background(), streamclient.Request{Method: http.MethodGet, Path: "/"}, e)
	return e, nil
}

func (e *kernelEcho) now() int64 { return int64(time.Since(e.start)) + 1 }

// write accepts the stream and writes to it. It does not read the request, which is
// our own.
func (e *kernelEcho) write(every time.Duration) {
	c, err := e.listener.Accept()
	if err != nil {
		return
	}
	defer c.Close()
	if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"); err != nil {
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-e.stop:
			return
		case <-tick.C:
			select {
			case e.sent <- e.now():
			default: // nobody has read for seconds
				continue
			}
			if _, err := io.WriteString(c, "1\r\nx\r\n"); err != nil {
				return
			}
		}
	}
}

// Opened implements [streamclient.Sink].
func (e *kernelEcho) Opened(streamclient.Head, streamclient.Arrival) error { return nil }

// Piece implements [streamclient.Sink]. It ignores data that shared a read or has no
// kernel time.
func (e *kernelEcho) Piece(_ []byte, at streamclient.Arrival) error {
	d := at.At - <-e.sent
	if at.Kernel && !at.Shared {
		if d < 0 {
			e.early.Add(1)
		}
		_ = e.delay.RecordValue(max(0, min(d, e.delay.HighestTrackableValue())))
		e.timed.Add(1)
	}
	return nil
}

// Closed implements [streamclient.Sink].
func (e *kernelEcho) Closed(error) {}

// close ends the watch, waits for it, and returns the delays in nanoseconds, nil if
// there was no watch.
func (e *kernelEcho) close() *hdrhistogram.Histogram {
	if e == nil {
		return nil
	}
	close(e.stop)
	_ = e.listener.Close()
	_ = e.client.Close()
	e.wg.Wait()
	return e.delay
}
