package pinlater

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"strings"
)

// hashSize is the number of bytes of the hash of a password.
const hashSize = sha256.Size

// passwordSalt is part of the interface: hashes that operators have must stay valid.
const passwordSalt = "VHzMjY2Kb9BYlyrbtpyFvnHVPZAvB5Rm"

// PasswordHash returns the value of Options.AdminPasswordHash for a password.
func PasswordHash(password string) string {
	hash := sha256.Sum256([]byte(password + passwordSalt))
	return hex.EncodeToString(hash[:])
}

// isPassword reports whether a password has a hash. There is no password for an empty hash.
func isPassword(password, hash string) bool {
	want := strings.ToLower(hash)
	return password != "" && want != "" && subtle.ConstantTimeCompare([]byte(PasswordHash(password)), []byte(want)) == 1
}
