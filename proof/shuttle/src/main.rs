//! What publishes, as it is in `src`, in orders that shuttle chooses: `overdue-shuttle [SCHEDULES]`.
//!
//! Whatever the order in which the tasks go on, the broker answers, and the connection ends: each message has one answer, the answer
//! is what became of it, nobody waits for ever, and the task ends with its last handle. A copy with a fault has to be found out.
#![allow(dead_code, unused_imports, reason = "a part of the crate that it is taken from")]

use std::{panic, sync::Arc, time::Instant};

use lapin::{Broker, Fate};
use shuttle::rand::{Rng, thread_rng};

mod broken;
mod messaging;
mod text;
mod timing;
mod topology;
mod wire;
mod worker;

use messaging::{BrokerAddress, publish::outlet::Outlet};

/// What a caller was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Confirmed,
    Returned,
    Refused,
    NotSent,
    Unknown,
}

macro_rules! said {
    ($error:path) => {{
        use $error as Error;
        |result: &Result<(), Error>| match result {
            Ok(()) => Said::Confirmed,
            Err(Error::Returned { .. }) => Said::Returned,
            Err(Error::Refused { .. }) => Said::Refused,
            Err(Error::Disconnected { .. }) => Said::NotSent,
            Err(Error::Unknown { .. }) => Said::Unknown,
            Err(other) => panic!("{other}"),
        }
    }};
}

pub(crate) fn said(result: &Result<(), messaging::PublishError>) -> Said {
    said!(messaging::publish::PublishError)(result)
}

#[derive(Default)]
pub(crate) struct Checked {
    pub(crate) answers: Vec<(String, Said)>,
}

impl Checked {
    fn assert(&self, address: &BrokerAddress) {
        let brokers = address.brokers.lock().unwrap();
        for (id, said) in &self.answers {
            let fates = brokers.iter().filter_map(|broker| broker.fates().get(id).copied());
            let fates: Vec<_> = fates.collect();
            let is_so = match said {
                Said::Confirmed => fates == [Fate::Routed],
                Said::Returned => fates == [Fate::Returned],
                Said::Refused => fates == [Fate::Refused],
                Said::NotSent => fates.is_empty(),
                // It may be there.
                Said::Unknown => fates.len() == 1,
            };
            assert!(is_so, "{id} was said to be {said:?}, and is {fates:?}");
        }
    }
}

pub(crate) fn message(id: &str) -> wire::Message {
    wire::Message { message_id: id.to_owned(), ..wire::Message::default() }
}

/// Answers messages, a few at once, until the connection is gone; it may end it.
async fn serve(broker: Arc<Broker>) {
    while !broker.is_gone() {
        tokio::task::yield_now().await;
        for (channel, waiting) in broker.waiting().into_iter().enumerate().filter(|(_, it)| *it > 0)
        {
            if thread_rng().gen_range(0..12) == 0 {
                return broker.end();
            }
            let count = thread_rng().gen_range(0..=waiting);
            let fate = || match thread_rng().gen_range(0..5) {
                0 => Fate::Refused,
                1 | 2 => Fate::Returned,
                _ => Fate::Routed,
            };
            let fates: Vec<_> = (0..count).map(|_| fate()).collect();
            broker.answer(channel, &fates, |left| thread_rng().gen_range(0..left)).await;
        }
    }
}

/// Serves each connection, until whoever connects is done with.
fn serving(
    address: &BrokerAddress,
    done: Arc<std::sync::atomic::AtomicBool>,
) -> tokio::task::JoinHandle<()> {
    let address = address.clone();
    tokio::spawn(async move {
        let mut served = 0;
        loop {
            let next = address.brokers.lock().unwrap().get(served).cloned();
            if let Some(broker) = next {
                serve(broker).await;
                served += 1;
            } else if done.load(std::sync::atomic::Ordering::SeqCst) {
                return;
            }
            tokio::task::yield_now().await;
        }
    })
}

macro_rules! publishers {
    ($name:ident, $publish:path) => {
        /// Three that publish on one channel.
        fn $name() {
            use $publish as publish;
            shuttle::future::block_on(async {
                let address = BrokerAddress::default();
                let publisher = publish::Publisher::connect(&address, "a test").await.unwrap();
                let done = Arc::default();
                let serving = serving(&address, Arc::clone(&done));
                let tasks = ["1", "2", "3"].map(|id| {
                    let publisher = publisher.clone();
                    tokio::spawn(async move {
                        (
                            id.to_owned(),
                            said!(publish::PublishError)(&publisher.publish(message(id)).await),
                        )
                    })
                });
                drop(publisher);
                let mut checked = Checked::default();
                for task in tasks {
                    checked.answers.push(task.await.unwrap());
                }
                done.store(true, std::sync::atomic::Ordering::SeqCst);
                // The task has ended the connection.
                serving.await.unwrap();
                checked.assert(&address);
            });
        }
    };
}

publishers!(one_channel, crate::messaging::publish);
publishers!(one_channel_with_a_fault, crate::broken::publish);

/// Three that publish to two places, on connections that come and go.
fn places() {
    shuttle::future::block_on(async {
        let address = BrokerAddress::default();
        let done = Arc::default();
        let serving = serving(&address, Arc::clone(&done));
        let outlet = Arc::new(Outlet::new(address.clone(), "a test"));
        let tasks = [("1", "a"), ("2", "b"), ("3", "a")].map(|(id, place)| {
            let outlet = Arc::clone(&outlet);
            tokio::spawn(
                async move { (id.to_owned(), said(&outlet.publish(place, message(id)).await)) },
            )
        });
        let mut checked = Checked::default();
        for task in tasks {
            checked.answers.push(task.await.unwrap());
        }
        drop(outlet);
        done.store(true, std::sync::atomic::Ordering::SeqCst);
        serving.await.unwrap();
        checked.assert(&address);
    });
}

/// Copies of one consumer.
fn copies() {
    shuttle::future::block_on(async {
        let address = BrokerAddress::default();
        let done = Arc::default();
        let serving = serving(&address, Arc::clone(&done));
        let mut checked = Checked::default();
        worker::copies(&address, &mut checked).await;
        done.store(true, std::sync::atomic::Ordering::SeqCst);
        serving.await.unwrap();
        checked.assert(&address);
    });
}

fn run(name: &str, schedules: usize, what: fn()) {
    let began = Instant::now();
    let mut config = shuttle::Config::new();
    config.stack_size = 0x000F_0000;
    config.max_steps = shuttle::MaxSteps::FailAfter(100_000);
    let scheduler = shuttle::scheduler::RandomScheduler::new(schedules);
    shuttle::Runner::new(scheduler, config).run(what);
    println!("shuttle: {name}: {schedules} schedules in {:.1} s", began.elapsed().as_secs_f64());
}

fn main() {
    let schedules = std::env::args().nth(1).map_or(100_000, |count| count.parse().unwrap());
    run("three publish on one channel", schedules, one_channel);
    run("three publish to two places", schedules, places);
    run("copies are heard of once", schedules, copies);
    let found = panic::catch_unwind(|| run("with a fault", schedules, one_channel_with_a_fault));
    assert!(found.is_err(), "the fault is not found");
    println!("shuttle: the fault is found");
}
