package guard

import (
	"context"
	"net/http"
	"sync"
)

// Lives are contexts that end when a server shuts down, because a shutdown does not end requests.
// It is safe for concurrent use. The zero Lives is empty.
type Lives struct {
	mu       sync.Mutex
	byServer map[*http.Server]context.Context
}

// Of returns a context that ends when the server of a request shuts down.
func (l *Lives) Of(r *http.Request) context.Context {
	server, ok := r.Context().Value(http.ServerContextKey).(*http.Server)
	if !ok {
		return context.Background()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	life, known := l.byServer[server]
	if !known {
		var end context.CancelFunc
		life, end = context.WithCancel(context.Background())
		server.RegisterOnShutdown(end)
		if l.byServer == nil {
			l.byServer = map[*http.Server]context.Context{}
		}
		l.byServer[server] = life
	}
	return life
}
