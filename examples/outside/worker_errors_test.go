package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	"github.com/mongodb/amboy/outside"
)

// variant is a worker whose function returns what a test needs.
type variant struct {
	file    string
	command string
	needs   []string
	// returns is the statement that returns the result, and extra is put before it.
	returns, extra string
	// signaled is what the worker does at a signal, and says does that and writes to the FIFO of $STOPPING.
	signaled, says string
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
		signaled: "lambda *_: stopping.set()", says: `lambda *_: (stopping.set(), open(os.environ["STOPPING"], "w").write("\n"))`,
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
		signaled: `.on("SIGTERM", () => worker.stop())`,
		says:     `.on("SIGTERM", () => { worker.stop(); import("node:fs").then((fs) => fs.writeFileSync(process.env.STOPPING, "\n")); })`,
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

// startVariant starts a variant.
func startVariant(ctx context.Context, t *testing.T, name, address, token string, lease float64) *exec.Cmd {
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
	if os.Getenv("STOPPING") != "" && v.says != "" {
		silent := text
		if text = strings.Replace(silent, v.signaled, v.says, 1); text == silent {
			t.Fatalf("%s has no expression %q", v.file, v.signaled)
		}
	}
	file := filepath.Join(t.TempDir(), v.file)
	if err = os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return startWorker(ctx, t, address, token, lease, v.command, file, "texts")
}

// startWorker starts a worker, which is killed at the end of the test with all that it has started. Its leases have a
// number of seconds: three times in a lease it tells the server that it runs its job, and learns that the job is canceled.
func startWorker(ctx context.Context, t *testing.T, address, token string, lease float64, command ...string) *exec.Cmd {
	t.Helper()
	worker := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // It is a worker.
	worker.Env = append(os.Environ(), "AMBOY_URL="+address, "AMBOY_TOKEN="+token, fmt.Sprint("AMBOY_LEASE=", lease), "AMBOY_WAIT=1")
	var printed bytes.Buffer
	worker.Stdout, worker.Stderr = &printed, &printed
	worker.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	worker.WaitDelay = 10 * time.Second // what the worker has started may have its output open for longer
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-worker.Process.Pid, syscall.SIGKILL) // there may be none left
		_ = worker.Wait()
		t.Logf("the worker has printed: %.2000s", &printed)
	})
	return worker
}

// longLease is a lease that does not run out however busy the machine is.
const longLease = 600

// patience ends a test that would wait for ever.
const patience = 5 * time.Minute

// longerThanTheTest is a pause of a job, in seconds.
const longerThanTheTest = 3600

func startService(t *testing.T) (context.Context, *service) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
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
			startVariant(ctx, t, name, s.url, s.token, longLease)
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

// fifo makes a FIFO whose path is in a variable of the environment. await waits until a worker has written to it.
func fifo(ctx context.Context, t *testing.T, variable string) (await func()) {
	t.Helper()
	path := filepath.Join(t.TempDir(), variable)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	t.Setenv(variable, path)
	context.AfterFunc(ctx, func() { _ = file.SetReadDeadline(time.Now()) }) // or it is closed
	return func() {
		t.Helper()
		if _, err := file.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
}

// Its heartbeats are a process of their own, which renewed the lease for ever, so the job never ran again.
func TestAShellWorkerThatWasKilledKeptItsLease(t *testing.T) {
	ctx, s := startService(t)
	awaitStart := fifo(ctx, t, "STARTED")
	var isKilled atomic.Bool
	beats := make(chan struct{}, 10) // after the kill
	address := startProxy(t, s, func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/heartbeat") && isKilled.Load() {
			select {
			case beats <- struct{}{}:
			default: // the test has ended
			}
		}
		return false
	})
	worker := startVariant(ctx, t, "shell", address, s.token, 6)
	ended := make(chan error, 1)
	go func() {
		_, err := count.PutAndWait(ctx, s.queue, countArgs{Text: "slow"}, job.ID("slow"))
		ended <- err
	}()
	awaitStart()
	if err := worker.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = worker.Wait() // it was killed
	isKilled.Store(true)
	startVariant(ctx, t, "shell", s.url, s.token, longLease)
	for range 3 { // the first may be of before the kill
		select {
		case <-beats:
		case err := <-ended:
			if err != nil {
				t.Errorf("got %v", err)
			}
			return
		}
	}
	t.Error("the heartbeats go on")
}

