package credentials

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// The bounds of a command that prints a secret.
const (
	commandTime = 5 * time.Second // then it is killed
	// commandGrace is how long programs that it started may hold its output open after that.
	commandGrace = time.Second
	// commandRest is how long its answer, also that it failed, is given to others who ask: connections are made many
	// at a time, and again and again while a server is away.
	commandRest = time.Second
	// maxPrinted is how much it may print, in bytes. The tokens of clouds are 2 KiB.
	maxPrinted = 8 << 10
)

// Command is a program that prints a secret in its first line. Make one with OpenCommand.
type Command struct {
	words []string

	mu     sync.Mutex // held while it runs, so that all who ask meanwhile take that answer
	ran    time.Time
	secret string
	err    error
}

// OpenCommand reads a command line: words, and what stands in quotes is one. No shell reads it. It fails with an
// *Error when there is no such program, and runs nothing.
func OpenCommand(flag, line string) (*Command, error) {
	words, err := wordsOf(line)
	if err != nil {
		return nil, &Error{File{flag, line}, err.Error()}
	}
	if _, err := exec.LookPath(words[0]); err != nil {
		return nil, &Error{File{flag, words[0]}, "there is no such program; no shell reads the command, for one write sh -c '…'"}
	}
	return &Command{words: words}, nil
}

// wordsOf are the words of a command line.
func wordsOf(line string) (words []string, _ error) {
	var word strings.Builder
	in, quote := false, rune(0)
	for _, c := range line {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			in, quote = true, c
		case c == ' ' || c == '\t' || c == '\n':
			if in {
				words = append(words, word.String())
				word.Reset()
			}
			in = false
		default:
			in = true
			word.WriteRune(c)
		}
	}
	if in {
		words = append(words, word.String())
	}
	switch {
	case quote != 0:
		return nil, fmt.Errorf("the quote %c has no end", quote)
	case len(words) == 0 || words[0] == "":
		return nil, errors.New("it names no program")
	}
	return words, nil
}

// Secret runs the command, unless it has just run, and gives the first line that it prints. What it says on
// stderr goes to that of this process. Errors never have what it prints.
func (c *Command) Secret() (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ran.IsZero() || time.Since(c.ran) >= commandRest {
		c.secret, c.err = c.run()
		c.ran = time.Now()
	}
	return c.secret, c.err
}

func (c *Command) run() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandTime)
	defer cancel()
	printed := bounded{full: cancel}
	cmd := exec.CommandContext(ctx, c.words[0], c.words[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &printed, os.Stderr, commandGrace
	err := cmd.Run()
	line, _, _ := strings.Cut(printed.b.String(), "\n")
	switch line = strings.TrimSuffix(line, "\r"); {
	case printed.over:
		return "", fmt.Errorf("the command %s for a password printed more than %d bytes", c.words[0], maxPrinted)
	case ctx.Err() != nil:
		return "", fmt.Errorf("the command %s for a password took more than %v", c.words[0], commandTime)
	case err != nil:
		return "", fmt.Errorf("the command %s for a password failed: %w", c.words[0], err)
	case line == "":
		return "", fmt.Errorf("the first line that the command %s for a password printed is empty", c.words[0])
	}
	return line, nil
}

// bounded is what a command prints, as far as it may.
type bounded struct {
	b    bytes.Buffer
	over bool
	full func() // is called when it is more
}

func (w *bounded) Write(b []byte) (int, error) {
	if w.b.Len()+len(b) > maxPrinted {
		w.over = true
		w.full()
		return 0, errors.New("too much")
	}
	return w.b.Write(b)
}
