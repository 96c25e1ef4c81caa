package rest_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"time"

	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/rest"
)

// Mount the dashboard, and print a link that logs a browser in.
func ExampleLogin() {
	ctx := context.Background()
	store, err := memory.New(memory.Options{KeepFinished: 100})
	must(err)
	group, err := queue.NewDriverGroup(ctx, queue.DriverGroupOptions{
		DefaultQueue: queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: 2},
	})
	must(err)
	const address = "localhost:0"

	inspector, err := management.NewGroupInspector(group) // or NewInspector(q)
	must(err)
	mux := http.NewServeMux()
	login := rest.NewLogin("/jobs")
	mux.Handle("/jobs/login", login)
	mux.Handle("/jobs/", rest.Handler(inspector, rest.Prefix("/jobs"), rest.Authorize(login.Authorize)))

	listener, err := net.Listen("tcp", address) // for instance "localhost:8080"
	must(err)
	link := fmt.Sprintf("http://%s/jobs/login?ticket=%s", listener.Addr(), login.Ticket())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }() // until server.Shutdown

	fmt.Println(browse(link))
	must(server.Shutdown(ctx))
	must(group.Close(ctx))
	// Output:
	// 200 OK true
}

// browse opens a page as a browser does, and reports whether it is the dashboard.
func browse(link string) (status string, isDashboard bool) {
	jar, err := cookiejar.New(nil)
	must(err)
	response, err := (&http.Client{Jar: jar}).Get(link)
	must(err)
	page, err := io.ReadAll(response.Body)
	must(err)
	must(response.Body.Close())
	return response.Status, strings.Contains(string(page), "Overview")
}
