<?php
// An order service: a due notice for each line of standard input, `<order id> <due at> <delay>`, after the order's commit.
//
//     composer require php-amqplib/php-amqplib
//     echo 4711 2026-11-20T10:30:00Z 30m | php order_service.php amqp://user:password@localhost:5672/%2f unpaid
//
// The delay is a level; on a ladder (`overdue export --format ladder`) it is any number of milliseconds, after `ladder.json`.
use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Message\AMQPMessage;

require_once 'vendor/autoload.php';

// Exchange and routing key on a ladder, rounded down: the worker waits for the rest.
function enter(array $ladder, int $delayMs, string $timeout): array
{
    [$rest, $key] = [intdiv($delayMs, $ladder['resolution_ms']), ''];
    foreach ($ladder['places'] as ['exchange' => $exchange, 'highest' => $highest]) { // smallest unit first
        $key .= $rest % ($highest + 1) . '.';
        $rest = intdiv($rest, $highest + 1);
        if ($rest === 0 && $delayMs >= 0 && $delayMs <= $ladder['max_ms']) {
            return [$exchange, $key . $timeout];
        }
    }
    throw new RangeException("no delay of $delayMs ms");
}

function publish($channel, array $way, string $id, string $dueAt): void
{
    [$exchange, $key] = $way;
    $failure = null;
    $channel->set_nack_handler(function () use (&$failure) { $failure = 'nacked, publish it again later'; });
    $channel->set_return_listener(function () use (&$failure, $exchange, $key) {
        $failure = "returned, no queue takes $key at $exchange";
    });
    $message = new AMQPMessage(json_encode(['order_id' => $id, 'due_at' => $dueAt]), [
        'content_type' => 'application/json',
        'delivery_mode' => AMQPMessage::DELIVERY_MODE_PERSISTENT,
        'message_id' => "$id@$dueAt", // the same when it is published again
    ]);
    $channel->basic_publish($message, $exchange, $key, true); // mandatory
    $channel->wait_for_pending_acks_returns(30);
    if ($failure !== null) {
        throw new RuntimeException("$id: $failure");
    }
    echo "$id: confirmed\n";
}

[, $url, $timeout] = $argv;
$ladder = isset($argv[3]) ? json_decode(file_get_contents($argv[3]), true) : null;
$to = array_map('urldecode', parse_url($url));
$connection = new AMQPStreamConnection($to['host'], $to['port'] ?? 5672, $to['user'], $to['pass'], substr($to['path'], 1));
$channel = $connection->channel();
$channel->confirm_select();
while (sscanf((string) fgets(STDIN), '%s %s %s', $id, $dueAt, $delay) === 3) {
    publish($channel, $ladder ? enter($ladder, (int) $delay, $timeout) : ['orders.in', "$delay.$timeout"], $id, $dueAt);
}
$connection->close();
