package pump

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"sync"
)

// over is a pump on top of an http.RoundTripper, with a goroutine for each
// stream.
type over struct {
	opts Options
	rt   http.RoundTripper
	url  *url.URL
	life context.Context
	end  context.CancelFunc
	work sync.WaitGroup

	mu     sync.Mutex // held while work may grow
	closed bool
}

// Over returns a pump that leaves connections to rt, which it does not close.
// base is the server's address; of o, only Host and Now count.
func Over(rt http.RoundTripper, base *url.URL, o Options) Pump {
	p := &over{opts: withDefaults(o), rt: rt, url: base}
	p.opts.Host = o.Host
	p.life, p.end = context.WithCancel(context.Background())
	return p
}

// exchange is one stream of such a pump.
type exchange context.CancelCauseFunc

// Close implements Stream.
func (e exchange) Close() { e(ErrClosed) }

// Open implements Pump.
func (p *over) Open(ctx context.Context, r Request, s Sink) Stream {
	own, cancel := context.WithCancelCause(p.life)
	p.mu.Lock()
	if !p.closed {
		p.work.Go(func() {
			defer cancel(nil)
			late := context.AfterFunc(ctx, func() { cancel(ctx.Err()) })
			err := p.run(own, &r, s, late)
			late()
			switch cause := context.Cause(own); {
			case own.Err() == nil:
			case errors.Is(cause, context.Canceled) && ctx.Err() == nil: // the pump was closed
				err = ErrClosed
			default:
				err = cause
			}
			s.Closed(err)
		})
		p.mu.Unlock()
		return exchange(cancel)
	}
	p.mu.Unlock()
	cancel(nil)
	s.Closed(ErrClosed)
	return exchange(cancel)
}

func (p *over) run(ctx context.Context, r *Request, s Sink, opened func() bool) error {
	u := *p.url
	ref, err := url.ParseRequestURI(r.Path)
	if err != nil {
		return err
	}
	u.Path, u.RawPath, u.RawQuery = ref.Path, ref.RawPath, ref.RawQuery
	body, header := r.Body, r.Header
	if header == nil {
		header = http.Header{}
	}
	req := (&http.Request{
		Method: r.Method, URL: &u, Host: p.opts.Host, Header: header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
	if len(body) > 0 {
		req.ContentLength = int64(len(body))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		req.Body, _ = req.GetBody()
	}
	resp, err := p.rt.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	opened()
	h := Head{Status: resp.StatusCode, Proto: resp.Proto, Header: resp.Header, Size: headSize(resp)}
	if err := s.Opened(h, Arrival{At: p.opts.Now()}); err != nil {
		return err
	}
	buf := make([]byte, 2*portableBuffer)
	for {
		n, err := resp.Body.Read(buf)
		if n > 0 {
			if serr := s.Piece(buf[:n], Arrival{At: p.opts.Now(), Shared: n == len(buf)}); serr != nil {
				return serr
			}
		}
		if err != nil {
			return err
		}
	}
}

// Close implements Pump.
func (p *over) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.end()
	p.work.Wait()
	return nil
}

// headSize is what an answer's head takes in HTTP/1.1.
func headSize(r *http.Response) int64 {
	n := len("HTTP/1.1 ") + len(r.Status) + len("\r\n\r\n")
	for k, vs := range r.Header {
		for _, v := range vs {
			n += len(textproto.CanonicalMIMEHeaderKey(k)) + len(": ") + len(v) + len("\r\n")
		}
	}
	return int64(n)
}
