package benchmarks

import "runtime"

// memory is the memory in use by the process.
type memory struct{ heap, stack uint64 }

// memoryInUse measures memory after a garbage collection.
func memoryInUse() memory {
	runtime.GC()
	runtime.GC() // the second frees what sync.Pool kept through the first
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return memory{heap: stats.HeapAlloc, stack: stats.StackInuse}
}

// heapSince returns the growth of the heap in bytes.
func (m memory) heapSince(before memory) float64 { return float64(m.heap) - float64(before.heap) }

// since returns the growth of heap and stacks in bytes.
func (m memory) since(before memory) float64 {
	return m.heapSince(before) + float64(m.stack) - float64(before.stack)
}
