package sqlite

import (
	"bufio"
	"strings"
)

// KindOfDevice returns the kind of the file system on a device, from the text of mountinfo.
func KindOfDevice(mounts, device string) (string, error) {
	return kindOfDevice(bufio.NewScanner(strings.NewReader(mounts)), device)
}

// NetworkFileSystem returns the kind of the network file system of a directory, if it is one.
func NetworkFileSystem(dir string) (string, error) { return networkFileSystemOf(dir) }
