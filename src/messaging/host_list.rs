//! URLs with several hosts, as in PostgreSQL: `scheme://user:password@one:5672,two:5672/path`.

/// Splits a URL into one URL per host; all other parts are the same.
pub(super) fn each_host(url: &str) -> Vec<String> {
    let Some((scheme, rest)) = url.split_once("://") else { return vec![url.to_owned()] };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    // A password may contain a comma, and an unescaped `@`.
    let (credentials, hosts) = match authority.rsplit_once('@') {
        Some((credentials, hosts)) => (format!("{credentials}@"), hosts),
        None => (String::new(), authority),
    };
    hosts.split(',').map(|host| format!("{scheme}://{credentials}{host}{path}")).collect()
}

#[cfg(test)]
mod tests {
    use super::each_host;

    #[test]
    fn hosts_share_everything_else() {
        let several = each_host("amqp://u:p,w@one:5672,[::1]:5673,three/%2f?heartbeat=3");
        let expected = [
            "amqp://u:p,w@one:5672/%2f?heartbeat=3",
            "amqp://u:p,w@[::1]:5673/%2f?heartbeat=3",
            "amqp://u:p,w@three/%2f?heartbeat=3",
        ];
        assert_eq!(several, expected);
        for alone in ["amqp://one", "amqp://one/a,b", "http://one:1?x=a,b", "one,two", ""] {
            assert_eq!(each_host(alone), [alone]);
        }
    }
}