// The server refuses more than 100 lines, and did not renew the lease.
func TestHeartbeatsOfAJobThatLogsMuchWereRefused(t *testing.T) {
	for _, name := range []string{"python", "node"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, s := startService(t)
			startVariant(ctx, t, name, s.url, s.token, 3)
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

// tokenOf returns the token of a heartbeat.
func tokenOf(t *testing.T, r *http.Request) string {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	var beat struct {
		Heartbeats []struct{ Token string }
	}
	if err = errors.Join(err, json.Unmarshal(body, &beat)); err != nil || len(beat.Heartbeats) != 1 {
		t.Errorf("no heartbeat of one job: %s (%v)", body, err)
		return ""
	}
	return beat.Heartbeats[0].Token
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
			var half atomic.Pointer[string] // the token of the heartbeat that got half an answer
			again := make(chan struct{}, 1)
			address := startProxy(t, s, func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, "/heartbeat") {
					return false
				}
				token := tokenOf(t, r)
				if half.CompareAndSwap(nil, &token) {
					answerHalf(w)
				}
				if token == *half.Load() { // otherwise that lease has run out
					select {
					case again <- struct{}{}:
					default: // the test has ended
					}
				}
				return false
			})
			startVariant(ctx, t, name, address, s.token, 3)
			if _, err := count.Put(ctx, s.queue, countArgs{Text: "a", Pause: longerThanTheTest}); err != nil {
				t.Fatal(err)
			}
			select {
			case <-again:
			case <-ctx.Done():
				t.Error("there were no more heartbeats")
			}
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
			startVariant(ctx, t, name, address, s.token, longLease)
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
			startVariant(ctx, t, name, address, s.token, longLease) // so that each heartbeat is about the rest of a log
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
			startVariant(ctx, t, name, s.url, s.token, 3)
			cancelWhileItRuns(ctx, t, s, "sleeps", countArgs{Text: "a", Pause: longerThanTheTest})
		})
	}
}

// The shell worker ran a job that it was given after the signal, however long that took.
func TestAJobThatCameAfterTheSignalWasNotHandedBack(t *testing.T) {
	for name := range variants {
		t.Run(name, func(t *testing.T) {
			ctx, s := startService(t)
			awaitSignal := fifo(ctx, t, "STOPPING")
			asked, answers := make(chan struct{}, 10), make(chan struct{})
			address := startProxy(t, s, func(_ http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == "/v2/leases" {
					asked <- struct{}{}
					<-answers
				}
				return false
			})
			worker := startVariant(ctx, t, name, address, s.token, longLease)
			<-asked
			if _, err := count.Put(ctx, s.queue, countArgs{Text: "a", Pause: longerThanTheTest}, job.ID("late")); err != nil {
				t.Fatal(err)
			}
			if err := worker.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if name != "shell" { // which handles a signal when its request has ended
				awaitSignal()
			}
			close(answers)
			if err := worker.Wait(); err != nil {
				t.Errorf("the worker ended with %v", err)
			}
			late, err := outside.New(s.queue, outside.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer late.Close(ctx) //nolint:errcheck // The test has what it needs.
			leased, err := late.Lease(ctx, outside.LeaseRequest{Queues: []string{"texts"}, Types: []string{"count"}})
			if err != nil || len(leased) != 1 || leased[0].Attempt != 0 {
				t.Errorf("leased %+v, %v", leased, err)
			}
		})
	}
}
