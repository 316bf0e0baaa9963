package results

import (
	"fmt"
	"os"
	"path/filepath"
)

// SaveCheckpoint writes the result of a run in progress into dir and, for a shard, its part
// (otherwise nil). Each file is complete or missing. The part is written first: a process killed
// between the two leaves a part that is newer than its result, never an older one. See [CheckPart].
func SaveCheckpoint(dir string, r *Result, p *Part) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("save a checkpoint: %w", err)
	}
	if p != nil {
		if err := SavePart(dir, p); err != nil {
			return fmt.Errorf("save a checkpoint: %w", err)
		}
	}
	if err := WriteFile(filepath.Join(dir, File), r.Write); err != nil {
		return fmt.Errorf("save a checkpoint: %w", err)
	}
	return nil
}
