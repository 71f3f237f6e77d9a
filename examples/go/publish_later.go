// An order service that has its orders looked up after any delay.
//
//	go get github.com/rabbitmq/amqp091-go
//	overdue export --format ladder > ladder.json
//	go run publish_later.go amqp://user:password@localhost:5672/%2f ladder.json 2220000 unpaid 4711 4712
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strconv"

	amqp "github.com/rabbitmq/amqp091-go"
)

type ladder struct {
	MaxMs  int64 `json:"max_ms"`
	Places []struct {
		Exchange string `json:"exchange"`
		UnitMs   int64  `json:"unit_ms"`
	} `json:"places"` // smallest unit first
}

// enter gives exchange and routing key, rounded down: a worker of `overdue` waits for the rest itself.
func (l ladder) enter(delayMs int64, word string) (exchange, key string) {
	if delayMs < 0 || delayMs > l.MaxMs {
		log.Fatalf("no delay of %d ms", delayMs)
	}
	entry := len(l.Places) - 1
	for entry > 0 && delayMs < l.Places[entry].UnitMs {
		entry--
	}
	key = word
	for _, digit := range l.digits(delayMs, entry) {
		key = strconv.FormatInt(digit, 10) + "." + key
	}
	return l.Places[entry].Exchange, key
}

// digits, largest unit first.
func (l ladder) digits(rest int64, entry int) (digits []int64) {
	for ; entry >= 0; entry-- {
		digits = append(digits, rest/l.Places[entry].UnitMs)
		rest %= l.Places[entry].UnitMs
	}
	return digits
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	url, file, timeout, orders := os.Args[1], os.Args[2], os.Args[4], os.Args[5:]
	delayMs, err := strconv.ParseInt(os.Args[3], 10, 64)
	check(err)
	text, err := os.ReadFile(file)
	check(err)
	var places ladder
	check(json.Unmarshal(text, &places))
	exchange, key := places.enter(delayMs, timeout)

	connection, err := amqp.Dial(url)
	check(err)
	defer connection.Close()
	channel, err := connection.Channel()
	check(err)
	check(channel.Confirm(false))
	// A deferred confirmation waits for ever in older clients if the broker is quicker than the client.
	confirms := channel.NotifyPublish(make(chan amqp.Confirmation, 1))
	for _, id := range orders {
		message := amqp.Publishing{DeliveryMode: amqp.Persistent, MessageId: id, Body: []byte(id)}
		check(channel.PublishWithContext(context.Background(), exchange, key, true, false, message))
		if confirmed, open := <-confirms; !open || !confirmed.Ack {
			log.Fatalf("%s was not confirmed", id)
		}
	}
	fmt.Printf("%d confirmed: %s %s\n", len(orders), exchange, key)
}
