// An order service: a due notice for each line of standard input, `<order id> <due at> <delay>`, after the order's commit.
//
//     dotnet add package RabbitMQ.Client --version 7.*
//     echo 4711 2026-11-20T10:30:00Z 30m | dotnet run amqp://user:password@localhost:5672/%2f unpaid
//
// The delay is a level; on a ladder (`overdue export --format ladder`) it is any number of milliseconds, after `ladder.json`.
using System.Text.Json;
using RabbitMQ.Client;
using RabbitMQ.Client.Exceptions;

var (url, timeout) = (args[0], args[1]);
var snakeCase = new JsonSerializerOptions { PropertyNamingPolicy = JsonNamingPolicy.SnakeCaseLower };
var ladder = args.Length > 2 ? JsonSerializer.Deserialize<Ladder>(File.ReadAllText(args[2]), snakeCase) : null;
var factory = new ConnectionFactory { Uri = new Uri(url) };
await using var connection = await factory.CreateConnectionAsync();
// BasicPublishAsync waits for the broker's answer.
var confirms = new CreateChannelOptions(publisherConfirmationsEnabled: true, publisherConfirmationTrackingEnabled: true);
await using var channel = await connection.CreateChannelAsync(confirms);
while (Console.ReadLine()?.Split(' ') is [var id, var dueAt, var delay])
{
    var (exchange, key) = ladder?.Enter(long.Parse(delay), timeout) ?? ("orders.in", $"{delay}.{timeout}");
    var properties = new BasicProperties
    {
        ContentType = "application/json",
        DeliveryMode = DeliveryModes.Persistent,
        MessageId = $"{id}@{dueAt}", // the same when it is published again
    };
    var body = JsonSerializer.SerializeToUtf8Bytes(new { order_id = id, due_at = dueAt });
    try
    {
        await channel.BasicPublishAsync(exchange, key, mandatory: true, properties, body);
        Console.WriteLine($"{id}: confirmed");
    }
    catch (PublishException failure)
    {
        var reason = failure.IsReturn ? $"returned, no queue takes {key} at {exchange}" : "nacked, publish it again later";
        Console.Error.WriteLine($"{id}: {reason}");
        return 1;
    }
}
return 0;

record Place(string Exchange, long Highest);

record Ladder(long MaxMs, long ResolutionMs, Place[] Places)
{
    // Exchange and routing key on a ladder, rounded down: the worker waits for the rest.
    public (string, string) Enter(long delayMs, string timeout)
    {
        var (rest, key) = (delayMs / ResolutionMs, "");
        foreach (var (exchange, highest) in Places) // smallest unit first
        {
            key += $"{rest % (highest + 1)}.";
            rest /= highest + 1;
            if (rest == 0 && delayMs >= 0 && delayMs <= MaxMs) return (exchange, key + timeout);
        }
        throw new ArgumentException($"no delay of {delayMs} ms");
    }
}
