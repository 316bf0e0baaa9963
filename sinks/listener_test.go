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
	if err != nil {
		t.Fatal(err)
	}
	cert, err := elsewhere.leaf([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	l, err := Listen(ListenerOptions{Certificate: &cert, Handler: http.NotFoundHandler()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(elsewhere.PEM())
	conn, err := tls.Dial("tcp", l.port.Addr().String(), &tls.Config{RootCAs: roots})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got := conn.ConnectionState().PeerCertificates[0].Raw; !bytes.Equal(got, cert.Certificate[0]) {
		t.Error("the listener shows another certificate")
	}
}
