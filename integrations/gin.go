// Package integrations has what fits Weir's middleware into routers that don't
// take it as it is, and tested examples of those that do. It is there to be
// copied: to import it would bring every router.
package integrations

import (
	"net/http"

	"github.com/gin-gonic/gin"
)

// Gin is middleware for gin.
func Gin(limit func(http.Handler) http.Handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		below, passed := c.Writer, false
		limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			passed = true
			if w != http.ResponseWriter(below) { // the status has to be seen
				c.Writer = &ginWriter{ResponseWriter: below, w: w}
			}
			c.Request = r
			c.Next()
		})).ServeHTTP(below, c.Request)
		c.Writer = below
		if !passed {
			c.Abort()
		}
	}
}

// ginWriter is a writer of gin that writes to another one.
type ginWriter struct {
	gin.ResponseWriter

	w http.ResponseWriter
}

func (g *ginWriter) WriteHeader(status int)            { g.w.WriteHeader(status) }
func (g *ginWriter) Write(b []byte) (int, error)       { return g.w.Write(b) }
func (g *ginWriter) WriteString(s string) (int, error) { return g.w.Write([]byte(s)) }
func (g *ginWriter) Flush()                            { _ = http.NewResponseController(g.w).Flush() }
