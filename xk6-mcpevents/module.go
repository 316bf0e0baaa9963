// Package mcpevents is the k6 extension k6/x/mcpevents: event delivery of MCP
// servers in k6 scripts. It drives eventmeter's own clients and upstreams and
// lets eventmeter's ledger judge every delivery; k6's counts are the ledger's.
//
// k6 is licensed under AGPL-3.0, and a k6 built with this extension is, too.
package mcpevents

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"slices"

	"github.com/grafana/sobek"
	"go.k6.io/k6/v2/errext"
	"go.k6.io/k6/v2/js/common"
	"go.k6.io/k6/v2/js/modules"
)

// Name is what scripts import.
const Name = "k6/x/mcpevents"

func init() { // k6 knows its extensions by such a call
	modules.Register(Name, New())
}

// Root is the module of the whole process: all VUs share its books, because
// events that one VU publishes are owed to others.
type Root struct{ hub *hub }

// New returns a module with empty books.
func New() *Root { return &Root{hub: newHub()} }

var (
	_ modules.Module   = (*Root)(nil)
	_ modules.Instance = (*instance)(nil)
)

// NewModuleInstance implements modules.Module.
func (r *Root) NewModuleInstance(vu modules.VU) modules.Instance {
	m, err := registerMetrics(vu.InitEnv().Registry)
	if err != nil {
		common.Throw(vu.Runtime(), fmt.Errorf("%s: %w", Name, err))
	}
	if _, done := log.Writer().(unquoted); !done {
		log.SetOutput(unquoted{log.Writer()})
	}
	r.hub.life.watch(vu.Events())
	return &instance{vu: vu, hub: r.hub, metrics: m}
}

// unquoted is the output of the standard logger, which k6 prints. It leaves out what net/http quotes there of data that
// a target sent unasked: they can hold our token.
type unquoted struct{ io.Writer }

// Write implements [io.Writer].
func (u unquoted) Write(line []byte) (int, error) {
	said := line
	if before, _, quotes := bytes.Cut(line, []byte(" starting with ")); quotes && bytes.Contains(before, []byte("Unsolicited")) {
		said = append(slices.Clip(before), '\n')
	}
	_, err := u.Writer.Write(said)
	return len(line), err
}

// Exports implements modules.Instance.
func (m *instance) Exports() modules.Exports {
	return modules.Exports{Named: map[string]any{
		"Client":      construct(m, "Client", func(a []sobek.Value) (*client, error) { return m.client(a[0], a[1]) }),
		"Upstream":    construct(m, "Upstream", func(a []sobek.Value) (*source, error) { return m.upstream(a[0]) }),
		"WebhookSink": construct(m, "WebhookSink", func(a []sobek.Value) (*sink, error) { return m.sink(a[0]) }),
		"kept":        m.kept,
	}}
}

// construct makes a constructor of scripts, for objects that are made of up to
// two arguments.
func construct[T any](m *instance, name string, made func([]sobek.Value) (T, error)) func(sobek.ConstructorCall) *sobek.Object {
	return func(call sobek.ConstructorCall) *sobek.Object {
		rt := m.vu.Runtime()
		v, err := made([]sobek.Value{call.Argument(0), call.Argument(1)})
		if err != nil {
			if err = m.fatal(err); err == nil {
				return call.This // the script does not continue
			}
			m.throw(fmt.Errorf("%s: %w", name, err))
		}
		return rt.ToValue(v).ToObject(rt)
	}
}

// fatal ends the test for errors that fail the run, and returns all others. In the
// init context every error ends the test.
func (m *instance) fatal(err error) error {
	if !errors.Is(err, errTopics) || m.vu.State() == nil {
		return err
	}
	// Not thrown: scripts must not be able to catch it.
	m.vu.Runtime().Interrupt(&errext.InterruptError{Reason: err.Error()})
	return nil
}

// kept returns subscriptions that were opened with the option keep.
func (m *instance) kept(name string) *subscription {
	if m.vu.State() == nil {
		m.throw(errors.New("kept: call it in an iteration or teardown(), not in the init context"))
	}
	g := m.hub.life.keeper(name)
	if g == nil {
		m.throw(fmt.Errorf("kept: there are no subscriptions named %q in this process: open them with the option keep", name))
	}
	return &subscription{m: m, g: g}
}
