//go:build !linux && !darwin && !windows

package sqlite

// networkFileSystemOf is not known on this system.
func networkFileSystemOf(string) (string, error) { return "", nil }
