package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/weir-limit/weir/rules"
)

func schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of rule files, for editors",
		Long: `Print the JSON Schema of rule files. With it, editors complete and explain keys,
and mark what is wrong while you write:

  weir schema > weir.schema.json

and in the first line of a rule file

  # yaml-language-server: $schema=weir.schema.json

A daemon has it at GET /v1/schema of its admin listener.`,
		Args: noArguments,
		RunE: does(func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), rules.Schema())
			return err
		}),
	}
}
