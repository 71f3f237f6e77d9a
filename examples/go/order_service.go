// An order service: a due notice for each line of standard input, `<order id> <due at> <delay>`, after the order's commit.
//
//	echo 4711 2026-11-20T10:30:00Z 30m | go run order_service.go ladder.go amqp://user:password@localhost:5672/%2f unpaid
//
// The delay is a level; on a ladder (`overdue export --format ladder`) it is any number of milliseconds, after `ladder.json`.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"

	amqp "github.com/rabbitmq/amqp091-go"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	connection, err := amqp.Dial(os.Args[1])
	check(err)
	defer connection.Close()
	channel, err := connection.Channel()
	check(err)
	check(channel.Confirm(false))
	// A message that is returned comes before its confirm.
	returned := channel.NotifyReturn(make(chan amqp.Return, 1))
	confirms := channel.NotifyPublish(make(chan amqp.Confirmation, 1))
	var id, dueAt, delay string
	for {
		if n, _ := fmt.Scan(&id, &dueAt, &delay); n != 3 {
			return
		}
		exchange, key := "orders.in", delay+"."+os.Args[2]
		if len(os.Args) > 3 {
			exchange, key = readLadder(os.Args[3]).enter(delay, os.Args[2])
		}
		body, _ := json.Marshal(map[string]string{"order_id": id, "due_at": dueAt})
		message := amqp.Publishing{ContentType: "application/json", DeliveryMode: amqp.Persistent, Body: body}
		message.MessageId = id + "@" + dueAt // the same when it is published again
		check(channel.PublishWithContext(context.Background(), exchange, key, true, false, message))
		confirmed, open := <-confirms
		if !open || !confirmed.Ack {
			log.Fatalf("%s: nacked, publish it again later", id)
		}
		select {
		case <-returned:
			log.Fatalf("%s: returned, no queue takes %s at %s", id, key, exchange)
		default:
			fmt.Printf("%s: confirmed\n", id)
		}
	}
}
