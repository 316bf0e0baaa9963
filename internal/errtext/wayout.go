package errtext

import (
	"crypto/x509"
	"errors"
	"time"
)

// WayOut returns what to do about err, for which a server could not be reached; "" if err does not
// show it.
func WayOut(err error) string {
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case isPortless(err):
		return "the local ports of this machine are used up: widen their range (" + portRange + "), or open fewer connections"
	case errors.As(err, &authority):
		return "name the authority's certificate in target.caFile (in k6: ca)"
	case errors.As(err, &host):
		return "use a host name of the certificate in the URL, or give the server a certificate for this one"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired && time.Now().Before(invalid.Cert.NotBefore):
		return "the certificate is not valid yet: look at its dates, and at the clock of this machine"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the certificate has expired: renew it"
	case errors.As(err, &invalid):
		return "the server needs another certificate"
	}
	return ""
}
