//go:build !linux && !darwin && !freebsd && !windows

package sqlite

// networkFileSystemOf is not known on this system.
func networkFileSystemOf(string) (string, error) { return "", nil }
