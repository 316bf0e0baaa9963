package metrics

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/klauspost/compress/snappy"
)

// StartRemoteWrite begins to push by the remote write protocol, version 1.0,
// which every receiver supports.
func StartRemoteWrite(o PushOptions) *Pusher {
	r := o.receiver(nil)
	return startPushing("remote write to "+shown(o.URL), o.Every, func(ctx context.Context) error {
		r.allow(ctx)
		return remoteWrite(ctx, r.http, o)
	}, r.http.CloseIdleConnections)
}

func remoteWrite(ctx context.Context, client *http.Client, o PushOptions) error {
	families, err := o.From.Gather()
	if err != nil {
		return err
	}
	body := snappy.Encode(nil, encodeWrite(families, o.Job, time.Now()))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, o.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("Content-Encoding", "snappy")
	req.Header.Set("X-Prometheus-Remote-Write-Version", "0.1.0")
	req.Header.Set("User-Agent", "eventmeter")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(resp.Body, 300)) // for the error, and to reuse the connection
	if resp.StatusCode/100 != 2 {
		return errors.New(resp.Status + " " + string(bytes.TrimSpace(said)))
	}
	return nil
}
