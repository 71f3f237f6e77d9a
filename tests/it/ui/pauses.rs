//! Pauses on the page: made, seen, and ended, each after a confirmation.

use reqwest::StatusCode;

use crate::support::{World, ui::Visitor};

async fn asked(visitor: &Visitor, fields: &[(&str, &str)]) -> (StatusCode, String) {
    let answer = visitor.form("/pauses/ask", fields).send().await.unwrap();
    (answer.status(), answer.text().await.unwrap())
}

#[apply(world_test)]
async fn a_timeout_is_paused_and_resumed_after_a_question() {
    let world = World::new().await;
    let ui = world.ui_with(&[], &[("USER", "ada")]).await;
    let visitor = ui.visitor().await;
    assert!(visitor.page("/pauses").await.1.contains("Nothing is paused."));
    let pause =
        [("timeout", "unpaid"), ("lasts", "1h"), ("why", "<b>provider</b> down"), ("do", "pause")];
    let (status, question) = asked(&visitor, &pause).await;
    assert_eq!(status, StatusCode::OK);
    assert!(
        question.contains("Pause unpaid?") && question.contains("for 1h at the most"),
        "{question}"
    );
    assert!(visitor.page("/pauses").await.1.contains("Nothing is paused."));
    let done = visitor.form("/pauses/do", &pause).send().await.unwrap();
    assert_eq!(done.status(), StatusCode::SEE_OTHER);
    let (_, page) = visitor.page("/pauses").await;
    for said in ["is paused: no worker closes its orders", "&#60;b&#62;provider&#60;/b&#62; down"] {
        assert!(page.contains(said), "no {said} in\n{page}");
    }
    let resume = [("timeout", "unpaid"), ("rate", ""), ("do", "resume")];
    let (status, question) = asked(&visitor, &resume).await;
    assert_eq!(status, StatusCode::OK);
    assert!(question.contains("End the pause of unpaid?"), "{question}");
    visitor.form("/pauses/do", &resume).send().await.unwrap();
    assert!(visitor.page("/pauses").await.1.contains("Nothing is paused."));
    let recorded =
        "SELECT count(*) FROM actions WHERE via = 'page: ada' AND action IN ('pause', 'resume')";
    assert_eq!(world.number(recorded).await, 2);
    let again = visitor.form("/pauses/do", &resume).send().await.unwrap();
    assert!(again.text().await.unwrap().contains("unpaid is not paused"));
}

#[apply(world_test)]
async fn what_is_missing_is_said_and_changes_nothing() {
    let world = World::new().await;
    let ui = world.ui().await;
    let visitor = ui.visitor().await;
    for wrong in [
        &[("timeout", "unpaid"), ("lasts", "1h"), ("do", "pause")][..],
        &[("timeout", "unpaid"), ("why", "x"), ("do", "pause")],
        &[("timeout", "unpaid"), ("lasts", "soon"), ("why", "x"), ("do", "pause")],
        &[("lasts", "1h"), ("why", "x"), ("do", "pause")],
        &[("timeout", "unpaid"), ("rate", "fast"), ("do", "resume")],
        &[("timeout", "unpaid"), ("do", "burn")],
    ] {
        assert_eq!(asked(&visitor, wrong).await.0, StatusCode::BAD_REQUEST, "{wrong:?}");
        let done = visitor.form("/pauses/do", wrong).send().await.unwrap();
        assert_eq!(done.status(), StatusCode::BAD_REQUEST, "{wrong:?}");
    }
    let unknown = [("timeout", "unpayed"), ("lasts", "1h"), ("why", "x"), ("do", "pause")];
    let done = visitor.form("/pauses/do", &unknown).send().await.unwrap();
    assert!(done.text().await.unwrap().contains("did you mean `unpaid`"));
    assert_eq!(world.number("SELECT count(*) FROM pauses").await, 0);
}
