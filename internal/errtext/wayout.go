package errtext

import (
	"crypto/x509"
	"errors"
	"fmt"
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
	case errors.As(err, &invalid):
		from, to := invalid.Cert.NotBefore.Format(time.DateOnly), invalid.Cert.NotAfter.Format(time.DateOnly)
		return fmt.Sprintf("the certificate is valid from %s to %s: renew it, or look at the clock of this machine", from, to)
	}
	return ""
}
