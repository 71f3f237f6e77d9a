//! How much a broker is asked: `apply --wait` plans every two seconds, for as long as messages wait.

use overdue::internals::{
    broker::{BrokerAddress, Management, TopologyChange},
    topology::Topology,
};

use crate::support::{Proxy, World, world::TOPOLOGY};

/// Class and method of `channel.open-ok`, in the broker's answer.
const CHANNEL_OPENED: &str = "\0\x14\0\x0b";
const ANSWERED: &str = "HTTP/1.1 ";

struct Watched {
    amqp: Proxy,
    api: Proxy,
    management: Management,
}

impl Watched {
    async fn of(world: &World) -> Self {
        let amqp = Proxy::to(&world.services.broker_socket()).await;
        let api = Proxy::to(&world.services.management_socket()).await;
        let url = world.services.broker_url(&world.vhost, Some(amqp.port()));
        let api_url = format!("http://admin:admin@127.0.0.1:{}", api.port());
        let address = BrokerAddress::parse(&url, Some(&api_url)).unwrap();
        Self { management: world.services.management_of(&address), amqp, api }
    }

    /// Connections, channels, and answers of the management API so far.
    fn counts(&self) -> [usize; 3] {
        let channels = self.amqp.answered(CHANNEL_OPENED);
        [self.amqp.attempts(), channels, self.api.answered(ANSWERED)]
    }
}

fn ladder() -> String {
    TOPOLOGY.replace("[delay]", "[delay]\nstrategy = \"ladder\"\nladder = { max = \"10m\" }")
}

/// A ladder of many queues is taken out of use while one message waits in it.
#[apply(world_test)]
async fn what_drains_is_asked_over_one_channel() {
    let world = World::applied(&ladder()).await;
    let wire = world.wire().await;
    wire.publish_all("", "orders.ladder.5m", &["o-1".to_owned()]).await;
    let levels = Topology::parse(TOPOLOGY).unwrap();
    let watched = Watched::of(&world).await;
    let change = TopologyChange::new(&watched.management, &levels);
    let (plan, _) = change.plan().await.unwrap();
    let leaving = plan.leaving().len();
    assert!(leaving > 10, "{plan}");
    let [connections, channels, answers] = watched.counts();
    assert_eq!((connections, channels), (1, 1));
    assert!(answers < leaving, "{answers} answers for {leaving} queues");
}
