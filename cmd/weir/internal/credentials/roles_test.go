package credentials

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-limit/weir/internal/certtest"
)

func roles(t testing.TB, text string) (*Roles, error) {
	t.Helper()
	return OpenRoles(never, File{"--oidc-roles-file", certtest.File(t, "roles", []byte(text))}, []string{"read", "propose", "publish", "admin"})
}

// TestRoles: groups give what the lines say of them, and nothing else.
func TestRoles(t *testing.T) {
	t.Parallel()
	r, err := roles(t, "# role teams group\r\nadmin   *          weir-admins\npublish shop,mail\t Shop leads \nread {team},mail dev-{team}:x\npropose {team} dev-{team}\nread shop /Ärzte/#1\n")
	if err != nil {
		t.Fatal(err)
	}
	for group, want := range map[string][]Grant{
		"weir-admins":                          {{"admin", "*"}},
		"Weir-admins":                          nil,
		"Shop leads":                           {{"publish", "shop"}, {"publish", "mail"}},
		"Shop":                                 nil,
		"/Ärzte/#1":                            {{"read", "shop"}},
		"dev-shop":                             {{"propose", "shop"}},
		"dev-":                                 nil,
		"dev-*":                                nil,
		"dev-shop*":                            nil,
		"dev-{team}":                           {{"propose", "{team}"}}, // which no team is called
		"dev-shop:x":                           {{"read", "shop"}, {"read", "mail"}, {"propose", "shop:x"}},
		"xdev-shop":                            nil,
		"":                                     nil,
		"# role teams":                         nil,
		"dev-a\nb":                             {{"propose", "a\nb"}},
		"dev-" + strings.Repeat("x", maxGroup): nil,
	} {
		got, giving := r.Of([]string{"none", group, group})
		if half := len(got) / 2; !cmp.Equal(got[:half], want, cmp.Transformer("", func(g []Grant) []Grant { return append([]Grant{}, g...) })) {
			t.Errorf("%q gives %v, not %v", group, got, want)
		}
		if (len(giving) == 1) != (want != nil) || len(giving) > 1 {
			t.Errorf("%q gives by %q", group, giving)
		}
	}
}

func TestBadRoles(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"":                                              "there is nothing in it",
		"# only\n# comments\n":                          "there are only comments in it",
		"publish shop":                                  "line 1 is not whole",
		"publish":                                       "line 1 is not whole",
		"admin * a\nowner shop leads":                   `line 2 has the role "owner"; write read, propose, publish, admin`,
		"publish shop,,mail leads":                      "has a team without a name",
		"publish {team} leads":                          "in its teams or in its group only",
		"publish shop dev-{team}":                       "in its teams or in its group only",
		"publish {team} {team}":                         "makes every group a team",
		"publish {team} {team}-{team}":                  "twice in its group",
		"publish {Team} dev-{team}":                     "only; write it in both",
		"publish {team},{x} dev-{team}":                 `has the team "{x}"`,
		"publish a{team} dev-{team}":                    "only; write it in both",
		"read shop " + strings.Repeat("x", maxGroup+1):  "has a group of 257 bytes",
		strings.Repeat("read shop leads\n", maxRoles+1): "line 1001 is one too many",
	} {
		_, err := roles(t, text)
		bad, ok := errors.AsType[*Error](err)
		if !ok || bad.File.Flag != "--oidc-roles-file" || !strings.Contains(bad.Text, says) {
			t.Errorf("%.60q: %v", text, err)
		}
	}
}

// TestNoGroupIsAllTeams: no name that a group may have gives a role for all teams, where no line says so.
func TestNoGroupIsAllTeams(t *testing.T) {
	t.Parallel()
	r, err := roles(t, "admin {team} dev-{team}\npublish {team},shop {team}.leads\n")
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(q *rapid.T) {
		part := rapid.SampledFrom([]string{"*", "dev-", ".leads", "shop", "{team}", ",", " ", "\n", "é", ""})
		group := strings.Join(rapid.SliceOfN(part, 0, 5).Draw(q, "parts"), "")
		got, _ := r.Of([]string{group})
		if slices.ContainsFunc(got, func(g Grant) bool { return g.Team == "*" || g.Team == "" }) {
			q.Fatal(fmt.Sprintf("%q gives %v", group, got))
		}
	})
}
