package integrations

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/labstack/echo/v4"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/httplimit"
	"github.com/weir-limit/weir/memstore"
)

// perUser is middleware that lets so much pass of each user, who stands in the
// header User.
func perUser(limit string, o httplimit.Options) func(http.Handler) http.Handler {
	m, err := httplimit.New(memstore.New(memstore.Options{}), []httplimit.Rule{
		{Name: "user", Limit: weir.MustParseLimit(limit), Key: httplimit.Header("User")},
	}, o)
	if err != nil {
		panic(err) // the rules of a test are right
	}
	return m
}

// ask is a request of a user to a path, and the status of its answer.
func ask(h http.Handler, path, user string) int {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, path, nil)
	r.Header.Set("User", user)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

func Example_chi() {
	r := chi.NewRouter()
	r.Use(perUser("2/day", httplimit.Options{}))
	r.Get("/orders/{id}", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, chi.URLParam(r, "id"))
	})
	fmt.Println(ask(r, "/orders/1", "ann"), ask(r, "/orders/2", "ann"), ask(r, "/orders/3", "ann"), ask(r, "/orders/1", "bob"))
	// Output: 200 200 429 200
}

func Example_echo() {
	e := echo.New()
	e.Use(echo.WrapMiddleware(perUser("2/day", httplimit.Options{})))
	e.GET("/orders/:id", func(c echo.Context) error { return c.String(http.StatusOK, c.Param("id")) })
	fmt.Println(ask(e, "/orders/1", "ann"), ask(e, "/orders/2", "ann"), ask(e, "/orders/3", "ann"), ask(e, "/orders/1", "bob"))
	// Output: 200 200 429 200
}

func Example_gin() {
	gin.SetMode(gin.ReleaseMode)
	g := gin.New()
	g.Use(Gin(perUser("2/day", httplimit.Options{})))
	g.GET("/orders/:id", func(c *gin.Context) { c.String(http.StatusOK, c.Param("id")) })
	fmt.Println(ask(g, "/orders/1", "ann"), ask(g, "/orders/2", "ann"), ask(g, "/orders/3", "ann"), ask(g, "/orders/1", "bob"))
	// Output: 200 200 429 200
}

// Each route of chi has counts of its own, whatever its parameters are.
func Example_chiRoutes() {
	route := httplimit.Pattern(func(r *http.Request) string { return chi.RouteContext(r.Context()).RoutePattern() })
	m, err := httplimit.New(memstore.New(memstore.Options{}), []httplimit.Rule{
		{Name: "route", Limit: weir.MustParseLimit("2/day"), Key: httplimit.Join(httplimit.Header("User"), route)},
	}, httplimit.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	r := chi.NewRouter()
	r.With(m).Get("/orders/{id}", func(http.ResponseWriter, *http.Request) {})
	r.With(m).Get("/bills/{id}", func(http.ResponseWriter, *http.Request) {})
	fmt.Println(ask(r, "/orders/1", "ann"), ask(r, "/orders/2", "ann"), ask(r, "/orders/3", "ann"), ask(r, "/bills/1", "ann"))
	// Output: 200 200 429 200
}

// routers are routers with a handler behind middleware, which answers with a
// status that the test sets.
func routers(m func(http.Handler) http.Handler, status *atomic.Int64) map[string]http.Handler {
	gin.SetMode(gin.ReleaseMode)
	answer := func(w http.ResponseWriter) {
		if s := status.Load(); s > 0 {
			w.WriteHeader(int(s))
			return
		}
		panic(http.ErrAbortHandler)
	}
	c := chi.NewRouter()
	c.Use(m)
	c.Get("/", func(w http.ResponseWriter, _ *http.Request) { answer(w) })
	e := echo.New()
	e.Use(echo.WrapMiddleware(m))
	e.GET("/", func(c echo.Context) error { answer(c.Response()); return nil })
	g := gin.New()
	g.Use(Gin(m))
	g.GET("/", func(c *gin.Context) { answer(c.Writer); c.Writer.WriteHeaderNow() })
	return map[string]http.Handler{"chi": c, "echo": e, "gin": g}
}

// TestStatusIsSeen: in each router the middleware sees the status of the response,
// so that successes are given back, and permits come back from panics.
func TestStatusIsSeen(t *testing.T) {
	var status atomic.Int64
	for _, name := range []string{"chi", "echo", "gin"} {
		h := routers(perUser("2/day", httplimit.Options{Counts: func(status int) bool { return status >= 400 }}), &status)[name]
		for i, s := range []int64{200, 200, 200, 401, 200, 401} {
			status.Store(s)
			if got := ask(h, "/", "ann"); int64(got) != s {
				t.Errorf("%s, %d: %d, want %d", name, i, got, s)
			}
		}
		if got := ask(h, "/", "ann"); got != http.StatusTooManyRequests {
			t.Errorf("%s: %d after two failures", name, got)
		}
		h = routers(perUser("1 concurrent ttl 1h", httplimit.Options{}), &status)[name]
		for range 3 {
			status.Store(0)
			func() {
				defer func() { _ = recover() }() // which is meant
				ask(h, "/", "ann")
			}()
			status.Store(200)
			if got := ask(h, "/", "ann"); got != http.StatusOK {
				t.Errorf("%s: a panic kept its permit: %d", name, got)
			}
		}
	}
}
