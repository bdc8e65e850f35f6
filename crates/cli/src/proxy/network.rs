//! The network's proxy, by which servers are reached: that of the option, of the file, or of the environment.

use std::env;

use ttsr_proxy::NetworkProxy;

use super::{clients, of_environment};
use crate::CommandError;

/// The variables with its URL, in the order in which they are read. `HTTP_PROXY` is for servers without TLS, which are
/// reached directly.
const VARIABLES: [&str; 4] = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];

/// Returns the network's proxy, with the hosts of `NO_PROXY` as exceptions. It is read from the environment of this process,
/// which differs from that of a command behind the proxy.
pub(super) fn network_proxy(
    of_option: Option<&str>,
    of_file: Option<&str>,
) -> Result<Option<NetworkProxy>, CommandError> {
    let of_option = of_option.map(|url| ("--network-proxy", url.to_owned()));
    let of_file = of_file.map(|url| ("proxy.network-proxy", url.to_owned()));
    let Some((name, url)) = of_option
        .or(of_file)
        .map_or_else(first_variable, |it| Ok(Some(it)))?
    else {
        return Ok(None);
    };
    if url.is_empty() {
        return Ok(None);
    }
    let network_proxy = NetworkProxy::parse(&url).map_err(|error| {
        let way_out = match VARIABLES.contains(&name) {
            true => ". With --network-proxy \"\" servers are reached without it",
            false => "",
        };
        CommandError::Message(format!("{name}: {error}{way_out}"))
    })?;
    let direct = of_environment(&clients::NO_PROXY);
    let direct = direct.map_or(String::new(), |(_, hosts)| hosts);
    Ok(Some(network_proxy.except(&direct)))
}

/// Returns the first of the variables that is set and not empty.
fn first_variable() -> Result<Option<(&'static str, String)>, CommandError> {
    let set = VARIABLES.into_iter().find_map(|name| {
        let value = env::var_os(name).filter(|value| !value.is_empty())?;
        Some((name, value))
    });
    let Some((name, value)) = set else {
        return Ok(None);
    };
    // The value may have a password.
    let because = |_| CommandError::Message(format!("{name}: the value is not UTF-8"));
    Ok(Some((name, value.into_string().map_err(because)?)))
}
