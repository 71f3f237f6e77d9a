//! One call of the management API per change of a plan.

use reqwest::Method;
use serde_json::{Value, json};

use super::{Management, ManagementError, error::ApiFailure};
use crate::{
    administration::objects::BindingInfo,
    objects::{Binding, arguments_json},
    plan::Change,
    topology::Topology,
};

impl Management {
    /// Carries out one change. Each of them can be repeated without effect.
    ///
    /// # Errors
    /// See [`ManagementError`]; a change that failed has changed nothing, but one that was not answered may have.
    pub async fn apply(&self, change: &Change) -> Result<(), ManagementError> {
        let vhost = self.vhost.as_str();
        let done = match change {
            Change::CreateExchange(exchange) => {
                let body = json!({
                    "type": exchange.kind,
                    "durable": true,
                    "auto_delete": false,
                    "arguments": arguments_json(&exchange.arguments),
                });
                self.create(Method::PUT, &["exchanges", vhost, &exchange.name], &body).await
            }
            Change::CreateQueue(queue) => {
                let mut arguments = arguments_json(&queue.arguments);
                arguments.insert("x-queue-type".to_owned(), queue.kind.as_str().into());
                let body = json!({
                    "durable": queue.durable,
                    "auto_delete": queue.auto_delete,
                    "arguments": arguments,
                });
                self.create(Method::PUT, &["queues", vhost, &queue.name], &body).await
            }
            Change::Bind(binding) => {
                let arguments = arguments_json(&binding.arguments);
                let body = json!({ "routing_key": binding.routing_key, "arguments": arguments });
                self.create(Method::POST, &self.between(binding), &body).await
            }
            Change::Leave(mark) => {
                let mark = mark.leaving(self.now_s().await?);
                return Box::pin(self.apply(&Change::Bind(mark))).await;
            }
            Change::Unbind(binding) => self.unbind(binding).await,
            Change::DeleteExchange { exchange } => {
                self.delete(&["exchanges", vhost, exchange]).await
            }
            Change::DeleteQueue { queue, .. } => self.delete(&["queues", vhost, queue]).await,
        };
        done.map_err(|error| {
            // The virtual host is there, or nothing would have been planned.
            if error.is(404) {
                return ManagementError::Refused {
                    address: self.display.clone(),
                    step: step_of(change),
                    reason: "it, or the other end of the binding, does not exist: another program is changing this topology"
                        .to_owned(),
                };
            }
            self.explain(&step_of(change), error)
        })
    }

    /// Creates an object; done where it is there already.
    async fn create(&self, how: Method, path: &[&str], body: &Value) -> Result<(), ApiFailure> {
        self.nodes.send(how, path, &[], Some(body)).await.map(drop)
    }

    /// Deletes an object; done where it is not there.
    async fn delete(&self, path: &[&str]) -> Result<(), ApiFailure> {
        match self.nodes.send(Method::DELETE, path, &[], None).await {
            Err(error) if !error.is(404) => Err(error),
            _done => Ok(()),
        }
    }

    /// Where the bindings between two objects are.
    fn between<'a>(&'a self, binding: &'a Binding) -> [&'a str; 6] {
        let kind = if binding.to_queue { "q" } else { "e" };
        ["bindings", &self.vhost, "e", &binding.source, kind, &binding.destination]
    }

    /// A binding is deleted by a key that the broker gives it.
    async fn unbind(&self, binding: &Binding) -> Result<(), ApiFailure> {
        let Binding { source, destination, to_queue, routing_key, arguments } = binding;
        let bound: Vec<BindingInfo> = if *to_queue {
            self.nodes.ask(&["queues", &self.vhost, destination, "bindings"], &[]).await?
        } else {
            let path = ["exchanges", &self.vhost, destination, "bindings", "destination"];
            self.nodes.ask(&path, &[]).await?
        };
        let arguments = arguments_json(arguments);
        let is_it = |it: &BindingInfo| {
            it.source == *source && it.routing_key == *routing_key && it.arguments == arguments
        };
        let key = bound.into_iter().find(is_it).and_then(|it| it.properties_key);
        let Some(key) = key else { return Ok(()) };
        self.delete(&[&self.between(binding)[..], &[&key]].concat()).await
    }

    /// Bindings that somebody else has made to the exchange with the old name.
    ///
    /// # Errors
    /// See [`ManagementError`]. Where there is no such exchange there are no bindings.
    pub async fn early_bindings(
        &self,
        topology: &Topology,
    ) -> Result<Vec<Binding>, ManagementError> {
        let Some(compat) = &topology.compat else { return Ok(Vec::new()) };
        let path = ["exchanges", self.virtual_host(), &compat.exchange, "bindings", "source"];
        let bindings: Option<Vec<BindingInfo>> = self.find(&path, &[]).await?;
        let bindings = bindings.into_iter().flatten().map(Binding::from);
        Ok(bindings.filter(|it| topology.is_early(it)).collect())
    }

    /// Makes a binding where messages come out, and takes it away at the old name.
    ///
    /// # Errors
    /// See [`ManagementError`]; then it is at the old name still.
    pub async fn bind_when_due(
        &self,
        topology: &Topology,
        early: &Binding,
    ) -> Result<(), ManagementError> {
        let source = topology.compat_due_exchange();
        self.apply(&Change::Bind(Binding { source, ..early.clone() })).await?;
        self.apply(&Change::Unbind(early.clone())).await
    }
}

fn step_of(change: &Change) -> String {
    match change {
        Change::CreateExchange(exchange) => format!("create exchange {}", exchange.name),
        Change::CreateQueue(queue) => format!("create queue {}", queue.name),
        Change::Bind(binding) => format!("bind {} to {}", binding.destination, binding.source),
        Change::Leave(mark) => format!("mark {} as leaving", mark.destination),
        Change::Unbind(binding) => {
            format!("unbind {} from {}", binding.destination, binding.source)
        }
        Change::DeleteExchange { exchange } => format!("delete exchange {exchange}"),
        Change::DeleteQueue { queue, .. } => format!("delete queue {queue}"),
    }
}
