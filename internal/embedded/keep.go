package embedded

import "github.com/eventmeter/eventmeter/sinks"

// Keep holds a reference server that outlives a run, so that all steps of a search
// use the same process. It is not safe for concurrent use.
type Keep struct {
	Server    Server
	Dir       *TempDir
	Authority *sinks.Authority // signs the certificates of callbacks, which the server trusts
}

// Alive reports whether there is a running server. It cleans up a server that has
// ended. It is false on nil.
func (k *Keep) Alive() bool {
	if k == nil || k.Server == nil {
		return false
	}
	select {
	case <-k.Server.Exited():
		k.Stop()
		return false
	default:
		return true
	}
}

// Stop ends the process; the next run starts another. It does nothing on nil.
func (k *Keep) Stop() {
	if k == nil {
		return
	}
	if k.Server != nil {
		k.Server.Stop()
	}
	k.Dir.Remove()
	*k = Keep{}
}
