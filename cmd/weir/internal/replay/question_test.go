package replay

import (
	"errors"
	"strings"
	"testing"

	"github.com/weir-limit/weir/cmd/weir/internal/accesslog"
	"github.com/weir-limit/weir/rules"
)

func TestTooManyQuestions(t *testing.T) {
	for _, c := range []struct {
		name, descriptors string
		ok                bool
	}{
		{"512", "{key: '*', descriptors: [{key: '*', descriptors: [{key: '*', limits: [1/s]}]}]}", true},
		{"512 and 64 and 8", "{key: '*', limits: [1/s], descriptors: [{key: '*', limits: [1/s], descriptors: [{key: '*', limits: [1/s]}]}]}", true},
		{"512 twice the same", "{key: '*', descriptors: [{key: '*', descriptors: [{key: '*', limits: [1/s]}, {key: '**', limits: [1/s]}]}]}", true},
		{"512, and 512 others", "{key: '*', descriptors: [{key: '*', descriptors: [{key: '*', limits: [1/s]}, {key: a, descriptors: [{key: '*', limits: [1/s]}]}, " +
			"{key: path, descriptors: [{key: '*', limits: [1/s]}]}]}]}", false},
		{"4096", "{key: '*', descriptors: [{key: '*', descriptors: [{key: '*', descriptors: [{key: '*', limits: [1/s]}]}]}]}", false},
	} {
		set, err := rules.Parse("test.yaml", []byte("domain: d\ndescriptors: ["+c.descriptors+"]"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = newPlayer(Question{Rules: set})
		if _, input := errors.AsType[*accesslog.InputError](err); input == c.ok || err != nil && !input {
			t.Errorf("%s: error %v", c.name, err)
		}
	}
}

func TestFits(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"path", "path", true},
		{"path", "paths", false},
		{"paths", "path", false},
		{"*", "path", true},
		{"***", "path", true},
		{"p*", "path", true},
		{"*h", "path", true},
		{"p*h", "path", true},
		{"pa*ath", "path", false},
		{"p*a*h", "path", true},
		{"p*t*a*h", "path", false},
		{"*x*", "path", false},
		{"path*", "path", true},
		{"x*", "path", false},
		{strings.Repeat("*a", 4000), "user_agent", false},
	} {
		if got := fits(c.pattern, c.text); got != c.want {
			t.Errorf("fits(%q, %q) = %v", c.pattern, c.text, got)
		}
	}
}
