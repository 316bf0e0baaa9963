package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/eventmeter/eventmeter/internal/dialguard"
	"github.com/eventmeter/eventmeter/internal/errtext"
)

// appliedFaults is what the target says that it has done: the second witness, beside
// the faults' definition, where the number of occasions is the target's to know.
type appliedFaults struct {
	// Requests that can be resumed were begun.
	Requests int64
	// Pages of lists were handed out with a scope that is wrong.
	Scoped int64
}

// askAppliedFaults asks a target's admin listener.
func askAppliedFaults(ctx context.Context, admin string, guard *dialguard.Guard) (appliedFaults, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var stats struct {
		Resumable struct{ Started int64 }
	}
	var plan struct{ Executed map[string]int64 }
	for path, into := range map[string]any{"/stats": &stats, "/faults": &plan} {
		if err := getJSON(ctx, guard.Client(), admin+path, into); err != nil {
			return appliedFaults{}, fmt.Errorf("%w: %s: %w", ErrTarget, path, err)
		}
	}
	return appliedFaults{Requests: stats.Resumable.Started, Scoped: plan.Executed["sep-2549.scope"]}, nil
}

func getJSON(ctx context.Context, client *http.Client, url string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errtext.Answered(resp)
	}
	return json.NewDecoder(resp.Body).Decode(into)
}
