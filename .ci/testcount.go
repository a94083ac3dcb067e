// Testcount reads the output of `go test -json`, passes on what a reader wants to see of it (a line for
// each package, the whole output of what failed, each skip) and closes with the number of tests and
// subtests that passed, failed and were skipped. It fails if any failed or none ran, and, where CI=true,
// if any was skipped.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

type event struct {
	Action, Package, Test, Output, ImportPath string
}

func main() {
	var passed, failed, skipped, broken int
	output := map[string][]string{} // of tests and packages that have not ended yet
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil { // the go command's own words
				os.Stdout.Write(line)
			}
			key := e.ImportPath + e.Package + " " + e.Test
			switch e.Action {
			case "output", "build-output":
				output[key] = append(output[key], e.Output)
				if e.Test == "" && (strings.HasPrefix(e.Output, "ok ") || strings.HasPrefix(e.Output, "?")) {
					fmt.Print(e.Output)
				}
				continue
			case "pass":
				if e.Test != "" {
					passed++
				}
			case "skip":
				if e.Test != "" {
					skipped++
					fmt.Printf("skipped %s:\n%s", key, strings.Join(output[key], ""))
				}
			case "fail", "build-fail":
				if e.Test != "" {
					failed++
				} else {
					broken++
				}
				fmt.Printf("failed %s:\n%s", key, strings.Join(output[key], ""))
			default:
				continue
			}
			delete(output, key)
		}
		if err != nil {
			break
		}
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped)
	if failed+broken > 0 || passed == 0 || skipped > 0 && os.Getenv("CI") == "true" {
		os.Exit(1)
	}
}
