package main

import (
	"errors"

	"github.com/spf13/cobra"
)

func explainCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "explain DOMAIN key=value …",
		Short:              "Tell why a request would pass or not (not built yet)",
		DisableFlagParsing: true, // it will take those of check
		RunE: does(func(cmd *cobra.Command, args []string) error {
			for _, arg := range args {
				if arg == "--help" || arg == "-h" {
					return cmd.Help()
				}
			}
			return errors.New("explain is not built yet; weir check tells what each limit says")
		}),
	}
}
