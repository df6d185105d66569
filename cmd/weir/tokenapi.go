package main

import (
	"context"
	"net/http"
	"net/url"

	"github.com/weir-limit/weir/cmd/weir/internal/ruleapi"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

// apiTokens are those of a daemon's rule database, by its API.
type apiTokens struct{ *ruleAPI }

// Close has nothing to end.
func (apiTokens) Close() error { return nil }

func (d apiTokens) create(ctx context.Context, want ruleapi.NewToken) (made rulestore.Token, err error) {
	answer, err := d.post(ctx, ruleCall{path: []string{"tokens"}}, want)
	if err != nil {
		return made, err
	}
	return made, answer.into(&made)
}

func (d apiTokens) list(ctx context.Context, each func(rulestore.Token) error) error {
	c := ruleCall{method: http.MethodGet, path: []string{"tokens"}, query: url.Values{}}
	return d.pages(ctx, c, "after", func(answer *ruleAnswer) error {
		var page struct{ Tokens []rulestore.Token }
		if err := answer.into(&page); err != nil {
			return err
		}
		for _, t := range page.Tokens {
			if err := each(t); err != nil {
				return err
			}
		}
		return nil
	})
}

func (d apiTokens) revoke(ctx context.Context, id, reason string) error {
	_, err := d.call(ctx, ruleCall{method: http.MethodDelete, path: []string{"tokens", id}, query: url.Values{"reason": {reason}}})
	return err
}
