package sinks

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"testing"
)

// TestListenerWithACertificateOfItsOwn gives the listener a certificate that
// was made elsewhere, as a target that trusts nothing of ours needs it.
func TestListenerWithACertificateOfItsOwn(t *testing.T) {
	elsewhere, err := NewAuthority()
	must(t, err)
	cert, err := elsewhere.leaf([]string{"127.0.0.1"})
	must(t, err)
	l, err := Listen(ListenerOptions{Certificate: &cert, Handler: http.NotFoundHandler()})
	must(t, err)
	defer func() {
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(elsewhere.PEM())
	conn, err := tls.Dial("tcp", l.port.Addr().String(), &tls.Config{RootCAs: roots})
	must(t, err)
	defer conn.Close()
	if got := conn.ConnectionState().PeerCertificates[0].Raw; !bytes.Equal(got, cert.Certificate[0]) {
		t.Error("the listener shows another certificate")
	}
}

// A listener on ::1, which stands for 127.0.0.1 where that is missing, is called there.
func TestCallbackOfIPv6Loopback(t *testing.T) {
	t.Parallel()
	for callback, scheme := range map[string]string{"": "https", "https://127.0.0.1:0": "https", "http://127.0.0.1:0": "http"} {
		l, err := Listen(ListenerOptions{Listen: "[::1]:0", Callback: callback})
		if err != nil {
			t.Skip(err)
		}
		if want := scheme + "://" + l.port.Addr().String(); l.URL("") != want {
			t.Errorf("callback %q: %s, want %s", callback, l.URL(""), want)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
