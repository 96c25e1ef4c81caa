package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/management"
)

// variant is a worker whose function returns what a test needs.
type variant struct {
	file    string
	command string
	needs   []string
	// returns is the statement that returns the result, and extra is put before it.
	returns, extra string
}

var variants = map[string]variant{
	"python": {
		file: "worker.py", command: "python3", needs: []string{"python3"}, returns: `    return {"words": len(words), "by": "python"}`,
		extra: `    if job.args["text"] == "unencodable":
        return {1}
    if job.args["text"] == "NaN":
        return float("nan")
    if job.args["text"] == "large":
        return "x" * (2 << 20)
    if job.args["text"] == "huge":
        return "x" * (5 << 20)
    if job.args["text"] == "long":
        raise ValueError("x" * 100_000)
    if job.args["text"] == "chatty":
        for beat in range(4):
            for line in range(1000):
                job.log("line %d" % line)
            while job.log_lines:
                job.sleep(0.01)
`,
	},
	"node": {
		file: "worker.mjs", command: "node", needs: []string{"node"}, returns: `  return { words: words.length, by: "node" };`,
		extra: `  if (text === "unencodable") return 1n;
  if (text === "large") return "x".repeat(2 << 20);
  if (text === "huge") return "x".repeat(5 << 20);
  if (text === "long") throw new Error("x".repeat(100_000));
  if (text === "undefined") await Promise.reject();
  if (text === "chatty") {
    for (let beat = 0; beat < 4; beat++) {
      for (let line = 0; line < 1000; line++) job.log.push("line " + line);
      while (job.log.length > 0) await sleep(10);
    }
  }
`,
	},
	"shell": {
		file: "worker.sh", command: "bash", needs: []string{"bash", "curl", "jq"}, returns: `  echo "{\"words\": $words, \"by\": \"shell\"}"`,
		extra: `  case $(jq -r .text <<<"$args") in
  unencodable) echo "all is well"; return ;;
  large) printf '"'; head -c 2097152 /dev/zero | tr '\0' x; printf '"'; return ;;
  long) head -c 100000 /dev/zero | tr '\0' x >&2; exit 1 ;;
  warning) echo "a warning" >&2 ;;
  slow) echo > "$STARTED"; sleep 5 ;;
  esac
`,
	},
}

// startVariant starts a worker.
func startVariant(ctx context.Context, t *testing.T, name, address, token string) *exec.Cmd {
	t.Helper()
	v := variants[name]
	for _, program := range v.needs {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed", program)
		}
	}
	source, err := os.ReadFile(v.file)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(source), v.returns, v.extra+v.returns, 1)
	if text == string(source) {
		t.Fatalf("%s has no statement %q", v.file, v.returns)
	}
	file := filepath.Join(t.TempDir(), v.file)
	if err = os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	worker := exec.CommandContext(ctx, v.command, file, "texts")
	worker.Env = append(os.Environ(), "AMBOY_URL="+address, "AMBOY_TOKEN="+token, "AMBOY_LEASE=1.2", "AMBOY_WAIT=1")
	var printed bytes.Buffer
	worker.Stdout, worker.Stderr = &printed, &printed
	worker.WaitDelay = 10 * time.Second // what the worker has started may have its output open for longer
	if err = worker.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = worker.Process.Kill()
		_ = worker.Wait()
		t.Logf("the worker has printed: %.2000s", &printed)
	})
	return worker
}

func startService(t *testing.T) (context.Context, *service) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	s, err := start(ctx, filepath.Join(t.TempDir(), "jobs.db"), "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.close(context.Background()) })
	return ctx, s
}

// A worker sent what the server refused again and again, or ended.
func TestAWorkerWasLostByAResultThatTheServerRefuses(t *testing.T) {
	for name, texts := range map[string][]string{
		"python": {"unencodable", "NaN", "large", "huge", "long"},
		"node":   {"unencodable", "large", "huge", "long", "undefined"},
		"shell":  {"unencodable", "large", "long"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, s := startService(t)
			startVariant(ctx, t, name, s.url, s.token)
			for _, text := range texts {
				_, err := count.PutAndWait(ctx, s.queue, countArgs{Text: text}, job.ID(text))
				var failed *job.NoResultError
				if !errors.As(err, &failed) || failed.State != amboy.StateFailed {
					t.Fatalf("%s: got %v", text, err)
				}
			}
			for _, text := range []string{"a b c", "warning"} {
				if got, err := count.PutAndWait(ctx, s.queue, countArgs{Text: text}); err != nil || got.By != name {
					t.Errorf("%s: got %+v, %v", text, got, err)
				}
			}
		})
	}
}

// hasNoInterruptions fails the test if the lease of a job has run out.
func hasNoInterruptions(ctx context.Context, t *testing.T, s *service, id string) {
	t.Helper()
	inspector, err := management.NewInspector(s.queue)
	if err != nil {
		t.Fatal(err)
	}
	shown, err := inspector.Job(ctx, "texts", id)
	if err != nil {
		t.Fatal(err)
	}
	if n := shown.Interruptions.Total(); n > 0 {
		t.Errorf("the lease of job %q has run out %d times", id, n)
	}
}

