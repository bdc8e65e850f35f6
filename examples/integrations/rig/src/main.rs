//! Runs one reply through rig; see `adapter`.

mod adapter;
#[path = "../../demo.rs"]
mod demo;

use rig_core::providers::openai::OpenAIConfig;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    demo::show(|base| {
        let config = OpenAIConfig::new("none").with_base_url(base);
        adapter::Rig::new(config.client().chat("gpt-4o-mini").erase())
    })
}
