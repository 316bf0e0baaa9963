package results

import (
	"fmt"
	"os"
	"path/filepath"
)

// SaveCheckpoint writes the result of a run that goes on into dir, and, of a
// shard, its part (else nil). Each file is complete or not there. [Save] replaces
// both.
func SaveCheckpoint(dir string, r *Result, p *Part) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("save a checkpoint: %w", err)
	}
	if err := WriteFile(filepath.Join(dir, File), r.Write); err != nil {
		return fmt.Errorf("save a checkpoint: %w", err)
	}
	if p == nil {
		return nil
	}
	return SavePart(dir, p)
}