// Its heartbeats are a process of their own, which renewed the lease for ever, so the job never ran again.
func TestAShellWorkerThatWasKilledKeptItsLease(t *testing.T) {
	path := filepath.Join(t.TempDir(), "started")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	started, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer started.Close() //nolint:errcheck // Nothing was written.
	t.Setenv("STARTED", path)
	ctx, s := startService(t)
	context.AfterFunc(ctx, func() { _ = started.SetReadDeadline(time.Now()) }) // or it is closed
	worker := startVariant(ctx, t, "shell", s.url, s.token)
	ended := make(chan error, 1)
	go func() {
		_, err := count.PutAndWait(ctx, s.queue, countArgs{Text: "slow"}, job.ID("slow"))
		ended <- err
	}()
	if _, err := started.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := worker.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = worker.Wait() // it was killed
	startVariant(ctx, t, "shell", s.url, s.token)
	if err := <-ended; err != nil {
		t.Errorf("got %v", err)
	}
}

// The server refuses more than 100 lines, and did not renew the lease.
func TestHeartbeatsOfAJobThatLogsMuchWereRefused(t *testing.T) {
	for _, name := range []string{"python", "node"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, s := startService(t)
			startVariant(ctx, t, name, s.url, s.token)
			if _, err := count.PutAndWait(ctx, s.queue, countArgs{Text: "chatty"}, job.ID("chatty")); err != nil {
				t.Fatal(err)
			}
			inspector, err := management.NewInspector(s.queue)
			if err != nil {
				t.Fatal(err)
			}
			shown, err := inspector.Job(ctx, "texts", "chatty")
			if err != nil || len(shown.Log) == 0 {
				t.Errorf("got %d lines, %v", len(shown.Log), err)
			}
		})
	}
}

// startProxy starts a proxy before the server. meet may answer a request itself.
func startProxy(t *testing.T, s *service, meet func(w http.ResponseWriter, r *http.Request) (answered bool)) string {
	t.Helper()
	to, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	forward := httputil.NewSingleHostReverseProxy(to)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !meet(w, r) {
			forward.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(proxy.Close)
	return proxy.URL
}

// answerHalf answers with the beginning of a body, and ends the connection. It does not return.
func answerHalf(w http.ResponseWriter) {
	w.Header().Set("Content-Length", "100")
	_, _ = io.WriteString(w, "{")
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// The thread of the heartbeats ended if a server died in the middle of an answer, so that the leases of all
// jobs ran out from then on.
func TestHeartbeatsEndedAfterHalfAnAnswer(t *testing.T) {
	for _, name := range []string{"python", "node"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, s := startService(t)
			var beats atomic.Int32
			address := startProxy(t, s, func(w http.ResponseWriter, r *http.Request) bool {
				if strings.HasSuffix(r.URL.Path, "/heartbeat") && beats.Add(1) == 1 {
					answerHalf(w)
				}
				return false
			})
			startVariant(ctx, t, name, address, s.token)
			if _, err := count.PutAndWait(ctx, s.queue, countArgs{Text: "a b c d e", Pause: 1}, job.ID("slow")); err != nil {
				t.Fatal(err)
			}
			hasNoInterruptions(ctx, t, s, "slow")
		})
	}
}

// The shell worker asked again at once if it got an error, as often as it could.
func TestWorkersPauseAfterAnErrorOfTheServer(t *testing.T) {
	for name := range variants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, s := startService(t)
			times := make(chan time.Time, 100)
			address := startProxy(t, s, func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == "/v2/leases" {
					select {
					case times <- time.Now():
					default: // the test has ended
					}
				}
				w.Header().Set("Content-Type", "application/problem+json")
				w.WriteHeader(http.StatusServiceUnavailable)
				_, _ = io.WriteString(w, `{"type":"about:blank","title":"Service Unavailable","status":503}`)
				return true
			})
			startVariant(ctx, t, name, address, s.token)
			first := <-times
			for range 2 { // a worker has two slots
				<-times
			}
			if between := (<-times).Sub(first); between < time.Second {
				t.Errorf("the worker has asked four times in %s", between)
			}
		})
	}
}

// A server that died in the middle of its answer to the heartbeat with the rest of a log ended a thread of the worker,
// which ran fewer jobs from then on, and in the end none.
func TestSlotsEndedAfterHalfAnAnswerToTheRestOfALog(t *testing.T) {
	for _, name := range []string{"python", "node"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, s := startService(t)
			var beats atomic.Int32
			address := startProxy(t, s, func(w http.ResponseWriter, r *http.Request) bool {
				if strings.HasSuffix(r.URL.Path, "/heartbeat") && beats.Add(1) <= 2 { // a worker has two slots
					answerHalf(w)
				}
				return false
			})
			startVariant(ctx, t, name, address, s.token)
			for _, id := range []string{"one", "two", "three"} {
				if _, err := count.PutAndWait(ctx, s.queue, countArgs{Text: "a b"}, job.ID(id)); err != nil {
					t.Fatal(id, err)
				}
			}
		})
	}
}

// A job that slept noticed only afterwards that it was canceled.
func TestACanceledJobSleptOn(t *testing.T) {
	for _, name := range []string{"python", "node"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, s := startService(t)
			startVariant(ctx, t, name, s.url, s.token)
			cancelWhileItRuns(ctx, t, s, "sleeps", countArgs{Text: "a", Pause: 60}) // the test has 30 s
		})
	}
}
