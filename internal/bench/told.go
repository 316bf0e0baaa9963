package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// deeds is what the target says that it has done: the second witness, beside
// the faults' definition, where the number of occasions is the target's to know.
type deeds struct {
	// Requests that can be resumed were begun.
	Requests int64
	// Pages of lists were handed out with a scope that is wrong.
	Scoped int64
}

// askDeeds asks a target's admin listener.
func askDeeds(ctx context.Context, admin string) (deeds, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var stats struct {
		Resumable struct{ Started int64 }
	}
	var plan struct{ Executed map[string]int64 }
	for path, into := range map[string]any{"/stats": &stats, "/faults": &plan} {
		if err := getJSON(ctx, admin+path, into); err != nil {
			return deeds{}, fmt.Errorf("%w: %s: %w", ErrTarget, path, err)
		}
	}
	return deeds{Requests: stats.Resumable.Started, Scoped: plan.Executed["sep-2549.scope"]}, nil
}

func getJSON(ctx context.Context, url string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("answered %s", resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(into)
}
