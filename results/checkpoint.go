package results

import (
	"fmt"
	"os"
	"path/filepath"
)

// SaveCheckpoint writes the result of a run that goes on into dir, and, of a
// shard, its part (else nil). Each file is complete or not there. The part is first,
// so that a process killed between the two leaves one that is newer than its result,
// and never an older one; see [CheckPart].
func SaveCheckpoint(dir string, r *Result, p *Part) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
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
