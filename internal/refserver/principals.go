package refserver

import "sync"

const reasonRevoked = "access revoked"

// principals knows whose access was revoked.
type principals struct {
	mu      sync.RWMutex
	revoked map[string]bool
	changed chan struct{} // closed when somebody is revoked
}

func newPrincipals() *principals {
	return &principals{revoked: make(map[string]bool), changed: make(chan struct{})}
}

// watch tells whether a principal is revoked, and gives a channel that is
// closed when next somebody is.
func (p *principals) watch(principal string) (changed <-chan struct{}, revoked bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.changed, p.revoked[principal]
}

func (p *principals) revoke(principal string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.revoked[principal] = true
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *principals) restore(principal string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.revoked, principal)
}
