package httplimit

import (
	"context"
	"errors"
	"net/http"
	"path"
	"strconv"
	"strings"
)

// Key says whose count a request is: any bytes. It fails with ErrNoKey when the
// request does not tell; see Rule.Optional. With any other error it is answered
// with 400, optional or not. A value that a client may choose freely is no key for a limit that it
// should not get around: an address, a path, or a value verified before is.
type Key func(*http.Request) (string, error)

// Errors of keys.
var (
	// ErrNoKey is returned by a Key when a request does not tell whose it is.
	ErrNoKey = errors.New("httplimit: the request does not tell whose it is")

	errTwice = errors.New("httplimit: the request has two keys, of which the handler may read the other one")
)

// Everyone is one count for all requests.
func Everyone(*http.Request) (string, error) { return "", nil }

// Header is the value of a header, as X-Api-Key. A request that has it twice is
// refused: the handler may read the one that was not counted. Host is none of the
// headers of net/http: take a function that returns Request.Host.
func Header(name string) Key {
	name = http.CanonicalHeaderKey(name)
	return func(r *http.Request) (string, error) {
		switch values := r.Header[name]; {
		case len(values) > 1:
			return "", errTwice
		case len(values) == 0 || values[0] == "":
			return "", ErrNoKey
		default:
			return values[0], nil
		}
	}
}

// Cookie is the value of a cookie. A request that has it twice is refused.
func Cookie(name string) Key {
	return func(r *http.Request) (string, error) {
		switch all := r.CookiesNamed(name); {
		case len(all) > 1:
			return "", errTwice
		case len(all) == 0 || all[0].Value == "":
			return "", ErrNoKey
		default:
			return all[0].Value, nil
		}
	}
}

// Claim is what the app has verified before and put into the context of the
// request, as the subject of a token. subject is the app's own function to read
// it; it is false, or empty, where nobody is known.
func Claim(subject func(context.Context) (string, bool)) Key {
	return func(r *http.Request) (string, error) {
		s, ok := subject(r.Context())
		if !ok || s == "" {
			return "", ErrNoKey
		}
		return s, nil
	}
}

// Path is the path of a request, in one form for all ways to write it: without
// escapes, double and last slashes, . and .., and what follows a ; in a segment.
func Path(r *http.Request) (string, error) {
	p := r.URL.Path
	if strings.IndexByte(p, ';') >= 0 {
		segments := strings.Split(p, "/")
		for i, s := range segments {
			segments[i], _, _ = strings.Cut(s, ";")
		}
		p = strings.Join(segments, "/")
	}
	return path.Clean("/" + p), nil
}

// Pattern is the pattern of the route that answers a request, as GET /users/{id}:
// all users have one count. Without a route function it is r.Pattern, which
// http.ServeMux sets before it calls the handler, so the middleware must be
// around the handlers in the mux. Around the mux, or for another router, route
// looks the pattern up. Requests without a route share a count.
func Pattern(route func(*http.Request) string) Key {
	if route == nil {
		route = func(r *http.Request) string { return r.Pattern }
	}
	return func(r *http.Request) (string, error) { return route(r), nil }
}

// Join is all keys together: each pair of an address and a path has a count of
// its own. It fails when one of them does. No two lists of parts have the same
// key, whatever is in them: ann and /a become 3:ann2:/a.
func Join(keys ...Key) Key {
	return func(r *http.Request) (string, error) {
		var b []byte
		for _, key := range keys {
			part, err := key(r)
			if err != nil {
				return "", err
			}
			b = strconv.AppendInt(b, int64(len(part)), 10)
			b = append(append(b, ':'), part...)
		}
		return string(b), nil
	}
}

// First is the first key that a request tells: a user, else an address. Equal
// values of different keys are different counts: a user who is called 10.0.0.1 has the key 0:10.0.0.1,
// and the address has 1:10.0.0.1.
func First(keys ...Key) Key {
	return func(r *http.Request) (string, error) {
		for i, key := range keys {
			k, err := key(r)
			if errors.Is(err, ErrNoKey) {
				continue
			}
			return strconv.Itoa(i) + ":" + k, err
		}
		return "", ErrNoKey
	}
}
