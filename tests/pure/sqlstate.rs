//! The meaning of each SQLSTATE for the worker: repeat, wait, slow down, find the row, or alert a person.

use overdue::internals::store::{FailureKind, kind_of};
use proptest::prelude::*;
use tokio_postgres::error::SqlState;

fn sorted(code: &str) -> FailureKind {
    kind_of(Some(&SqlState::from_code(code)))
}

/// Codes and their names in PostgreSQL's appendix.
const TABLE: &[(&str, &str, FailureKind)] = &[
    ("40001", "serialization_failure", FailureKind::Contention),
    ("40P01", "deadlock_detected", FailureKind::Contention),
    ("55P03", "lock_not_available", FailureKind::Contention),
    ("08000", "connection_exception", FailureKind::Unavailable),
    ("08001", "sqlclient_unable_to_establish_sqlconnection", FailureKind::Unavailable),
    ("08003", "connection_does_not_exist", FailureKind::Unavailable),
    ("08006", "connection_failure", FailureKind::Unavailable),
    ("08P01", "protocol_violation, also pgbouncer's own", FailureKind::Unavailable),
    ("57P01", "admin_shutdown", FailureKind::Unavailable),
    ("57P02", "crash_shutdown", FailureKind::Unavailable),
    ("57P03", "cannot_connect_now", FailureKind::Unavailable),
    ("57P04", "database_dropped", FailureKind::Unavailable),
    ("57P05", "idle_session_timeout", FailureKind::Unavailable),
    ("25P03", "idle_in_transaction_session_timeout", FailureKind::Unavailable),
    ("25006", "read_only_sql_transaction", FailureKind::Unavailable),
    ("26000", "invalid_sql_statement_name", FailureKind::Unavailable),
    (
        "0A000",
        "feature_not_supported: cached plan must not change result type",
        FailureKind::Unavailable,
    ),
    ("57014", "query_canceled: statement_timeout", FailureKind::Overloaded),
    ("53000", "insufficient_resources", FailureKind::Overloaded),
    ("53100", "disk_full", FailureKind::Overloaded),
    ("53200", "out_of_memory", FailureKind::Overloaded),
    ("53300", "too_many_connections", FailureKind::Overloaded),
    ("53400", "configuration_limit_exceeded", FailureKind::Overloaded),
    ("58000", "system_error", FailureKind::Overloaded),
    ("58030", "io_error", FailureKind::Overloaded),
    ("58P01", "undefined_file, as of a library that a trigger lacks", FailureKind::Row),
    ("XX001", "data_corrupted", FailureKind::Overloaded),
    ("XX002", "index_corrupted", FailureKind::Overloaded),
    ("22001", "string_data_right_truncation", FailureKind::Row),
    ("22003", "numeric_value_out_of_range", FailureKind::Row),
    ("22P02", "invalid_text_representation", FailureKind::Row),
    ("23502", "not_null_violation", FailureKind::Row),
    ("23503", "foreign_key_violation", FailureKind::Row),
    ("23505", "unique_violation", FailureKind::Row),
    ("23514", "check_violation", FailureKind::Row),
    ("09000", "triggered_action_exception", FailureKind::Row),
    ("27000", "triggered_data_change_violation", FailureKind::Row),
    ("44000", "with_check_option_violation", FailureKind::Row),
    ("P0001", "raise_exception, in a trigger of the order service", FailureKind::Row),
    ("P0004", "assert_failure", FailureKind::Row),
    ("21000", "cardinality_violation", FailureKind::Row),
    ("38000", "external_routine_exception", FailureKind::Row),
    ("57000", "operator_intervention", FailureKind::Row),
    ("XX000", "internal_error, also of a PL/Python function", FailureKind::Row),
    ("OS001", "a code that an order service has made up", FailureKind::Row),
    ("28000", "invalid_authorization_specification", FailureKind::Configuration),
    ("28P01", "invalid_password", FailureKind::Configuration),
    ("42501", "insufficient_privilege", FailureKind::Configuration),
    ("42601", "syntax_error", FailureKind::Configuration),
    ("42703", "undefined_column", FailureKind::Configuration),
    ("42P01", "undefined_table", FailureKind::Configuration),
    ("3D000", "invalid_catalog_name: no such database", FailureKind::Configuration),
    ("3F000", "invalid_schema_name", FailureKind::Configuration),
];

#[test]
fn each_code_has_its_kind() {
    for (code, name, expected) in TABLE {
        assert_eq!(sorted(code), *expected, "{code} {name}");
    }
}

#[test]
fn a_broken_connection_has_no_code() {
    assert_eq!(kind_of(None), FailureKind::Unavailable);
}

proptest! {
    /// Only listed codes end a batch without a split.
    #[test]
    fn a_code_that_nobody_knows_can_be_of_a_row(code in "[0-9A-Z]{5}") {
        const LISTED: &[&str] =
            &["08", "28", "42", "3D", "3F", "53", "57", "58", "25", "26", "0A", "40", "55", "XX"];
        prop_assume!(!LISTED.contains(&&code[..2]));
        prop_assert_eq!(sorted(&code), FailureKind::Row);
    }

    #[test]
    fn a_whole_class_means_the_same(rest in "[0-9A-Z]{3}") {
        prop_assert_eq!(sorted(&format!("08{rest}")), FailureKind::Unavailable);
        prop_assert_eq!(sorted(&format!("53{rest}")), FailureKind::Overloaded);
        prop_assert_eq!(sorted(&format!("22{rest}")), FailureKind::Row);
        prop_assert_eq!(sorted(&format!("23{rest}")), FailureKind::Row);
        prop_assert_eq!(sorted(&format!("28{rest}")), FailureKind::Configuration);
        prop_assert_eq!(sorted(&format!("42{rest}")), FailureKind::Configuration);
        if !["001", "002"].contains(&rest.as_str()) {
            prop_assert_eq!(sorted(&format!("XX{rest}")), FailureKind::Row);
        }
    }
}

/// The code comes from the server: any text in its place must not stop the worker.
#[test]
fn what_is_no_code_is_no_panic() {
    for code in ["", "4", "é", "1é", "40001 and more"] {
        assert_eq!(sorted(code), FailureKind::Row, "{code:?}");
    }
}
