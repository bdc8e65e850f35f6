//! Runs one reply through async-openai; see `adapter`.

mod adapter;
#[path = "../../demo.rs"]
mod demo;

use async_openai::Client;
use async_openai::config::OpenAIConfig;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    demo::show(|base| {
        let config = OpenAIConfig::new().with_api_base(base).with_api_key("none");
        adapter::AsyncOpenAi(Client::with_config(config))
    })
}
