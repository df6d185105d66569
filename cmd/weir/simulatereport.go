package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weir-limit/weir/cmd/weir/internal/report"
	"github.com/weir-limit/weir/sim"
)

// showing says where the pictures of a simulation go.
type showing struct {
	html, svg string
	open      bool
}

func (s *showing) flags(f *pflag.FlagSet) {
	f.StringVar(&s.html, "html", "", "write a page with pictures and figures to `FILE`; it needs no network and no script")
	f.StringVar(&s.svg, "svg", "", "write the pictures to the folder `DIR`, as SVG")
	f.BoolVar(&s.open, "open", false, "show the page in a browser")
}

// reportPlans is how many plans a report tries to find the worst traffic of a limit.
const reportPlans = 20_000

// show writes what the flags ask for, and names it on stderr.
func (s *showing) show(cmd *cobra.Command, result *sim.Result, sizes func(context.Context, *sim.Result) ([]*sim.Trial, error)) error {
	if s.html == "" && s.svg == "" && !s.open {
		return nil
	}
	r := report.Report{Command: commandLine(cmd), Result: result}
	var err error
	if r.Attacks, err = attacksOn(cmd.Context(), result); err != nil {
		return err
	}
	if r.Sizes, err = sizes(cmd.Context(), result); err != nil {
		return err
	}
	if s.svg != "" {
		pictures := slices.Concat(r.Pictures(), r.Lessons())
		if err := report.Save(s.svg, pictures...); err != nil {
			return err
		}
		cmd.PrintErrf("%d pictures are in %s\n", len(pictures), s.svg)
	}
	if s.html == "" && !s.open {
		return nil
	}
	path, err := savePage(r, s.html)
	if err != nil {
		return err
	}
	cmd.PrintErrf("the page is %s\n", path)
	if s.open {
		if err := openPage(cmd.Context(), path); err != nil {
			cmd.PrintErrf("no browser could be opened here (%v): open the page yourself\n", err)
		}
	}
	return nil
}

// attacksOn looks for the worst traffic of each limit that can be searched.
func attacksOn(ctx context.Context, result *sim.Result) ([]*sim.Attack, error) {
	var attacks []*sim.Attack
	for _, t := range result.Trials {
		if t.Naive != "" {
			continue
		}
		a, err := sim.Search(ctx, t.Limit, result.Seed, reportPlans)
		if _, unfit := errors.AsType[*sim.InputError](err); unfit {
			continue
		}
		if err != nil {
			return nil, err
		}
		attacks = append(attacks, a)
	}
	return attacks, nil
}

// savePage writes the page to a file, which is a new temporary one if it has no
// name.
func savePage(r report.Report, path string) (string, error) {
	var page bytes.Buffer
	if err := r.WriteHTML(&page); err != nil {
		return "", err
	}
	if path == "" {
		file, err := os.CreateTemp("", "weir-*.html")
		if err != nil {
			return "", fmt.Errorf("make a file for the page: %w", err)
		}
		path = file.Name()
		if err := file.Close(); err != nil {
			return "", fmt.Errorf("make a file for the page: %w", err)
		}
	}
	path, err := filepath.Abs(path)
	if err == nil {
		err = os.WriteFile(path, page.Bytes(), 0o644)
	}
	if err != nil {
		return "", fmt.Errorf("write the page: %w", err)
	}
	return path, nil
}

// openPatience is how long the program that opens a browser may take to say that it
// can't. One that is still there then is the browser.
const openPatience = 3 * time.Second

// openPage shows a file in the user's browser.
func openPage(ctx context.Context, path string) error {
	words := []string{"xdg-open"}
	switch runtime.GOOS {
	case "darwin":
		words = []string{"open"}
	case "windows":
		words = []string{"rundll32", "url.dll,FileProtocolHandler"}
	}
	command := exec.CommandContext(context.WithoutCancel(ctx), words[0], append(words[1:], path)...) // it outlives this program
	if err := command.Start(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- command.Wait() }()
	select {
	case err := <-done:
		return err
	case <-time.After(openPatience):
		return nil
	}
}

// commandLine is a command with the flags that were given, but for those that only
// say how its answer is shown: the same figures come of it.
func commandLine(cmd *cobra.Command) string {
	var text strings.Builder
	text.WriteString(cmd.CommandPath())
	cmd.Flags().Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if several, ok := f.Value.(pflag.SliceValue); ok {
			values = several.GetSlice()
		}
		if strings.HasSuffix(f.Value.Type(), "Slice") { // which takes them in one word
			values = []string{strings.Join(values, ",")}
		}
		switch f.Name {
		case "html", "svg", "open", "json", "series":
			return
		}
		for _, v := range values {
			switch {
			case f.Value.Type() == "bool" && v == "true":
				text.WriteString(" --" + f.Name)
			case f.Value.Type() == "bool":
				text.WriteString(" --" + f.Name + "=" + v)
			default:
				text.WriteString(" --" + f.Name + " " + quoted(v))
			}
		}
	})
	return text.String()
}

// quoted is a word for a shell.
func quoted(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=,+@", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
