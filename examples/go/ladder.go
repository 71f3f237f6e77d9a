package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strconv"
)

// ladder is what `overdue export --format ladder` prints.
type ladder struct {
	Max        int64 `json:"max_ms"`
	Resolution int64 `json:"resolution_ms"`
	Places     []struct {
		Exchange string
		Highest  int64
	} // smallest unit first
}

func readLadder(file string) (l ladder) {
	text, err := os.ReadFile(file)
	check(err)
	check(json.Unmarshal(text, &l))
	return l
}

// enter gives exchange and routing key of a delay in milliseconds, rounded down: the worker waits for the rest.
func (l ladder) enter(delay, timeout string) (exchange, key string) {
	delayMs, err := strconv.ParseInt(delay, 10, 64)
	check(err)
	rest := delayMs / l.Resolution
	for _, place := range l.Places {
		key += fmt.Sprintf("%d.", rest%(place.Highest+1))
		if rest /= place.Highest + 1; rest == 0 && delayMs >= 0 && delayMs <= l.Max {
			return place.Exchange, key + timeout
		}
	}
	log.Fatalf("no delay of %s ms", delay)
	return "", ""
}
