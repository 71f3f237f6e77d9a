//! One call of the management API per change of a plan.

use futures_util::future::BoxFuture;
use rabbitmq_http_client::{
    commons::{BindingDestinationType, ExchangeType, QueueType},
    error::Error as ApiError,
    requests::{BindingDeletionParams, ExchangeParams, QueueParams},
};

use super::{Management, ManagementError, error::ApiFailure};
use crate::{
    objects::{Binding, arguments_json, mark::Leaving},
    plan::Change,
};

type Done<'a> = BoxFuture<'a, Result<(), ApiFailure>>;

impl Management {
    /// Carries out one change. Each of them can be repeated without effect.
    ///
    /// # Errors
    /// See [`ManagementError`]; a change that failed has changed nothing.
    pub async fn apply(&self, change: &Change) -> Result<(), ManagementError> {
        let done = match change {
            Change::CreateExchange(exchange) => {
                let kind = ExchangeType::from(exchange.kind.as_str());
                let arguments = Some(arguments_json(&exchange.arguments));
                let params = ExchangeParams::durable(&exchange.name, kind, arguments);
                self.call(|client| Box::pin(client.declare_exchange(&self.vhost, &params))).await
            }
            Change::CreateQueue(queue) => {
                let kind = QueueType::from(queue.kind.as_str());
                let arguments = Some(arguments_json(&queue.arguments));
                let params = QueueParams::new(
                    &queue.name,
                    kind,
                    queue.durable,
                    queue.auto_delete,
                    arguments,
                );
                self.call(|client| Box::pin(client.declare_queue(&self.vhost, &params))).await
            }
            Change::Bind(binding) => self.bind(binding).await,
            Change::Leave(mark) => {
                let acked = self.acked(&mark.destination).await?;
                let leaving = Leaving { since_s: self.now_s().await?, acked };
                return Box::pin(self.apply(&Change::Bind(mark.leaving(leaving)))).await;
            }
            Change::Unbind(binding) => {
                let params = BindingDeletionParams {
                    virtual_host: &self.vhost,
                    source: &binding.source,
                    destination: &binding.destination,
                    destination_type: if binding.to_queue {
                        BindingDestinationType::Queue
                    } else {
                        BindingDestinationType::Exchange
                    },
                    routing_key: &binding.routing_key,
                    arguments: Some(arguments_json(&binding.arguments)),
                };
                self.call(|client| Box::pin(client.delete_binding(&params, true))).await
            }
            Change::DeleteExchange { exchange } => {
                self.call(|client| Box::pin(client.delete_exchange(&self.vhost, exchange, true)))
                    .await
            }
            Change::DeleteQueue { queue, .. } => {
                self.call(|client| Box::pin(client.delete_queue(&self.vhost, queue, true))).await
            }
        };
        done.map_err(|error| match error {
            // The virtual host is there, or nothing would have been planned.
            ApiError::NotFound => ManagementError::Refused {
                address: self.display.clone(),
                step: step_of(change),
                reason: "it, or what it is to be bound to, is not there: somebody else is changing this topology"
                    .to_owned(),
            },
            error => self.explain(&step_of(change), error),
        })
    }

    async fn bind(&self, binding: &Binding) -> Result<(), ApiFailure> {
        let Binding { source, destination, to_queue, routing_key, arguments } = binding;
        let (vhost, key) = (&self.vhost, Some(routing_key.as_str()));
        let arguments = (!arguments.is_empty()).then(|| arguments_json(arguments));
        self.call(|client| {
            let arguments = arguments.clone();
            let done: Done<'_> = if *to_queue {
                Box::pin(client.bind_queue(vhost, destination, source, key, arguments))
            } else {
                Box::pin(client.bind_exchange(vhost, destination, source, key, arguments))
            };
            done
        })
        .await
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
