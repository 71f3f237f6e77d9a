//! What each SQLSTATE means for the worker: again, wait, slow down, find the row, or call a person.

use overdue::store::fault::{Fault, fault};
use proptest::prelude::*;
use tokio_postgres::error::SqlState;

fn sorted(code: &str) -> Fault {
    fault(Some(&SqlState::from_code(code)))
}

/// Codes and their names in PostgreSQL's appendix.
const TABLE: &[(&str, &str, Fault)] = &[
    ("40001", "serialization_failure", Fault::Contention),
    ("40P01", "deadlock_detected", Fault::Contention),
    ("55P03", "lock_not_available", Fault::Contention),
    ("08000", "connection_exception", Fault::Unavailable),
    ("08001", "sqlclient_unable_to_establish_sqlconnection", Fault::Unavailable),
    ("08003", "connection_does_not_exist", Fault::Unavailable),
    ("08006", "connection_failure", Fault::Unavailable),
    ("08P01", "protocol_violation, also pgbouncer's own", Fault::Unavailable),
    ("57P01", "admin_shutdown", Fault::Unavailable),
    ("57P02", "crash_shutdown", Fault::Unavailable),
    ("57P03", "cannot_connect_now", Fault::Unavailable),
    ("57P04", "database_dropped", Fault::Unavailable),
    ("57P05", "idle_session_timeout", Fault::Unavailable),
    ("25P03", "idle_in_transaction_session_timeout", Fault::Unavailable),
    ("25006", "read_only_sql_transaction", Fault::Unavailable),
    ("26000", "invalid_sql_statement_name", Fault::Unavailable),
    ("0A000", "feature_not_supported: cached plan must not change result type", Fault::Unavailable),
    ("57014", "query_canceled: statement_timeout", Fault::Overloaded),
    ("53000", "insufficient_resources", Fault::Overloaded),
    ("53100", "disk_full", Fault::Overloaded),
    ("53200", "out_of_memory", Fault::Overloaded),
    ("53300", "too_many_connections", Fault::Overloaded),
    ("53400", "configuration_limit_exceeded", Fault::Overloaded),
    ("22001", "string_data_right_truncation", Fault::Row),
    ("22003", "numeric_value_out_of_range", Fault::Row),
    ("22P02", "invalid_text_representation", Fault::Row),
    ("23502", "not_null_violation", Fault::Row),
    ("23503", "foreign_key_violation", Fault::Row),
    ("23505", "unique_violation", Fault::Row),
    ("23514", "check_violation", Fault::Row),
    ("09000", "triggered_action_exception", Fault::Row),
    ("27000", "triggered_data_change_violation", Fault::Row),
    ("44000", "with_check_option_violation", Fault::Row),
    ("P0001", "raise_exception, in a trigger of the order service", Fault::Row),
    ("P0004", "assert_failure", Fault::Row),
    ("28000", "invalid_authorization_specification", Fault::Configuration),
    ("28P01", "invalid_password", Fault::Configuration),
    ("42501", "insufficient_privilege", Fault::Configuration),
    ("42601", "syntax_error", Fault::Configuration),
    ("42703", "undefined_column", Fault::Configuration),
    ("42P01", "undefined_table", Fault::Configuration),
    ("3D000", "invalid_catalog_name: no such database", Fault::Configuration),
    ("3F000", "invalid_schema_name", Fault::Configuration),
];

#[test]
fn each_code_has_its_fault() {
    for (code, name, expected) in TABLE {
        assert_eq!(sorted(code), *expected, "{code} {name}");
    }
}

#[test]
fn a_broken_connection_has_no_code() {
    assert_eq!(fault(None), Fault::Unavailable);
}

proptest! {
    /// A code we never heard of neither parks a message nor burns a retry.
    #[test]
    fn a_whole_class_means_the_same(rest in "[0-9A-Z]{3}") {
        prop_assert_eq!(sorted(&format!("08{rest}")), Fault::Unavailable);
        prop_assert_eq!(sorted(&format!("53{rest}")), Fault::Overloaded);
        prop_assert_eq!(sorted(&format!("22{rest}")), Fault::Row);
        prop_assert_eq!(sorted(&format!("23{rest}")), Fault::Row);
        prop_assert_eq!(sorted(&format!("28{rest}")), Fault::Configuration);
        prop_assert_eq!(sorted(&format!("42{rest}")), Fault::Configuration);
        prop_assert_eq!(sorted(&format!("XX{rest}")), Fault::Unavailable);
    }
}

/// The server's text is not ours: whatever stands where a code should be, the worker lives.
#[test]
fn what_is_no_code_is_no_panic() {
    for code in ["", "4", "é", "1é", "40001 and more"] {
        assert_eq!(sorted(code), Fault::Unavailable, "{code:?}");
    }
}
