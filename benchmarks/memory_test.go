package benchmarks

import "runtime"

// memory is what the process has in use.
type memory struct{ heap, stack uint64 }

// memoryInUse measures memory after collecting what is not in use.
func memoryInUse() memory {
	runtime.GC()
	runtime.GC() // the second empties what sync.Pool kept through the first
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return memory{heap: stats.HeapAlloc, stack: stats.StackInuse}
}

// heapSince is the growth of the heap, in bytes.
func (m memory) heapSince(before memory) float64 { return float64(m.heap) - float64(before.heap) }

// since is the growth of heap and stacks, in bytes.
func (m memory) since(before memory) float64 {
	return m.heapSince(before) + float64(m.stack) - float64(before.stack)
}
