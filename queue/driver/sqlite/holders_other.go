//go:build !linux

package sqlite

import "os"

func openSlots(string, string) (*os.File, error) { return nil, errNoSlots }

func fileIdentity(*os.File) (string, error) { return "", errNoSlots }

func lockSlot(*os.File, int64) error { return errNoSlots }

func isLocked(*os.File, int64) (bool, error) { return false, errNoSlots }
