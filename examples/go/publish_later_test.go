// VECTORS=$PWD/../ladder-vectors.json go test publish_later.go publish_later_test.go   compares enter with the golden vectors
package main

import (
	"encoding/json"
	"os"
	"testing"
)

type vectors struct {
	ladder
	Word  string `json:"word"`
	Cases []struct {
		DelayMs    int64  `json:"delay_ms"`
		Rounding   string `json:"rounding"`
		Exchange   string `json:"exchange"`
		RoutingKey string `json:"routing_key"`
		Error      string `json:"error"`
	} `json:"cases"`
}

func TestVectors(t *testing.T) {
	text, err := os.ReadFile(os.Getenv("VECTORS"))
	check(err)
	var ladders []vectors
	check(json.Unmarshal(text, &ladders))
	count := 0
	for _, l := range ladders {
		for _, c := range l.Cases {
			if c.Rounding != "down" || c.Error != "" {
				continue
			}
			count++
			if exchange, key := l.enter(c.DelayMs, l.Word); exchange != c.Exchange || key != c.RoutingKey {
				t.Errorf("%d ms: %s %s", c.DelayMs, exchange, key)
			}
		}
	}
	t.Logf("%d vectors", count)
}
