package schedule

// SetSettleAtOnce sets the maximum number of groups that one call examines.
func SetSettleAtOnce[J any](s *Schedule[J], n int) { s.settleAtOnce = n }

// Examined returns the number of groups of waiting entries that were examined because a
// scope was freed.
func Examined[J any](s *Schedule[J]) int { return s.examined }
