package health

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/eventmeter/eventmeter/internal/dialguard"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/results"
)

// The names that Prometheus' client libraries give to the metrics of a process.
const (
	metricCPU    = "process_cpu_seconds_total"
	metricMemory = "process_resident_memory_bytes"
)

const (
	// scrapeTimeout bounds one reading of the metrics. scrapeEvery is the pause
	// between two readings, because a reading costs the target CPU time, too.
	scrapeTimeout = 2 * time.Second
	scrapeEvery   = time.Second
	maxScrape     = 32 << 20
)

// ErrMetrics is wrapped by the error of [Start] when the target's metrics cannot
// be read.
var ErrMetrics = errors.New("metrics")

// Metrics reads the metrics of a target in Prometheus' text format. It is safe for concurrent use.
type Metrics struct {
	url    string
	client *http.Client

	mu  sync.Mutex
	at  time.Time // of the last reading
	all map[string]*dto.MetricFamily
	err error
	odd map[string]float64 // values that were left out
}

// The largest values that are taken: no process has more, and results have no room for it.
const (
	largestMetric = 1e15
	largestCPU    = 1e9 // seconds
)

// plausible leaves out the metrics with values that no process can have.
func (m *Metrics) plausible(all map[string]*dto.MetricFamily) {
	for name, f := range all {
		most := largestMetric
		if name == metricCPU {
			most = largestCPU
		}
		if v, ok := sum(f); ok && !(math.Abs(v) <= most) { // NaN, too
			if m.odd == nil {
				m.odd = map[string]float64{}
			}
			m.odd[name] = v
			delete(all, name)
		}
	}
}

// Odd returns the metrics whose values were left out because no process can have them, with
// such a value each. It works on nil.
func (m *Metrics) Odd() map[string]float64 {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.odd)
}

// NewMetrics returns the metrics at url, to which guard checks the connections. It reads nothing yet. It
// returns nil if url is empty.
func NewMetrics(url string, guard *dialguard.Guard) *Metrics {
	if url == "" {
		return nil
	}
	return &Metrics{url: url, client: guard.Client()}
}

// read returns the last reading if it is at most so old, and else a new one: two who watch the target need
// not ask it twice.
func (m *Metrics) read(age time.Duration) (map[string]*dto.MetricFamily, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at.IsZero() || time.Since(m.at) > age {
		m.all, m.err = scrape(m.client, m.url)
		m.plausible(m.all)
		m.at = time.Now()
	}
	return m.all, m.err
}

// Values reads metrics by name, each added up over its labels. A name that the target does not have is
// missing in the result.
func (m *Metrics) Values(names []string) (map[string]float64, error) {
	all, err := m.read(scrapeAge)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMetrics, err)
	}
	out := map[string]float64{}
	for _, name := range names {
		if v, ok := sum(all[name]); ok {
			out[name] = v
		}
	}
	return out, nil
}

// scrapeAge is how old a reading may be for the two who take one each [scrapeEvery].
const scrapeAge = scrapeEvery * 3 / 4

// remoteMeter measures the CPU time and memory of a process by its metrics.
type remoteMeter struct {
	metrics *Metrics
	before  float64
	at      time.Time // of the last reading
	err     error     // of the last reading that failed

	mu     sync.Mutex
	last   float64
	memory int64
}

// newRemoteMeter takes a first reading, and returns an error if that fails.
func newRemoteMeter(metrics *Metrics) (*remoteMeter, error) {
	m := &remoteMeter{metrics: metrics}
	m.read(0)
	if m.err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMetrics, m.err)
	}
	m.before = m.last
	return m, nil
}

func (m *remoteMeter) sample() {
	if time.Since(m.at) >= scrapeEvery {
		m.read(scrapeAge)
	}
}

func (m *remoteMeter) read(age time.Duration) {
	m.at = time.Now()
	all, err := m.metrics.read(age)
	var cpu float64
	var memory int64
	if err == nil {
		cpu, memory, err = processOf(all)
	}
	if err != nil {
		m.err = err
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last, m.memory = cpu, max(m.memory, memory)
}

func (m *remoteMeter) used() (cpu float64, most int64, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(0, m.last-m.before), m.memory, true
}

func (m *remoteMeter) finish(wall time.Duration) *results.Process {
	m.err = nil
	m.read(0)
	if m.err != nil || m.last < m.before { // the process is gone, or was restarted
		return nil
	}
	cpu := m.last - m.before
	return &results.Process{
		CPU:        results.Nanos(cpu * 1e9),
		CPUShare:   cpu / wall.Seconds(),
		Memory:     m.memory,
		Resolution: results.Nanos(tick),
	}
}

// scrape reads the metrics at url.
func scrape(client *http.Client, url string) (map[string]*dto.MetricFamily, error) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", string(expfmt.NewFormat(expfmt.TypeTextPlain)))
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, errtext.Answered(resp)
	}
	return families(io.LimitReader(resp.Body, maxScrape))
}

// families parses the Prometheus text format.
func families(in io.Reader) (map[string]*dto.MetricFamily, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	all, err := parser.TextToMetricFamilies(in)
	if err != nil {
		return nil, fmt.Errorf("not the Prometheus text format: %w", err)
	}
	return all, nil
}

// processOf returns the CPU seconds and resident bytes.
func processOf(all map[string]*dto.MetricFamily) (cpu float64, memory int64, err error) {
	cpu, ok := sum(all[metricCPU])
	bytes, has := sum(all[metricMemory])
	if !ok || !has {
		return 0, 0, errors.New(
			"there is no " + metricCPU + " or no " + metricMemory + "; give the address of metrics that a Prometheus client library exports",
		)
	}
	return cpu, int64(bytes), nil
}

// sum adds up a metric over its labels, because one endpoint may export several
// processes.
func sum(f *dto.MetricFamily) (total float64, ok bool) {
	for _, m := range f.GetMetric() {
		switch {
		case m.Counter != nil:
			total += m.Counter.GetValue()
		case m.Gauge != nil:
			total += m.Gauge.GetValue()
		case m.Untyped != nil:
			total += m.Untyped.GetValue()
		default:
			continue
		}
		ok = true
	}
	return total, ok
}
