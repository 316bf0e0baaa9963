package metrics

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"os"

	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
)

// OTLPEndpoint completes a URL: without a path it gets that of the protocol.
func OTLPEndpoint(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("%q: want a URL such as http://127.0.0.1:4318", text)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/metrics"
	}
	return u.String(), nil
}

// otlpTLS reads the certificates that the environment names, as the exporter does
// for clients of its own making.
func otlpTLS() (*tls.Config, error) {
	file := func(name string) string {
		return cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_METRICS_"+name), os.Getenv("OTEL_EXPORTER_OTLP_"+name))
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca := file("CERTIFICATE"); ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate in PEM", ca)
		}
	}
	if cert, key := file("CLIENT_CERTIFICATE"), file("CLIENT_KEY"); cert != "" && key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// StartOTLP begins to push by the OpenTelemetry protocol over HTTP; the URL must
// be whole, see [OTLPEndpoint]. Names and labels are those of Prometheus. Native
// histograms become exponential ones of the same resolution, without classic
// buckets. Headers, such as those that prove who one is, are taken from the
// environment as OpenTelemetry has it (OTEL_EXPORTER_OTLP_HEADERS).
func StartOTLP(o PushOptions) (*Pusher, error) {
	config, err := otlpTLS()
	r := o.receiver(config)
	var exporter metric.Exporter
	if err == nil {
		exporter, err = otlpmetrichttp.New(context.Background(),
			otlpmetrichttp.WithEndpointURL(o.URL), otlpmetrichttp.WithHTTPClient(r.http), otlpmetrichttp.WithTimeout(pushTimeout),
			otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{Enabled: false}))
	}
	if err != nil {
		return nil, fmt.Errorf("OTLP to %s: %w", shown(o.URL), err)
	}
	reader := metric.NewManualReader(metric.WithProducer(bridge.NewMetricProducer(bridge.WithGatherer(o.From))))
	// A reader belongs to a provider; this one has no generators. Neither it nor the exporter holds anything to shut down.
	metric.NewMeterProvider(metric.WithReader(reader),
		metric.WithResource(resource.NewSchemaless(attribute.String("service.name", o.Job))))
	push := func(ctx context.Context) error {
		r.allow(ctx)
		var all metricdata.ResourceMetrics
		if err := reader.Collect(ctx, &all); err != nil {
			return err
		}
		return exporter.Export(ctx, &all)
	}
	return startPushing("OTLP to "+shown(o.URL), o.Every, push, r.http.CloseIdleConnections), nil
}
