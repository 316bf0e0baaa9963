package prom

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/client_golang/prometheus"
)

// RemoteWriteOptions say what is pushed where. All must be set.
type RemoteWriteOptions struct {
	// URL of the receiver, such as http://127.0.0.1:9090/api/v1/write.
	URL string
	// Every is the time between two pushes.
	Every time.Duration
	From  prometheus.Gatherer
	// Job is the label job of every series.
	Job string
}

// RemoteWriter pushes metrics by the remote write protocol, version 1.0, which
// every receiver takes. A push that fails is not repeated: the next one brings
// the newer figures. It must be closed.
type RemoteWriter struct {
	o      RemoteWriteOptions
	client *http.Client
	stop   chan struct{}
	done   sync.WaitGroup
	failed int
}

// pushTimeout bounds one push.
const pushTimeout = 10 * time.Second

// StartRemoteWrite begins to push.
func StartRemoteWrite(o RemoteWriteOptions) *RemoteWriter {
	w := &RemoteWriter{o: o, client: &http.Client{Timeout: pushTimeout, Transport: &http.Transport{Proxy: http.ProxyFromEnvironment}}, stop: make(chan struct{})}
	w.done.Go(func() {
		tick := time.NewTicker(o.Every)
		defer tick.Stop()
		for {
			select {
			case <-w.stop:
				return
			case <-tick.C:
				if w.push() != nil {
					w.failed++
				}
			}
		}
	})
	return w
}

// Close pushes once more, so that the end of a short run is not lost. The error
// is that of this last push, or says how many of those before it failed.
func (w *RemoteWriter) Close() error {
	close(w.stop)
	w.done.Wait()
	defer w.client.CloseIdleConnections()
	if err := w.push(); err != nil {
		return fmt.Errorf("remote write to %s: %w; the end of the run is missing there", w.o.URL, err)
	}
	if w.failed > 0 {
		return fmt.Errorf("remote write to %s: %d pushes failed; the last one, with all totals, did not", w.o.URL, w.failed)
	}
	return nil
}

func (w *RemoteWriter) push() error {
	families, err := w.o.From.Gather()
	if err != nil {
		return err
	}
	body := snappy.Encode(nil, encodeWrite(families, w.o.Job, time.Now()))
	ctx, cancel := context.WithTimeout(context.Background(), pushTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.o.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("Content-Encoding", "snappy")
	req.Header.Set("X-Prometheus-Remote-Write-Version", "0.1.0")
	req.Header.Set("User-Agent", "mcpload")
	resp, err := w.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(resp.Body, 300)) // to tell why, or to use the connection again
	if resp.StatusCode/100 != 2 {
		return errors.New(resp.Status + " " + string(bytes.TrimSpace(said)))
	}
	return nil
}
