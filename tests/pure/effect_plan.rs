//! Reads PostgreSQL's plan of an effect.

use overdue::internals::doctor::{EffectPlan, RowLocks, Scan};
use serde_json::json;

fn pair(table: &str, index: &str) -> (String, String) {
    (table.to_owned(), index.to_owned())
}

fn locks(table: &str, order: Option<&str>) -> RowLocks {
    RowLocks { table: table.to_owned(), order: order.map(str::to_owned) }
}

#[test]
fn indexes_scans_and_locks_are_found_at_any_depth() {
    let purchase = json!({ "Node Type": "LockRows", "Plans": [
        { "Node Type": "Sort", "Sort Key": ["purchase.no", "purchase.line"], "Plans": [
            { "Node Type": "Bitmap Heap Scan", "Relation Name": "purchase", "Plans": [
                { "Node Type": "Bitmap Index Scan", "Index Name": "purchase_pkey" }]}]}]});
    let article = json!({ "Node Type": "LockRows", "Plans": [
        { "Node Type": "Nested Loop", "Plans": [
            { "Node Type": "CTE Scan", "CTE Name": "back" },
            { "Node Type": "Seq Scan", "Relation Name": "article" }]}]});
    let changed = |table: &str| json!({ "Node Type": "ModifyTable", "Operation": "Update", "Relation Name": table });
    let written =
        json!({ "Node Type": "ModifyTable", "Operation": "Insert", "Relation Name": "outbox" });
    let plan = json!([{ "Plan": { "Node Type": "Append", "Plans": [
        purchase, changed("purchase"), written, article, changed("article"), changed("ledger")]}}]);
    let read = EffectPlan::read(&plan);
    assert_eq!(read.indexes, [pair("purchase", "purchase_pkey")]);
    assert_eq!(read.scans, [Scan { table: "article".to_owned(), rows: None }]);
    let sorted = Some("purchase.no, purchase.line");
    assert_eq!(read.locks, [locks("purchase", sorted), locks("article", None)]);
    assert_eq!(read.unordered, ["article", "ledger"]);
}

#[test]
fn a_join_of_each_row_with_each_is_found_and_one_by_an_index_is_not() {
    let join = |kind: &str, condition: Option<&str>| json!({ "Node Type": kind, "Join Filter": condition });
    let plan = json!([{ "Plan": { "Node Type": "Append", "Plans": [
        join("Nested Loop", Some("(asked.no = purchase.no)")),
        join("Hash Join", Some("(asked.at < purchase.at)")),
        join("Nested Loop", None)]}}]);
    assert_eq!(EffectPlan::read(&plan).pairs, ["(asked.no = purchase.no)"]);
}

#[test]
fn what_is_not_a_plan_says_nothing() {
    for value in [json!(null), json!([]), json!("Seq Scan"), json!({ "Plan": 7 })] {
        assert_eq!(EffectPlan::read(&value), EffectPlan::default());
    }
}
