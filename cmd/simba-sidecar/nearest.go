package main

import "fmt"

// suggest returns ": did you mean …?" with the known name that is nearest to name, or "" if none is near.
func suggest(name string, known []string) string {
	if best := nearest(name, known); best != "" {
		return fmt.Sprintf(": did you mean %q?", best)
	}
	return ""
}

// nearest returns the known name that needs the fewest single-character edits, or "" if even that one
// differs so much that it would puzzle rather than help.
func nearest(name string, known []string) string {
	best, least := "", max(2, (len(name)-len(envPrefix))/3)+1
	for _, k := range known {
		if d := distance(name, k); d < least {
			best, least = k, d
		}
	}
	return best
}

// distance counts the insertions, deletions and substitutions of bytes that turn a into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
