// Package mcpevents is the k6 extension k6/x/mcpevents: event delivery of MCP
// servers in k6 scripts. It drives mcpload's own clients and upstreams and
// lets mcpload's ledger judge every delivery; what k6 counts is what the
// ledger counted.
//
// k6 is licensed under AGPL-3.0, and a k6 built with this extension is, too.
package mcpevents

import (
	"fmt"

	"github.com/grafana/sobek"
	"go.k6.io/k6/v2/js/common"
	"go.k6.io/k6/v2/js/modules"
)

// Name is what scripts import.
const Name = "k6/x/mcpevents"

func init() { // k6 knows its extensions by such a call.
	modules.Register(Name, New())
}

// Root is the module once for the whole process: all VUs share its books,
// because what one VU fires another is owed.
type Root struct{ hub *hub }

// New returns a module with empty books.
func New() *Root { return &Root{hub: newHub()} }

// instance is the module in one VU. It is only used on the VU's event loop.
type instance struct {
	vu      modules.VU
	hub     *hub
	metrics *metricSet
}

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
	return &instance{vu: vu, hub: r.hub, metrics: m}
}

// Exports implements modules.Instance.
func (m *instance) Exports() modules.Exports {
	return modules.Exports{Named: map[string]any{"Client": m.newClient, "Upstream": m.newUpstream}}
}

// newClient is the constructor of Client.
func (m *instance) newClient(call sobek.ConstructorCall) *sobek.Object {
	rt := m.vu.Runtime()
	c, err := m.client(call.Argument(0), call.Argument(1))
	if err != nil {
		common.Throw(rt, fmt.Errorf("Client: %w", err))
	}
	return rt.ToValue(c).ToObject(rt)
}

// newUpstream is the constructor of Upstream.
func (m *instance) newUpstream(call sobek.ConstructorCall) *sobek.Object {
	rt := m.vu.Runtime()
	u, err := m.upstream(call.Argument(0))
	if err != nil {
		common.Throw(rt, fmt.Errorf("Upstream: %w", err))
	}
	return rt.ToValue(u).ToObject(rt)
}
