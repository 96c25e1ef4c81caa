package schedule

// SetSettleAtOnce sets the number of groups that are examined at once.
func SetSettleAtOnce[J any](s *Schedule[J], n int) { s.settleAtOnce = n }

// Examined is the number of groups of waiting entries that were examined so far because a
// scope was freed.
func Examined[J any](s *Schedule[J]) int { return s.examined }
