//! An order service: a due notice for each line of standard input, `<order id> <due at> <delay>`, after the order's commit.
//!
//! ```sh
//! echo 4711 2026-11-20T10:30:00Z 30m | cargo run --example order_service amqp://user:password@localhost:5672/%2f unpaid
//! ```
//!
//! The delay is a level; on a ladder it is any number of milliseconds, after `ladder.json`.
#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "an example, not the worker")]

mod ladder;
use std::{env, error::Error, fs, io};

use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionProperties,
    options::{BasicPublishOptions, ConfirmSelectOptions},
};
use serde_json::{Value, json};

type Done = Result<(), Box<dyn Error>>;

async fn publish(channel: &Channel, way: (String, String), id: &str, due_at: &str) -> Done {
    let (exchange, key) = way;
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let body = json!({ "order_id": id, "due_at": due_at }).to_string().into_bytes();
    let properties = BasicProperties::default()
        .with_content_type("application/json".into())
        .with_delivery_mode(2) // persistent
        .with_message_id(format!("{id}@{due_at}").into()); // the same when it is published again
    let (to, with) = (exchange.as_str().into(), key.as_str().into());
    match channel.basic_publish(to, with, options, &body, properties).await?.await? {
        Confirmation::Ack(None) => println!("{id}: confirmed"),
        Confirmation::Ack(_) => {
            return Err(format!("{id}: returned, no queue takes {key} at {exchange}").into());
        }
        _ => return Err(format!("{id}: nacked, publish it again later").into()),
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Done {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (url, timeout) = (&arguments[0], &arguments[1]);
    let file = arguments.get(2).map(fs::read).transpose()?;
    let ladder: Option<Value> = file.map(|text| serde_json::from_slice(&text)).transpose()?;
    let connection = Connection::connect(url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    for line in io::stdin().lines() {
        let line = line?;
        let [id, due_at, delay] = line.split(' ').collect::<Vec<_>>()[..] else { break };
        let way = match &ladder {
            Some(ladder) => ladder::enter(ladder, delay.parse()?, timeout)
                .ok_or_else(|| format!("no delay of {delay} ms"))?,
            None => ("orders.in".to_owned(), format!("{delay}.{timeout}")),
        };
        publish(&channel, way, id, due_at).await?;
    }
    Ok(())
}
