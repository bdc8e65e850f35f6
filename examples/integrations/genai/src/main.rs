//! Runs one reply through genai; see `adapter`.

mod adapter;
#[path = "../../demo.rs"]
mod demo;

use genai::adapter::AdapterKind;
use genai::resolver::{AuthData, Endpoint, Error as ResolveError, ServiceTargetResolver};
use genai::{Client, ModelIden, ServiceTarget};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    demo::show(|base| {
        let base = format!("{base}/");
        let resolver = ServiceTargetResolver::from_resolver_fn(
            move |target: ServiceTarget| -> Result<ServiceTarget, ResolveError> {
                Ok(ServiceTarget {
                    endpoint: Endpoint::from_owned(base.clone()),
                    auth: AuthData::from_single("none"),
                    model: ModelIden::new(AdapterKind::OpenAI, target.model.model_name),
                })
            },
        );
        let client = Client::builder()
            .with_service_target_resolver(resolver)
            .build();
        adapter::GenAi::new(client)
    })
}
